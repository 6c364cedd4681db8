"""How much users' expressions may take of one turn of the event loop.

Whoever can connect can send an expression, and pull by it as often as they like. So work by filters
is charged for what it cost, and once a turn has spent its share, more of it waits for the next one.

Invariants

1. Work that waits is done in the order in which it came, some of it in each turn.
2. At most `WAITING_MAX` of it waits; more is refused.
"""

from collections import deque
from collections.abc import Callable

from sprocket.base.errors import DiskBusy, SprocketError
from sprocket.runtime.timers import Timers

COST_PER_TURN = 20_000
"""In the units of `MessageFilter.cost`: some 4 ms, and the last work of a turn may be dearer by as
much again."""
WAITING_MAX = 10_000
"""Work that waits, some 500 bytes each."""


class TurnSpent(SprocketError):
    """Filters have had their share of this turn; try again by `FilterTurns.later`."""


class FilterTurns:
    """The share of filters in the turns of the loop.

    Threads: event loop only.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._left = COST_PER_TURN
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_next_due = False

    def check(self) -> None:
        """Raise TurnSpent if this turn has no more time for filters."""
        if self._left <= 0:
            raise TurnSpent("filters have had their share of this turn")

    def charge(self, cost: int) -> None:
        """Note what a filter has cost."""
        self._left -= cost
        self._come_back()

    def run(self, work: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Do some work, in this turn if there is time for it.

        Args:
            work: May raise TurnSpent, and is begun again in a later turn then.
            failed: Is told what else it raised, or DiskBusy: too much waits already.
        """
        try:
            try:
                work()
            except TurnSpent:
                self.later(lambda: self.run(work, failed))
        except Exception as error:  # whoever wants the work done is told
            failed(error)

    def later(self, work: Callable[[], None]) -> None:
        """Do some work in one of the next turns.

        Raises:
            DiskBusy: Too much waits already.
        """
        if len(self._waiting) >= WAITING_MAX:
            raise DiskBusy(f"{WAITING_MAX} reads by filters wait already")
        self._waiting.append(work)
        self._come_back()

    def _come_back(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            self._timers.call_soon(self._next)

    def _next(self) -> None:
        self._is_next_due = False
        self._left = COST_PER_TURN
        for _ in range(len(self._waiting)):
            if self._left <= 0:
                break
            self._waiting.popleft()()
        if self._waiting:
            self._come_back()
