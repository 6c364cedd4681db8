"""A few reads at a time: many queues may have to read at once, after a start for example."""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from sprocket.base.disk import Steps

AT_ONCE: Final = 4

Done = Callable[[BaseException | None], None]
"""Is given what the work raised, if it did."""


class QueueReads(Protocol):
    """Drives what has to wait for the disk; `runtime.offload.DiskThread` does."""

    def drive(self, work: Steps, done: Done) -> None:
        """Do work in steps, then call `done`, perhaps before this returns."""


class _Waiting(NamedTuple):
    work: Steps
    done: Done


class FewReads:
    """Lets others wait, each queue with one or two reads, while `at_once` are out.

    Threads: event loop only.
    """

    def __init__(self, reads: QueueReads, at_once: int = AT_ONCE) -> None:
        self._reads = reads
        self._at_once = at_once
        self._out_count = 0
        self._waiting: deque[_Waiting] = deque()
        self._is_starting = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is out, and nothing waits."""
        return not (self._out_count or self._waiting)

    def drive(self, work: Steps, done: Done) -> None:
        """Do work in steps when its turn has come; see `QueueReads`."""
        self._waiting.append(_Waiting(work, done))
        self._start()

    def _start(self) -> None:
        if self._is_starting:
            return  # the loop below goes on, however deep what ends at once would nest
        self._is_starting = True
        try:
            while self._waiting and self._out_count < self._at_once:
                self._out_count += 1
                one = self._waiting.popleft()
                self._reads.drive(one.work, self._ending(one.done))
        finally:
            self._is_starting = False

    def _ending(self, done: Done) -> Done:
        def ended(error: BaseException | None) -> None:
            self._out_count -= 1
            try:
                done(error)
            finally:
                self._start()

        return ended
