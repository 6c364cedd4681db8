"""The scheduler of the event loop: what is done in which turn, and how much of it.

What has to be done once all that arrived in a turn of the loop was taken is called after it.
Whoever has something to do says so with `mark`; whoever has nothing costs nothing. Queues come
first, and what they cause in other queues; then channels, which tell their clients; then clients
that were cut short.

One message may be work for thousands of queues, and one read brings thousands of messages. So
everybody counts what they do in `work_left`: a message put into a queue, given to somebody or
settled is 1, and so are 4 us of anything else (`count_time`). A queue or channel that has used it
up leaves the rest to a later turn (`later`). So a turn is short, whatever clients do, and in
between the loop serves others, sends heartbeats and handles signals.

Work that takes several turns is a generator that yields where others must have theirs (`drive`).
The name of a function that returns one ends in `_in_turns`. Work that waits for the disk is another
kind, whose names end in `_steps`: see `base.disk.steps`, and `slices` for its reads on the loop.

Invariants

1. A turn does `QUEUE_WORK` for queues and its whole work for clients at most, but for the last step
   of each.
2. Whatever was marked is called in the order of the marks; a channel after all queues that were
   marked before it.
3. Clients that were cut short continue in the order in which that happened.

Threads: event loop only.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from sprocket.base import log
from sprocket.runtime.timers import Timers

ROUNDS_MAX: Final = 4
"""Rounds of queues in one turn; whoever is not done by then goes on when others had theirs."""
TURN_WORK: Final = 10_000
"""Some 40 ms: a message for many queues costs 3 to 4 us for each. With a quarter of it the messages
of 64 clients that could share a sync are cut in pieces, and each costs a third more."""
QUEUE_WORK: Final = 5000
"""Some 20 ms."""
SHARE_WORK: Final = 1000
"""What one client has done before others go on that were cut short as well."""
SMALL_WORK: Final = 100
"""What a client may still have done in a turn that is over, so that who asks for little need not
wait: 0.4 ms."""
CALL_WORK: Final = 5
"""What it counts to call a queue, or to do what a client asks for, beside the messages: 20 us."""
WORK_PER_SECOND: Final = 250_000
"""What counts 1 takes some 4 us."""

_log = log.get_limited_logger(__name__)


class Turner(Protocol):
    """A queue or a channel that has something to do at the end of a turn."""

    def turn(self) -> None:
        """Do it."""


class Turns:
    """Calls everybody once who was marked.

    Args:
        timers: The event loop's.
        whole_work: How much a turn does for clients.
    """

    def __init__(self, timers: Timers, whole_work: int = TURN_WORK) -> None:
        self._timers = timers
        self._whole_work = whole_work
        self._first: deque[Turner] = deque()
        self._last: list[Turner] = []
        self._round_count = 0
        """How many of the first belong to the round that is under way."""
        self._behind: list[Turner] = []
        """Those who wait for the end of that round."""
        self._cut_short: deque[Callable[[], None]] = deque()
        self._is_due = False
        self.number = 0
        """Of the turn."""
        self.work_left = whole_work
        """How much more may be done in this turn; whoever does something subtracts it."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more should be begun in this turn."""
        return self.work_left <= 0

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for a turn."""
        return not self._is_due

    def mark(self, turner: Turner) -> None:
        """Call a queue or what belongs to queues; it marks itself once until it is called."""
        self._first.append(turner)
        self._schedule()

    def mark_last(self, turner: Turner) -> None:
        """Call somebody when the queues are done that are marked by now."""
        self._last.append(turner)
        self._schedule()

    def later(self, go_on: Callable[[], None]) -> None:
        """Have a queue or channel that was cut short continue, once, after the others' turn."""
        self._cut_short.append(go_on)
        self._schedule()

    def count_time(self, seconds: float) -> None:
        """Count what took this long, and has no other measure; 1 at least."""
        self.work_left -= max(round(seconds * WORK_PER_SECOND), 1)

    def drive(
        self,
        work: Iterator[None],
        done: Callable[[], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Do work, now and after each of its yields in a later turn; then call `done`.

        Args:
            work: What it yields for, others do first.
            done: Called once, perhaps before this returns, unless the work fails.
            failed: Told why; without it, what the work raises goes on to the caller of the turn.
        """
        try:
            for _ in work:
                self.later(lambda: self.drive(work, done, failed))
                return
        except Exception as error:
            if failed is None:
                raise
            failed(error)
        else:
            done()

    async def finish(self, work: Iterator[None]) -> None:
        """Do work, and wait until it is done; raises what the work raises."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(error: Exception | None = None) -> None:
            if ended.done():  # nobody waits any more
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        self.drive(work, end, end)
        await ended

    async def pass_turn(self) -> None:
        """Wait until everybody had their turn who waits for one now."""
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.mark_last(_Passing(passed))
        await passed

    def share(self) -> "Share":
        """Return what one client may have done now, before others have theirs."""
        return Share(self)

    def run(self) -> None:
        """Call whoever was marked; what is left, or comes while it runs, waits for the next."""
        self._is_due = True
        self.number += 1
        self.work_left = QUEUE_WORK
        for one in self._call_first():
            _call(one.turn)
        self.work_left = self._whole_work
        cut_short = self._cut_short
        while cut_short and self.work_left > 0:
            _call(cut_short.popleft())
        self._is_due = False
        if self._first or self._last or cut_short:
            self._schedule()

    def _call_first(self) -> Iterator[Turner]:
        """Give the queues, then the channels, that have their turn now."""
        first = self._first
        done: list[Turner] = []
        for _ in range(ROUNDS_MAX):
            if not self._round_count:
                self._round_count = len(first)
                self._behind, self._last = self._last, []
            while self._round_count and self.work_left > 0:
                self._round_count -= 1
                self.work_left -= CALL_WORK
                yield first.popleft()
            if self._round_count:
                break
            done += self._behind
            self._behind = []
            if not first:
                done += self._last
                self._last = []
                break
        yield from done

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._timers.call_soon(self.run)


class Share:
    """What one client may have done before others have their turn.

    A step that does not fit into what is left is done whole, but in a turn that is over only if it
    is small.
    """

    __slots__ = ("_limit", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        left = turns.work_left
        self._limit = min(max(left - SHARE_WORK, 0), left)

    def has_room(self, work: int = 0) -> bool:
        """Say whether a step of this much work may be done in this turn."""
        left = self._turns.work_left
        return left >= self._limit and (left > 0 or work <= SMALL_WORK)

    def wait(self, work: int = 0) -> Iterator[None]:
        """Yield if a step of this much work has to wait for a later turn, with a new share."""
        if not self.has_room(work):
            yield
            self._limit = max(self._turns.work_left - SHARE_WORK, 0)


@dataclass(frozen=True, slots=True)
class _Passing:
    """Somebody who waits until others had their turn."""

    passed: asyncio.Future[None]

    def turn(self) -> None:
        """Let them go on."""
        if not self.passed.done():
            self.passed.set_result(None)


def _call(turn: Callable[[], None]) -> None:
    try:
        turn()
    except Exception:  # others have their turn all the same
        _log.exception("a turn failed", who=repr(turn))
