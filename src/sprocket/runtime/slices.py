"""Long work on the event loop, in slices between which it serves everybody else.

Some answers are about everything that a broker has: its topics, its groups, all that groups have
committed. What they read belongs to the loop, so they are made on the loop; but with 10,000 groups
they take a second. So such work is a generator of calls, each of a millisecond at most. In a turn
of the loop (`runtime.turns`) as many are made as fit into `SLICE_SECONDS`; then come all others,
and the next turn goes on. Work begun later takes turns with what is under way.

A call may read what only the disk has; it waits for that as `cold_reads` says, and may be begun
anew. What lies between the calls sees the world as it is then: it may have changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from sprocket.base.clock import Clock
from sprocket.base.disk import Call, StepsTo
from sprocket.base.errors import DiskBusy
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.turns import WORK_PER_SECOND, Turns

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Sliced: TypeAlias = StepsTo[T]
"""Work in pieces: it gives calls, is given what they returned, and returns what came of it all.

A call may end at any read and be begun again, see `base.nonblocking`."""

SLICE_SECONDS = 0.003
"""How long the loop is held in one turn, but for the rest of the last call."""

SLICE_WORK = round(SLICE_SECONDS * WORK_PER_SECOND)
"""The same, for turns in which nothing else is done."""

WORKS_MAX = 100
"""How much may be under way; each has a large answer in the making."""


@dataclass(slots=True, eq=False)
class _Work(Generic[T_co]):
    """Some work, and what its last call gave; any is a `_Work[object]`."""

    pieces: Sliced[T_co]
    done: Callable[[T_co], None]
    failed: Callable[[Exception], None]
    result: object = None
    error: Exception | None = None
    is_called: bool = True
    """The last call has ended; if not, it waits for the disk."""
    is_parked: bool = False


@dataclass(frozen=True, slots=True)
class Slicer:
    """Does such work for coroutines; its calls read nothing from the disk."""

    _turns: Turns
    _clock: Clock

    async def run(self, work: Sliced[T]) -> T:
        """Do some work, and let others have their turns between slices.

        Raises:
            Exception: What the work raises.
        """
        result: object = None
        began = self._clock.monotonic()
        while True:
            try:
                call = work.send(result)
            except StopIteration as end:
                found: T = end.value
                return found
            result = call()
            took = self._clock.monotonic() - began
            if took >= SLICE_SECONDS:
                self._turns.count_time(took)
                await self._turns.pass_turn()
                began = self._clock.monotonic()


class Slices:
    """See the head of the module; calls that lack something wait for the disk in `reads`.

    Threads: event loop only.
    """

    def __init__(self, reads: ColdReads, turns: Turns, clock: Clock) -> None:
        self._reads = reads
        self._turns = turns
        self._clock = clock
        self._works: set[_Work[object]] = set()
        self._is_stopped = False

    def run(
        self, work: Sliced[T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Begin some work in the next turn of the loop; its end is one call of `done` or `failed`.

        Raises:
            DiskBusy: Too much is under way, or it is to stop.
        """
        if self._is_stopped or len(self._works) >= WORKS_MAX:
            raise DiskBusy(f"{len(self._works)} long answers are being made already")
        one = _Work(work, done, failed)
        self._works.add(one)
        self._slice_later(one)

    def stop(self) -> None:
        """Close what is under way: nobody is told."""
        self._is_stopped = True
        for one in self._works:
            one.pieces.close()
        self._works.clear()

    def _slice_later(self, one: _Work[object]) -> None:
        self._turns.later(lambda: self._slice(one))

    def _slice(self, one: _Work[object]) -> None:
        """Make as many calls as a turn has time for."""
        if one not in self._works:  # all was stopped
            return
        began = self._clock.monotonic()
        took = 0.0
        while self._go_on(one):
            took = self._clock.monotonic() - began
            if took >= SLICE_SECONDS:
                self._slice_later(one)
                break
        self._turns.count_time(took)

    def _go_on(self, one: _Work[object]) -> bool:
        """Make one more call; say whether the next one may be made."""
        try:
            call = one.pieces.send(one.result) if one.error is None else one.pieces.throw(one.error)
        except StopIteration as end:
            self._works.discard(one)
            one.done(end.value)
            return False
        except Exception as error:  # whoever wants the work done is told
            self._works.discard(one)
            one.failed(error)
            return False
        one.is_called = one.is_parked = False
        self._call(one, call)
        one.is_parked = not one.is_called
        return one.is_called

    def _call(self, one: _Work[object], call: Call) -> None:
        def attempt() -> None:
            end(call(), None)

        def end(result: object, error: Exception | None) -> None:
            one.result, one.error, one.is_called = result, error, True
            if one.is_parked:
                self._slice_later(one)

        try:
            self._reads.run(attempt, lambda error: end(None, error))
        except Exception as error:  # the work may catch it
            end(None, error)
