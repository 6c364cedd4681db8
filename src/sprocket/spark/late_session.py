"""A session that starts when something is first asked of it.

Spark needs a few seconds to start. What can be checked without it, such as arguments and folders,
is checked before, and what needs no Spark after all ends without it.
"""

from collections.abc import Callable
from typing import Any


class LateSession:
    """Stands for a SparkSession, and is asked like one.

    Args:
        start: Starts the session.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._started: Any = None

    def __getattr__(self, name: str) -> Any:
        """Ask the session."""
        return getattr(self.started(), name)

    def started(self) -> Any:
        """Return the SparkSession; start it unless that was done."""
        if self._started is None:
            self._started = self._start()
        return self._started

    def stop(self) -> None:
        """Stop the session if it was started."""
        if self._started is not None:
            self._started.stop()
