"""Which version of its master's tables a slave has, and which one there is."""

import asyncio
from collections.abc import Callable

from msgspec import Struct


class TablesRound(Struct, frozen=True):
    """One time that the master is asked for its tables.

    Attributes:
        link: On which the version was told.
        version: That the tables have at least, which are asked for now.
    """

    link: int
    version: int


class TableVersions:
    """See the head of the module. Versions are the master's, and count for one link.

    Attributes:
        changed: Set when there is another version than was asked for last.
        had: What this slave has.

    Threads: event loop only.
    """

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.had = 0
        self._wanted = 0
        self._link = 0
        self._told: Callable[[], None] = _nobody

    def when_had(self, told: Callable[[], None]) -> None:
        """Have somebody told each time that this slave has another version."""
        self._told = told

    def begin_link(self) -> None:
        """Forget what another master said, or this one on another connection."""
        self._link += 1
        self.had = self._wanted = 0

    def want(self, version: int) -> None:
        """Note that the master has another version."""
        if version != self._wanted:
            self._wanted = version
            self.changed.set()

    @property
    def is_behind(self) -> bool:
        """Whether the master has said of a version that it is not here."""
        return self._wanted != self.had

    def begin_round(self) -> TablesRound:
        """Return what the master is asked for now."""
        self.changed.clear()
        return TablesRound(self._link, self._wanted)

    def finish_round(self, one: TablesRound) -> None:
        """Note that this slave has what it asked for."""
        if one.link == self._link and one.version != self.had:
            self.had = one.version
            self._told()


def _nobody() -> None:
    """Tell nobody."""
