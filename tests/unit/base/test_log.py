"""Events reach the program's own logging, and never its stdout."""

import logging

import pytest
import structlog

from sprocket.base import log

LEVELS = ("debug", "info", "warning", "error", "critical", "exception")


def test_events_go_to_logging_by_default(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the module's name, the values after the event, each at its level."""
    structlog.reset_defaults()
    caplog.set_level(logging.DEBUG)
    logger = log.get_logger("a.module")
    for level in LEVELS:
        getattr(logger, level)("happened", where="100%", count=2)
    assert [r.getMessage() for r in caplog.records] == ["happened where='100%' count=2"] * 6
    assert [r.levelname.lower() for r in caplog.records] == [*LEVELS[:5], "error"]
    assert {r.name for r in caplog.records} == {"a.module"}
    assert capsys.readouterr().out == ""


def test_a_program_with_structlog_gets_them_there() -> None:
    """With its values apart."""
    with structlog.testing.capture_logs() as logs:
        log.get_logger("a.module").warning("happened", count=2)
    assert logs == [{"event": "happened", "count": 2, "log_level": "warning"}]


def test_an_exception_brings_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    """The one that is being handled."""
    structlog.reset_defaults()
    try:
        raise ValueError("no")
    except ValueError:
        log.get_logger("a.module").exception("failed")
    assert caplog.records[0].exc_info is not None


def test_an_exception_that_was_caught_before_brings_its_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is given as `exc_info`, and used to become the text of its repr; its lines are wanted."""
    structlog.reset_defaults()
    try:
        raise ValueError("the oven is cold")
    except ValueError as error:
        kept = error
    log.get_logger("a.module").error("listener failed", queue="q", exc_info=kept)
    (record,) = caplog.records
    assert record.getMessage() == "listener failed queue='q'"
    assert record.exc_info is not None
    assert record.exc_info[1] is kept
    assert 'raise ValueError("the oven is cold")' in caplog.text
