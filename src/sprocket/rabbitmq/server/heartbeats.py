"""Heartbeats: a peer that is silent for too long is dead; an idle side sends one in time.

Every half of the interval that a client chose, a connection on which nothing was written since the
last look is sent a heartbeat. Every whole interval it is looked whether anything was read, and
after two looks in a row at which nothing was, the connection is dropped.

All connections of a server share one timer, and those that are not due cost nothing.

Source: `rabbit_heartbeat`.
"""

import heapq
from itertools import count
from typing import Final, Protocol

from sprocket.base.clock import Clock
from sprocket.runtime.timers import Timer, Timers

LOOKS_MAX: Final = 2
"""Looks in a row at which nothing had come."""
TOGETHER_SECONDS: Final = 0.05
"""Connections that are due within this long are looked at together."""
_CANCELLED_MIN = 1000


class Beating(Protocol):
    """A connection, as far as heartbeats know it."""

    was_written: bool
    """Set when anything is sent; reset here."""

    @property
    def was_read(self) -> bool:
        """Whether anything came; reset here."""

    @was_read.setter
    def was_read(self, value: bool) -> None: ...

    @property
    def is_reading(self) -> bool:
        """Whether the server reads it at the moment: else nothing can come."""

    def beat(self) -> None:
        """Send a heartbeat."""

    def drop(self, reason: str) -> None:
        """End it at once."""


class HeartbeatWatch:
    """One connection that is watched; made by `Heartbeats.watch`."""

    __slots__ = ("connection", "due", "half_seconds", "looks", "missed")

    def __init__(self, connection: Beating, half_seconds: float, due: float) -> None:
        self.connection: Beating | None = connection
        """None once it is not watched any more."""
        self.half_seconds = half_seconds
        self.due = due
        self.looks = 0
        self.missed = 0


class Heartbeats:
    """Watches the connections of a server.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._due: list[tuple[float, int, HeartbeatWatch]] = []
        self._numbers = count()
        self._cancelled_count = 0
        self._timer: Timer | None = None
        self._timer_due = 0.0

    @property
    def watch_count(self) -> int:
        """How many connections are watched."""
        return len(self._due) - self._cancelled_count

    @property
    def entries_count(self) -> int:
        """How many are kept; of those not watched any more, a thousand or as many again."""
        return len(self._due)

    def watch(self, connection: Beating, interval_seconds: int) -> HeartbeatWatch:
        """Begin to watch a connection that has just been read and written.

        Args:
            connection: Which one.
            interval_seconds: As the client chose it, from 1 on.
        """
        half = interval_seconds / 2
        watch = HeartbeatWatch(connection, half, self._clock.monotonic() + half)
        self._push(watch)
        self._arm()
        return watch

    def cancel(self, watch: HeartbeatWatch) -> None:
        """Watch a connection no longer; a second call does nothing."""
        if watch.connection is None:
            return
        watch.connection = None
        self._cancelled_count += 1
        if self._cancelled_count > max(_CANCELLED_MIN, len(self._due) // 2):
            self._due = [one for one in self._due if one[2].connection is not None]
            heapq.heapify(self._due)
            self._cancelled_count = 0

    def stop(self) -> None:
        """Look at nobody any more."""
        self._due.clear()
        self._cancelled_count = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _push(self, watch: HeartbeatWatch) -> None:
        heapq.heappush(self._due, (watch.due, next(self._numbers), watch))

    def _arm(self) -> None:
        """Have the timer run when the first one is due."""
        if not self._due:
            return
        due = self._due[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        seconds = max(due - self._clock.monotonic(), 0) + TOGETHER_SECONDS
        self._timer = self._timers.call_later(seconds, self._turn)

    def _turn(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            watch = heapq.heappop(self._due)[2]
            connection = watch.connection
            if connection is None:
                self._cancelled_count -= 1
            elif _look(watch, connection):
                watch.due = max(watch.due + watch.half_seconds, now)
                self._push(watch)
            else:
                watch.connection = None
                connection.drop(f"nothing came for {2 * LOOKS_MAX * watch.half_seconds:g} s")
        self._arm()


def _look(watch: HeartbeatWatch, connection: Beating) -> bool:
    """Look at a connection that is due; say whether it goes on."""
    if not connection.was_written:
        connection.beat()
    connection.was_written = False
    watch.looks += 1
    if watch.looks % 2:
        return True
    if connection.was_read or not connection.is_reading:
        watch.missed = 0
    else:
        watch.missed += 1
    connection.was_read = False
    return watch.missed < LOOKS_MAX
