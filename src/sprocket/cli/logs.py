"""What the running process tells about itself: lines on stderr, for people and for files."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


def log_to_stderr() -> None:
    """Send log lines to stderr, so that stdout stays free for what scripts read."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


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
