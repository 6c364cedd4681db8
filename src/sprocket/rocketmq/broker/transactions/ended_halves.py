"""Which half messages have ended: offsets as ranges, since transactions end nearly in order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


class EndedHalves:
    """A set of offsets that has all of them below `floor`, and ranges above it.

    A range costs two numbers, however many offsets it has. `add` and `discard` cost what moving
    the ranges behind them in a list costs, so that several are best added together (`add_all`).

    Args:
        floor: All offsets below it have ended.
    """

    def __init__(self, floor: int) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._floor = floor

    @property
    def floor(self) -> int:
        """The lowest offset that has not ended."""
        return self._floor

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """What has ended above the floor: starts, and the ends behind them."""
        return list(zip(self._starts, self._ends, strict=True))

    def __contains__(self, offset: int) -> bool:
        """Tell whether an offset has ended."""
        if offset < self._floor:
            return True
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def add(self, offset: int) -> None:
        """Note that an offset has ended."""
        self._add_range(offset, offset + 1)

    def add_all(self, offsets: Sequence[int]) -> None:
        """Note that some offsets have ended, given in their order."""
        start = end = offsets[0] if offsets else 0
        for offset in offsets:
            if offset > end:
                self._add_range(start, end)
                start = offset
            end = offset + 1
        self._add_range(start, end)

    def _add_range(self, start: int, end: int) -> None:
        """Note that the offsets from `start` to before `end` have ended."""
        if start <= self._floor:
            self._floor = max(self._floor, end)
            self._raise()
            return
        first, behind = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < behind:  # they touch these
            start, end = min(start, self._starts[first]), max(end, self._ends[behind - 1])
        self._starts[first:behind] = [start]
        self._ends[first:behind] = [end]

    def discard(self, offset: int) -> None:
        """Note that an offset has not ended after all."""
        if offset < self._floor:
            if offset + 1 < self._floor:
                self._starts.insert(0, offset + 1)
                self._ends.insert(0, self._floor)
            self._floor = offset
            return
        if offset not in self:
            return
        at = bisect_right(self._starts, offset) - 1
        start, end = self._starts[at], self._ends[at]
        kept = [one for one in ((start, offset), (offset + 1, end)) if one[0] < one[1]]
        self._starts[at : at + 1] = [one[0] for one in kept]
        self._ends[at : at + 1] = [one[1] for one in kept]

    def skip_to(self, floor: int) -> None:
        """Count all offsets below `floor` as ended."""
        if floor <= self._floor:
            return
        self._floor = floor
        passed = bisect_right(self._ends, floor)
        del self._starts[:passed], self._ends[:passed]
        if self._starts and self._starts[0] < floor:
            self._starts[0] = floor
        self._raise()

    def pending(self, start: int, end: int) -> Iterator[int]:
        """Give the offsets from `start` to before `end` that have not ended.

        The set may change meanwhile: what has ended by then is not given.
        """
        offset = max(start, self._floor)
        while offset < end:
            at = bisect_right(self._starts, offset) - 1
            if at >= 0 and offset < self._ends[at]:
                offset = self._ends[at]
            elif offset < self._floor:
                offset = self._floor
            else:
                yield offset
                offset += 1

    def gaps(self, end: int) -> list[tuple[int, int]]:
        """Return what has not ended before `end`: starts, and the ends behind them."""
        starts = [self._floor, *self._ends]
        ends = [*self._starts, max(end, *starts)]
        pairs = zip(starts, ends, strict=True)
        return [(start, min(stop, end)) for start, stop in pairs if start < min(stop, end)]

    def _raise(self) -> None:
        while self._starts and self._starts[0] <= self._floor:
            self._floor = max(self._floor, self._ends.pop(0))
            del self._starts[0]
