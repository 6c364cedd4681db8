"""What is logged goes to stderr; stdout stays free."""

import pytest
import structlog

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
