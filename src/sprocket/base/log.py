"""Log events, sent to where the program that runs this code wants them.

A program that configured structlog gets our events through it, as `sprocket up` does. In any other
program they go to the standard library's `logging`, under the name of the module, so that a library
never writes to the stdout of a program. Either way the value `exc_info`, an exception, becomes its
traceback, which shows users the line of their listener that failed.

A program that configured structlog has imported it. This module does not: with its imports that
takes 60 ms, which each Python process of Spark's would spend for nothing, and it cannot be done any
more once stdout is closed.

What strangers can cause, a login that is refused or a frame that cannot be read, comes thousands of
times a second if they want it to. It goes through `get_limited_logger`: a program that serves logs
each kind once in an interval, see `runtime.log_limit`.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Logger:
    """A logger of events with named values; made by `get_logger`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **values: Any) -> None:
        """Tell what only a developer of Sprocket wants to know."""
        self._tell("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        """Tell what happens in the normal course of things."""
        self._tell("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        """Tell what somebody may have to look at."""
        self._tell("warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """Tell what went wrong, and goes on."""
        self._tell("error", event, values)

    def critical(self, event: str, **values: Any) -> None:
        """Tell what went wrong, and does not go on."""
        self._tell("critical", event, values)

    def exception(self, event: str, **values: Any) -> None:
        """Tell what went wrong, with the exception that is being handled."""
        self._tell("exception", event, values)

    def _tell(self, level: str, event: str, values: dict[str, Any]) -> None:
        structlog = configured()
        if structlog is not None:
            getattr(structlog.get_logger(self._name), level)(event, **values)
            return
        trace = {"exc_info": values.pop("exc_info")} if "exc_info" in values else {}
        text = " ".join([event, *(f"{name}={value!r}" for name, value in values.items())])
        getattr(logging.getLogger(self._name), level)("%s", text, **trace)


class _LimitedLogger(Logger):
    """A logger of what strangers can cause."""

    __slots__ = ()

    def _tell(self, level: str, event: str, values: dict[str, Any]) -> None:
        if _limit is None or _limit.admits(self._name, level, event, values):
            super()._tell(level, event, values)


class Limit(Protocol):
    """Decides which events of limited loggers are logged; `runtime.log_limit` has one."""

    def admits(self, name: str, level: str, event: str, values: dict[str, Any]) -> bool:
        """Say whether an event is logged now; if not, it is counted and reported later."""


_limit: Limit | None = None


@contextmanager
def limited_by(limit: Limit) -> Iterator[None]:
    """Let `limit` decide, inside the block, what limited loggers log, in all threads."""
    global _limit
    before, _limit = _limit, limit
    try:
        yield
    finally:
        _limit = before


def configured() -> Any | None:
    """Return structlog if this program has configured it, else None; it is not imported."""
    found = sys.modules.get("structlog")
    return found if found is not None and found.is_configured() else None


def get_logger(name: str) -> Logger:
    """Return the logger of a module; `name` is its `__name__`."""
    return Logger(name)


def get_limited_logger(name: str) -> Logger:
    """Return the logger of a module for what anybody can cause who reaches a port."""
    return _LimitedLogger(name)
