"""What has to be done once all that arrived in a turn of the loop was taken.

Whoever has something to do says so with `mark`; whoever has nothing costs nothing. Queues come
first, and what they cause in other queues; then channels, which tell their clients.

Threads: event loop only.
"""

from collections.abc import Callable
from typing import Final, Protocol

from sprocket.base import log
from sprocket.runtime.timers import Timers

ROUNDS_MAX: Final = 4
"""Rounds of queues in one turn; whoever is not done by then goes on when others had theirs."""

_log = log.get_logger(__name__)


class Turner(Protocol):
    """Who has something to do at the end of a turn."""

    def turn(self) -> None:
        """Do it."""


class Turns:
    """Calls everybody once who was marked.

    Args:
        timers: The event loop's.
        ended: Called after each turn, when storages have been given what it is about.
    """

    def __init__(self, timers: Timers, ended: Callable[[], None] = lambda: None) -> None:
        self._timers = timers
        self._ended = ended
        self._first: list[Turner] = []
        self._last: list[Turner] = []
        self._is_due = False

    def mark(self, turner: Turner) -> None:
        """Call a queue or what belongs to queues; it marks itself once until it is called."""
        self._first.append(turner)
        self._schedule()

    def mark_last(self, turner: Turner) -> None:
        """Call somebody when queues are done."""
        self._last.append(turner)
        self._schedule()

    def run(self) -> None:
        """Call whoever was marked; what is left, or comes while it runs, may wait for the next."""
        self._is_due = True
        for _ in range(ROUNDS_MAX):
            now, self._first = self._first, []
            if not now:
                break
            _call(now)
        now, self._last = self._last, []
        _call(now)
        self._ended()
        self._is_due = False
        if self._first or self._last:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._timers.call_soon(self.run)


def _call(turners: list[Turner]) -> None:
    for one in turners:
        try:
            one.turn()
        except Exception:  # others have their turn all the same
            _log.exception("a turn failed", who=repr(one))
