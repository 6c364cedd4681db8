"""Work that reads on the event loop, while other threads wait for the disk.

run → attempt → done
          ↘ would block → a thread fetches → the next attempt, on the loop → …

The threads do nothing else, so a read waits neither for a sync that stalls nor for upkeep.
`base.nonblocking` says what work may do in an attempt.
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, TypeVarTuple

from sprocket.base.disk import Attempt, Fetched, NonblockingDisk, WouldBlock
from sprocket.base.errors import DiskBusy
from sprocket.runtime.offload import DiskThread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

READ_THREADS = 4
"""This many reads are out at once: a disk serves several sooner together than one by one, and one
that takes long does not hold up all others."""


class Reads(Protocol):
    """Does work that reads; `ColdReads` is it."""

    def run(self, work: Callable[[], None], failed: Callable[[Exception], None], /) -> None:
        """Do some work, now if the disk is not needed for it, else in a later turn."""


class ColdReads:
    """Does work that reads, in attempts; no more than `waiting_max` of it waits for the disk.

    Threads: event loop only.
    """

    def __init__(self, disk: NonblockingDisk, waiting_max: int) -> None:
        self._disk = disk
        self._waiting_max = waiting_max
        self._threads = DiskThread("sprocket-read", threads=READ_THREADS, jobs_max=waiting_max)
        self._first = Attempt(threading.get_ident)

    def run(self, work: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Do some work, now if the disk is not needed for it, else in a later turn.

        Args:
            work: May end at any read and is begun again then; see `base.nonblocking`.
            failed: Is told what a later attempt raised, or `DiskBusy`.

        Raises:
            DiskBusy: Too much work waits for the disk, or it is to stop.
            Exception: What the first attempt raises.
        """
        try:
            self.attempt(work)
        except WouldBlock as stop:
            self.go_on(stop, work, failed)

    def attempt(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Make the first attempt at some work, for which nothing was fetched yet.

        Raises:
            WouldBlock: It needs the disk, and is to be given to `go_on`.
            Exception: Whatever the work raises.
        """
        disk = self._disk
        outer, disk.current = disk.current, self._first
        try:
            return work(*args)
        finally:
            disk.current = outer

    def go_on(
        self, stop: WouldBlock, work: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """Do work whose first attempt has ended, once the disk brought what it lacks; see `run`.

        Raises:
            DiskBusy: See `run`.
        """
        self._fetch(Attempt(threading.get_ident), stop, work, failed)

    def _fetch(
        self,
        attempt: Attempt,
        stop: WouldBlock,
        work: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        if not self._threads.has_room:
            attempt.close()
            raise DiskBusy(f"{self._threads.waiting_count} reads wait for the disk already")

        def done(fetched: Fetched | None, error: BaseException | None) -> None:
            if fetched is None:
                assert error is not None
                raise error
            attempt.note(fetched)
            self._again(attempt, work, failed)

        self._threads.submit(stop.fetch, done)

    def _again(
        self, attempt: Attempt, work: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        try:
            try:
                self._disk.within(attempt, work)
            except WouldBlock as stop:
                self._fetch(attempt, stop, work, failed)
                return
        except Exception as error:  # whoever wants the work done is told, as at its first attempt
            failed(error)
        attempt.close()

    async def stop(self) -> None:
        """End what waits for the disk: it is done if that was all it lacked, else refused."""
        await self._threads.stop()
