"""Threads and reads that work at once."""

from collections.abc import Callable
from typing import Any

from sprocket.base.disk import PendingSync
from sprocket.base.errors import StoreError


class InlineThread:
    """A disk thread that works at once."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Do a job and hand it back."""
        try:
            result = job()
        except StoreError as error:
            done(None, error)
        else:
            done(result, None)

    def run_within(
        self,
        _: float,
        job: Callable[[], Any],
        done: Callable[[Any, Any], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,  # noqa: ARG002
    ) -> None:
        """Do the same."""
        if beside is not None:
            beside()
        self.submit(job, done)


class InlineReads:
    """Does work that reads at once."""

    def run(self, work: Callable[[], None], _: Callable[[Exception], None]) -> None:
        """Do it."""
        work()
