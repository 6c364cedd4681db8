"""What is logged goes to stderr; stdout stays free."""

import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
import structlog
import typer
from tests.unit.cli.running import done
from typer.testing import CliRunner

from sprocket.base.log import get_logger
from sprocket.cli.options import expanded
from sprocket.cli.terminal import logs
from sprocket.cli.terminal.logs import LogFormat, LogLevel, LogOptions, log_to_stderr
from sprocket.testing.local_broker import LocalBroker

TOLD = get_logger("sprocket.rocketmq.client.consumer.push")


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
    log = logging.getLogger("sprocket.rocketmq.client.consumer.push")
    with logs.only_errors():
        log.warning("meant")
        log.error("not meant")
    log.warning("later")
    assert [record.message for record in caplog.records] == ["not meant", "later"]


def client(*, leaves: bool = False) -> typer.Typer:
    """Return a command that uses the client, which tells three things meanwhile."""
    app = typer.Typer()

    @app.command()
    @expanded
    def command(topic: str, count: int = 1, *, log: LogOptions) -> None:
        with log.told(), logs.only_errors() if leaves else logs.warnings_as_lines():
            TOLD.debug("looked", topic=topic, count=count)
            TOLD.warning("slow")
            TOLD.error("lost")
        typer.echo("done")

    return app


def told(*options: str, env: dict[str, str] | None = None, leaves: bool = False) -> list[str]:
    """Run the command; return its lines on stderr."""
    result = CliRunner().invoke(client(leaves=leaves), ["orders", *options], env=env)
    assert result.exit_code == 0, result.output
    assert result.stdout == "done\n"
    return result.stderr.splitlines()


def test_a_command_that_was_not_asked_to_log_shows_warnings_as_its_own_lines() -> None:
    """As before it had the options."""
    assert told() == ["sprocket: slow", "sprocket: lost"]


def test_a_command_logs_as_a_server_does_where_that_was_asked_for() -> None:
    """By options or variables; each of the two has the default of a server if only one is given."""
    lines = [json.loads(line) for line in told("--log-format", "json", "--count", "3")]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("warning", "slow"),
        ("error", "lost"),
    ]
    lines = [
        json.loads(line)
        for line in told(
            "--count", "3", env={"SPROCKET_LOG_FORMAT": "json", "SPROCKET_LOG_LEVEL": "debug"}
        )
    ]
    assert lines[0].items() >= {"event": "looked", "topic": "orders", "count": 3}.items()
    assert [line["event"] for line in lines] == ["looked", "slow", "lost"]
    (line,) = told("--log-level", "error")
    assert re.match(r"\d{4}-\d\d-\d\dT.* \[error +] lost", line)


def test_what_a_command_brings_about_is_left_out_of_its_log_too() -> None:
    """Only what is graver is told meanwhile."""
    (line,) = told("--log-format", "json", "--log-level", "debug", leaves=True)
    assert json.loads(line)["event"] == "lost"


@pytest.mark.parametrize("is_configured", [False, True])
def test_the_log_of_a_command_ends_with_it(
    is_configured: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever runs it in their own program, as tests do, has their own log afterwards."""
    try:
        if is_configured:
            log_to_stderr(LogFormat.JSON)
        before = structlog.get_config()
        told("--log-level", "debug")
        told("--log-level", "debug", leaves=True)
        assert structlog.is_configured() is is_configured
        assert structlog.get_config() == before
    finally:
        structlog.reset_defaults()
    capsys.readouterr()


def test_messages_are_sent_and_shown_with_a_log(broker: LocalBroker) -> None:
    """Stdout has what scripts read, whatever is logged."""
    options = ("--log-format", "json", "--log-level", "debug")
    assert "offset 0" in done(broker, "produce", "orders", "hello", *options)
    shown = done(broker, "consume", "orders", "--from", "first", "--count", 1, *options)
    assert "hello" in shown
    assert not structlog.is_configured()


def test_people_and_scripts_are_told_by_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr and stdout, as text; what other libraries log is a line of the log."""
    with logs.serving(LogFormat.TEXT, LogLevel.INFO) as voice:
        voice.say("hello")
        voice.greet([("AMQP", "127.0.0.1:1")], 0.5)
        voice.ready({"x": "1", "y": "2"})
        logging.getLogger("asyncio").error("a task was lost: %s", "t")
    written = capsys.readouterr()
    assert written.out == "ready x=1 y=2\n"
    first, second, third = written.err.splitlines()
    assert first == "sprocket: hello"
    assert second == "sprocket: AMQP 127.0.0.1:1 is ready after 0.50 s; Ctrl-C stops it."
    assert "[asyncio]" in third
    assert "a task was lost: t" in third


def test_a_server_that_logs_objects_says_everything_in_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever stream it goes to."""
    with logs.serving(LogFormat.JSON, LogLevel.INFO) as voice:
        voice.greet([("AMQP", "127.0.0.1:1"), ("data", "/d")], 0.5)
        voice.ready({"x": "1"})
        voice.fail("no port")
    out, err = capsys.readouterr()
    told = [json.loads(line) for line in (out + err).splitlines()]
    assert [(one["event"], one["level"]) for one in told] == [
        ("ready", "info"),
        ("serving", "info"),
        ("no port", "error"),
    ]
    assert told[0]["x"] == "1"
    assert told[1]["serves"] == {"AMQP": "127.0.0.1:1", "data": "/d"}
