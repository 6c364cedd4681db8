"""The log of a running command: lines on stderr, for people and for files.

`structlog` is imported where it is used, as that takes a quarter of what `sprocket --help` takes.
"""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base import log
from sprocket.base.clock import SystemClock
from sprocket.runtime import standard_streams
from sprocket.runtime.log_limit import EventLimit
from sprocket.runtime.standard_streams import LineStream

if TYPE_CHECKING:
    import structlog


class LogFormat(StrEnum):
    """For whom log lines are."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_FORMAT = typer.Option(
    "--log-format",
    envvar="SPROCKET_LOG_FORMAT",
    help="Log lines for people, or one JSON object a line.",
)
_LEVEL = typer.Option(
    "--log-level", envvar="SPROCKET_LOG_LEVEL", help="The lowest level that is logged."
)
FormatOption = Annotated[LogFormat, _FORMAT]
LevelOption = Annotated[LogLevel, _LEVEL]


def log_to_stderr(log_format: LogFormat = LogFormat.TEXT, level: LogLevel = LogLevel.INFO) -> None:
    """Send log lines to stderr, so that stdout stays free for what scripts read.

    Each has date and time with the zone, and its level; of an exception, the traceback.
    """
    import structlog

    structlog.configure(
        processors=_processors(log_format),
        wrapper_class=structlog.make_filtering_bound_logger(level.value),
        logger_factory=lambda *_: _Stderr(),
        cache_logger_on_first_use=True,
    )


class _Stderr:
    """Writes what structlog made. Without a lock, unlike structlog's own: a signal handler logs."""

    def msg(self, line: str) -> None:
        """Write a line."""
        sys.stderr.write(line + "\n")

    debug = info = warning = error = critical = exception = msg


def _processors(log_format: LogFormat) -> "list[structlog.typing.Processor]":
    """Return what makes a line of an event."""
    import structlog

    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if log_format is LogFormat.JSON:
        renderer = structlog.processors.JSONRenderer(default=str)
    return [
        _while_there_is_room,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%f%z", utc=False),
        structlog.processors.format_exc_info,
        renderer,
    ]


def _while_there_is_room(
    _: object, __: str, values: "structlog.typing.EventDict"
) -> "structlog.typing.EventDict":
    """Make no line that would be dropped."""
    import structlog

    stream = sys.stderr
    if isinstance(stream, LineStream) and not stream.writer.has_room:
        stream.writer.drop()
        raise structlog.DropEvent
    return values


class ServerVoice:
    """What a command that serves says beside its log: when it is ready, how it ends.

    Text for people is `sprocket: …`, and for scripts `ready …`; with `--log-format json` each is an
    object as those of the log.
    """

    def __init__(self, log_format: LogFormat) -> None:
        self.limit = EventLimit(SystemClock())
        """For `log_limit.limiting`, while strangers can come in."""
        self._is_json = log_format is LogFormat.JSON
        self._processors = _processors(log_format)

    def line(self, text: str) -> str:
        """Return the text for people."""
        return self._object("info", text, {}) if self._is_json else f"sprocket: {text}"

    def say(self, text: str) -> None:
        """Tell people something, on stderr."""
        sys.stderr.write(self.line(text) + "\n")

    def fail(self, text: str) -> None:
        """Tell people why it does not serve, on stderr."""
        line = self._object("error", text, {}) if self._is_json else f"sprocket: {text}"
        sys.stderr.write(line + "\n")

    def ready(self, words: Mapping[str, str]) -> None:
        """Tell scripts that everything is ready, on stdout."""
        line = " ".join(["ready", *(f"{name}={text}" for name, text in words.items())])
        sys.stdout.write((self._object("info", "ready", words) if self._is_json else line) + "\n")
        sys.stdout.flush()

    def greet(self, rows: Sequence[tuple[str, str]], seconds: float) -> None:
        """Say where everything is, to people on stderr."""
        if self._is_json:
            values = {"seconds": round(seconds, 2), "serves": dict(rows)}
            sys.stderr.write(self._object("info", "serving", values) + "\n")
            return
        if len(rows) == 1:
            ((name, text),) = rows
            self.say(f"{name} {text} is ready after {seconds:.2f} s; Ctrl-C stops it.")
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, show_header=False, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console = Console(stderr=True, highlight=False)
        console.print(f"[bold]Sprocket[/] is ready after {seconds:.2f} s; Ctrl-C stops it.")
        console.print(table, soft_wrap=True)

    def _object(self, level: str, event: str, values: Mapping[str, object]) -> str:
        """Return a line of JSON, made as those of the log are."""
        made: Any = {"event": event, **values}
        for step in self._processors[1:]:
            made = step(None, level, made)
        return str(made)


@contextmanager
def serving(log_format: LogFormat, level: LogLevel) -> Iterator[ServerVoice]:
    """Log as a program that serves does, meanwhile: nothing that is written holds or breaks it.

    What the libraries beside us log goes the same way.
    """
    with standard_streams.queued():
        log_to_stderr(log_format, level)
        voice = ServerVoice(log_format)
        if isinstance(sys.stderr, LineStream):
            writer = sys.stderr.writer
            writer.tell_dropped = lambda count: voice.line(f"{count} lines were dropped here")
            writer.on_tick = voice.limit.tell_due
        others = _Others(logging.WARNING)
        logging.getLogger().addHandler(others)
        try:
            yield voice
        finally:
            logging.getLogger().removeHandler(others)


class _Others(logging.Handler):
    """Takes what libraries log by `logging`, such as asyncio's unhandled exceptions."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one; called by `logging`, in whatever thread."""
        values = {} if record.exc_info is None else {"exc_info": record.exc_info[1]}
        tell = getattr(log.get_limited_logger(record.name), _LEVELS.get(record.levelname, "error"))
        tell("a library tells something", logger=record.name, text=record.getMessage(), **values)


_LEVELS = {"WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of those that serve, for a command that is not asked to log by itself."""

    log_format: Annotated[LogFormat | None, _FORMAT] = None
    log_level: Annotated[LogLevel | None, _LEVEL] = None

    @contextmanager
    def told(self) -> Iterator[None]:
        """Send log lines to stderr for a while, as a server does, if one of the two was given.

        Without, they stay what they are: what the client warns of is a line of the command, see
        `warnings_as_lines`.
        """
        if self.log_format is None and self.log_level is None:
            yield
            return
        with _structlog_kept():
            log_to_stderr(self.log_format or LogFormat.TEXT, self.log_level or LogLevel.INFO)
            yield


@contextmanager
def _structlog_kept() -> Iterator[None]:
    """Restore the settings of structlog at the end of the block."""
    structlog = log.configured()
    before = None if structlog is None else structlog.get_config()
    try:
        yield
    finally:
        structlog = log.configured()
        if structlog is not None and before is not None:
            structlog.configure(**before)
        elif structlog is not None:
            structlog.reset_defaults()


@contextmanager
def only_errors() -> Iterator[None]:
    """Leave out what the client warns of, for a command that brings it about on purpose."""
    logger = logging.getLogger("sprocket")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with _structlog_kept():
            structlog = log.configured()
            if structlog is not None:
                only = structlog.make_filtering_bound_logger(logging.ERROR)
                structlog.configure(wrapper_class=only)
            yield
    finally:
        logger.setLevel(before)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show what the client warns of as lines of the command that runs: `sprocket: …` on stderr."""
    logger = logging.getLogger("sprocket.rocketmq.client")
    lines = _Lines(logging.WARNING)
    logger.addHandler(lines)
    try:
        yield
    finally:
        logger.removeHandler(lines)


class _Lines(logging.Handler):
    """Writes each record as a line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one; called by `logging`, in whatever thread."""
        sys.stderr.write(f"sprocket: {' '.join(record.getMessage().split())}\n")
