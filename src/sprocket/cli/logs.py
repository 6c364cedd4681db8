"""The log of a running command: lines on stderr, for people and for files."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import structlog
import typer


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


FormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        envvar="SPROCKET_LOG_FORMAT",
        help="Log lines for people, or one JSON object a line.",
    ),
]
LevelOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar="SPROCKET_LOG_LEVEL", help="The least grave that is told."),
]


def log_to_stderr(log_format: LogFormat = LogFormat.TEXT, level: LogLevel = LogLevel.INFO) -> None:
    """Send log lines to stderr, so that stdout stays free for what scripts read.

    Each has date and time with the zone, and its level; of an exception, the traceback.
    """
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%f%z", utc=False),
            structlog.processors.format_exc_info,
            _renderer(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level.value),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _renderer(log_format: LogFormat) -> structlog.typing.Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer(default=str)
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


@contextmanager
def only_errors() -> Iterator[None]:
    """Leave out what the client warns of, for a command that brings it about on purpose."""
    logger = logging.getLogger("sprocket")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
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
