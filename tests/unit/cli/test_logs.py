"""What is logged goes to stderr; stdout stays free."""

import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
import structlog

from sprocket.base.log import get_logger
from sprocket.cli import logs
from sprocket.cli.logs import LogFormat, LogLevel, log_to_stderr


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


@pytest.fixture
def plain() -> Iterator[None]:
    """Leave structlog as it was."""
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("plain")
def test_a_line_has_date_zone_and_level_and_an_error_its_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of an exception that was caught elsewhere, too: whoever wrote the listener sees its line."""
    log_to_stderr()
    try:
        raise ValueError("the oven is cold")
    except ValueError as error:
        get_logger("a.module").error("listener failed", queue="q", exc_info=error)
    first, *trace = capsys.readouterr().err.splitlines()
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d{4} \[error +] listener failed +queue=q", first
    )
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "ValueError: the oven is cold"


@pytest.mark.usefixtures("plain")
def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The trace included; what JSON has no form for is written as text."""
    log_to_stderr(LogFormat.JSON)
    try:
        raise ValueError("the oven is cold")
    except ValueError as error:
        get_logger("a.module").error("listener failed", queue={1}, exc_info=error)
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told.pop("exception").endswith("ValueError: the oven is cold")
    datetime.strptime(told.pop("timestamp"), "%Y-%m-%dT%H:%M:%S.%f%z")
    assert told == {"event": "listener failed", "level": "error", "queue": "{1}"}


@pytest.mark.usefixtures("plain")
def test_what_is_less_grave_than_the_level_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all levels, those from the chosen one on."""
    names = list(LogLevel)
    for number, level in enumerate(names):
        log_to_stderr(LogFormat.JSON, level)
        for name in names:
            getattr(get_logger("a.module"), name)("told")
        lines = capsys.readouterr().err.splitlines()
        assert [json.loads(line)["level"] for line in lines] == names[number:]


def test_warnings_can_be_left_out_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Errors are told all the same, and afterwards everything is again."""
    log = logging.getLogger("sprocket.rocketmq.client.push")
    with logs.only_errors():
        log.warning("meant")
        log.error("not meant")
    log.warning("later")
    assert [record.message for record in caplog.records] == ["not meant", "later"]
