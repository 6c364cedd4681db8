"""What is due soon: read from the slots of the wheel, in the order in which it is due.

A message takes 16 bytes here. Slots are read about a second before their time, so this is what is
due within that. After the machine's clock was set it may be what is due within the step.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct


class OpenSlot(Struct, gc=False):
    """A slot that was read, of which something is left or may yet come.

    Attributes:
        number: Time divided by what a slot takes.
        read_to: Where the last record lies that was read of it, −1 without any.
        left: How many messages of it are not delivered yet.
        deleted: Keys of messages that were taken back.
    """

    number: int
    read_to: int = -1
    left: int = 0
    deleted: set[str] | None = None


class Due(NamedTuple):
    """A message that is due: its slot, and where its record lies in the timer log."""

    slot: OpenSlot
    position: int


class _Run(Struct, gc=False):
    """Messages of one slot, sorted by the time when they are due."""

    slot: OpenSlot
    due_ms: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    at: int = 0


class DueMessages:
    """Messages by the time when they are due, in milliseconds of the monotonic clock."""

    def __init__(self) -> None:
        self._heads: list[tuple[int, int, int, _Run]] = []
        self._pushed = 0

    def add(self, slot: OpenSlot, due_ms: Sequence[int], positions: Sequence[int]) -> None:
        """Add messages of a slot; those with the same time stay in their order."""
        times = np.array(due_ms, np.int64)
        order = np.argsort(times, kind="stable")
        run = _Run(slot, times[order], np.array(positions, np.int64)[order])
        slot.left += len(order)
        self._push(run)

    def again(self, slot: OpenSlot, due_ms: int, position: int) -> None:
        """Have a message wait again that was taken and is left."""
        self._push(_Run(slot, np.array([due_ms]), np.array([position])))

    def next_ms(self) -> int | None:
        """Return when the next message is due; None without any."""
        return self._heads[0][0] if self._heads else None

    def take(self, now_ms: int, count: int) -> list[Due]:
        """Return messages that are due, at most so many."""
        found: list[Due] = []
        while self._heads and self._heads[0][0] <= now_ms and len(found) < count:
            *_, run = heappop(self._heads)
            limit = self._heads[0][0] if self._heads else now_ms
            end = int(np.searchsorted(run.due_ms, min(limit, now_ms), "right"))
            end = min(max(end, run.at + 1), run.at + count - len(found))
            found += [Due(run.slot, one) for one in run.positions[run.at : end].tolist()]
            run.at = end
            self._push(run)
        return found

    def _push(self, run: _Run) -> None:
        if run.at < len(run.due_ms):
            self._pushed += 1
            head = int(run.due_ms[run.at]), int(run.positions[run.at])
            heappush(self._heads, (*head, self._pushed, run))
