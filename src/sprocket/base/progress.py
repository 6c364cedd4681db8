"""The progress of long work: reported to its callers, which may end it.

Work that reads or writes much calls its `Step` at least every few milliseconds of its own, so that
people see progress, and a process that is told to stop need not be killed.
"""

from typing import Protocol


class Step(Protocol):
    """Takes note of how far some work is."""

    def __call__(self, what: str, done: int, total: int = 0) -> None:
        """Take note.

        Args:
            what: What is counted, as people read it: `queues looked at`.
            done: How many.
            total: Of how many; 0 if nobody knows.

        Raises:
            BaseException: Whatever ends the work here, as any error would.
        Threads: the one that does the work.
        """


def unwatched(what: str, done: int, total: int = 0) -> None:
    """Do nothing: nobody watches the work."""
