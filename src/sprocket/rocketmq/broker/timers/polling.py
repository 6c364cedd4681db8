"""When the work on timed messages is done: one timer for all of it, and pauses after failures."""

from collections.abc import Callable
from math import ceil

from sprocket.base import log
from sprocket.base.errors import StoreError
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

POLL_SECONDS_MIN = 0.01
"""What is due one after the other within this time shares a sync; it comes so much late."""
POLL_SECONDS_MAX = 1.0
"""How often the topic and the wheel are looked at when nothing is known to come."""
EXPECT_SECONDS = 1.0
"""For how long after a message was sent the topic is looked at every `POLL_SECONDS_MIN`."""
RETRY_SECONDS = 1.0
"""How long a piece of work pauses after a failure; the disk may be full."""
UNREADABLE_LOOKS_MAX = 30
"""Looks, a second apart, after which a message that the disk does not give counts as lost."""

ROUNDING_MS = 0.001
"""What seconds as a float may be off by."""


class Polling:
    """Has the work done that can be, whenever something may be to do.

    Args:
        poll: Begins what can be begun; returns how many seconds the next look may wait.
        reads: Asks the disk for what is not in memory.
        monotonic: The clock by which waits are measured, in seconds.
        timers: The event loop's.

    Threads: event loop only.
    """

    def __init__(
        self,
        poll: Callable[[], float],
        reads: Reads,
        monotonic: Callable[[], float],
        timers: Timers,
    ) -> None:
        self._poll = poll
        self._reads = reads
        self._monotonic = monotonic
        self._timers = timers
        self.is_stopped = False
        """Whether nothing more may begin."""
        self._is_soon = False
        self._looks = 0
        self._paused_until = 0.0
        self._expected_until = 0.0
        self._timer: Timer | None = None
        self._timer_at = 0.0

    def stop(self) -> None:
        """Look no more."""
        self.is_stopped = True
        self._cancel()

    def soon(self) -> None:
        """Look in the next turn of the loop."""
        if not self._is_soon and not self.is_stopped:
            self._is_soon = True
            self._timers.call_soon(self._look)

    def next_turn(self, work: Callable[[], None]) -> None:
        """Do some work in the next turn of the loop."""
        self._timers.call_soon(work)

    def within(self, seconds: float) -> None:
        """Look at the latest after a time, which is brought between the bounds of a poll."""
        if self.is_stopped:
            return
        at = self._monotonic() + min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._timers.call_later(at - self._monotonic(), self._look)

    def expect(self) -> None:
        """Look often for a while: a message was sent."""
        self._expected_until = self._monotonic() + EXPECT_SECONDS
        self.within(POLL_SECONDS_MIN)

    @property
    def is_paused(self) -> bool:
        """Whether something has failed a short while ago."""
        return self._monotonic() < self._paused_until

    def pause(self, what: str, error: Exception) -> None:
        """Say that a piece of work has failed, which is tried again later."""
        if not isinstance(error, StoreError):
            raise error
        _log.error(f"{what}; trying again", why=str(error))
        self._looks += 1
        self._paused_until = self._monotonic() + RETRY_SECONDS
        self.within(RETRY_SECONDS)

    def succeeded(self) -> None:
        """Say that a piece of work was done that may have failed before."""
        self._looks = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether what the disk does not give counts as lost by now."""
        return self._looks >= UNREADABLE_LOOKS_MAX

    def run(self, work: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Do some work that reads, now if the disk is not needed for it, else in a later turn."""
        try:
            self._reads.run(work, failed)
        except StoreError as error:
            failed(error)

    def now_ms(self, *, up: bool) -> int:
        """Return the time of the monotonic clock in whole milliseconds, rounded up or down."""
        ms = self._monotonic() * 1000
        return ceil(ms - ROUNDING_MS) if up else int(ms + ROUNDING_MS)

    def seconds_until(self, at_ms: int) -> float:
        """Return how long until a time of the monotonic clock."""
        return at_ms / 1000 - self._monotonic()

    def _look(self) -> None:
        self._is_soon = False
        self._cancel()
        if self.is_stopped:
            return
        try:
            wait = self._poll()
        except StoreError as error:  # queues are behind the log, and the disk is full
            self.pause("timed messages cannot be looked for", error)
            return
        if self._is_soon:
            return
        if self._monotonic() < self._expected_until:
            wait = min(wait, POLL_SECONDS_MIN)
        self.within(wait)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
