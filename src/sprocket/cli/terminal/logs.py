"""The log of a running command: lines on stderr, for people and for files.

`structlog` is imported where it is used, as that takes a quarter of what `sprocket --help` takes.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from sprocket.base import log


class LogFormat(StrEnum):
    """For whom log lines are."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """What is told: this and what is graver."""

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

    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if log_format is LogFormat.JSON:
        renderer = structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%f%z", utc=False),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level.value),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


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
    """Have structlog afterwards as it is now."""
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
