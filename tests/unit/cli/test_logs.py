"""What is logged goes to stderr; stdout stays free."""

import logging

import pytest
import structlog

from sprocket.cli import logs
from sprocket.cli.logs import log_to_stderr


def test_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """With level and context, below a warning nothing from `debug`."""
    try:
        log_to_stderr()
        structlog.get_logger().warning("look", where="here")
        structlog.get_logger().debug("hidden")
        out, err = capsys.readouterr()
        assert out == ""
        assert "look" in err
        assert "where=here" in err
        assert "hidden" not in err
    finally:
        structlog.reset_defaults()


def test_warnings_can_be_left_out_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Errors are told all the same, and afterwards everything is again."""
    log = logging.getLogger("sprocket.rocketmq.client.push")
    with logs.only_errors():
        log.warning("meant")
        log.error("not meant")
    log.warning("later")
    assert [record.message for record in caplog.records] == ["not meant", "later"]
