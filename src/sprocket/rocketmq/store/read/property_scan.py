"""Asks filters that look at properties about records as they are stored, one after the other.

Of the properties only those are read that the filter asks for. Conditions that AND joins are tested
one by one as far as each asks for one property, the one first that rejected a message last; what
they said of short values is remembered, as many messages have the same. Only where that does not
decide the filter is evaluated, and each property read when it is asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from struct import Struct as Layout
from typing import NamedTuple

from sprocket.base.disk import SegmentWindow, WouldBlock
from sprocket.base.errors import DiskFailed, WireError
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import (
    FIXED_BYTES,
    HOSTS_V6,
    MAGIC_AT,
    MAGIC_V1,
    RECORD_BYTES_MIN,
)
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.store.queue import UnitRead

RECORD_COST = 4
"""What it costs to find the properties of a record, in the units of `MessageFilter.cost`."""
PAIRS_BYTES = 1024
"""Usual properties are shorter; of longer ones each further KiB costs as much again."""
SCANS_MAX = 64
"""Filters whose answers are remembered."""
KNOWN_MAX, KNOWN_BYTES_MAX = 1024, 64
"""Answers for each property, and bytes of the value that belongs to one: 32 MiB for all."""

_lengths_of = Layout(">I28xi44xi").unpack_from
"""From the magic of a record with two IPv4 hosts on: this, its system flag, the body's length."""
_PAIRS_AT = FIXED_BYTES + 3
"""With an empty body and topic."""


class Scanned(NamedTuple):
    """What a scan gives.

    Attributes:
        passed: The units of the records that are wanted.
        end: The queue offset behind the last one that was looked at.
        cost: What that has cost, in the units of `MessageFilter.cost`.
    """

    passed: list[UnitRead]
    end: int
    cost: int


class PropertyScan:
    """Says which records a filter wants."""

    def __init__(self, wanted: MessageFilter) -> None:
        self._cost = RECORD_COST + wanted.cost
        self._passes = wanted.by_properties
        self._properties = _StoredProperties(wanted.names)
        marks = self._properties.marks
        self._tests = [_Test(marks[one.name], {}, one.matches) for one in wanted.tests]
        self._is_tested = wanted.is_tested
        self._first_test = self._head()

    def scan(
        self,
        units: Iterable[UnitRead],
        window: Callable[[UnitRead], SegmentWindow],
        count_max: int,
        cost_max: int,
    ) -> Scanned:
        """Go through units and read the properties of their records.

        It ends when so many messages passed or it has cost so much, and before a record that only
        the disk has, unless that is the first one: what was evaluated is not evaluated again. A
        record that is not there is passed over; whether it is the one that is meant is not looked
        at.

        Args:
            units: The units, one at least.
            window: Returns a part of the log with the record of a unit, as `LogReader.window`;
                empty if it is not there.
            count_max: Messages that are wanted at most.
            cost_max: In the units of `MessageFilter.cost`; one record is looked at in any case.

        Raises:
            DiskFailed: The first record cannot be read.
            WouldBlock: Only the disk has the first one.
        """
        passed: list[UnitRead] = []
        cost, left = self._cost, cost_max
        first_test = self._first_test
        mark, known, is_decisive = first_test
        mark_bytes = len(mark)
        view_start = view_end = 0
        end = None
        for unit in units:
            first, place, size, _, messages = unit
            if left <= 0 or count_max <= 0:
                break
            if size < RECORD_BYTES_MIN:
                end = first + messages
                continue
            if not view_start <= place <= view_end - size:
                try:
                    view, view_start, view_end = window(unit)
                except (DiskFailed, WouldBlock):
                    if end is None:
                        raise
                    break
                if not view_start <= place <= view_end - size:
                    end = first + messages
                    continue
            end = first + messages
            left -= cost
            at = place - view_start
            magic, sys_flag, body_bytes = _lengths_of(view, at + MAGIC_AT)
            pairs_at = at + body_bytes + _PAIRS_AT
            at += size
            if magic != MAGIC_V1 or sys_flag & HOSTS_V6 or body_bytes < 0 or pairs_at > at:
                passes = self._passes_unusual(view[at - size : at])
                left -= cost * (size // PAIRS_BYTES)
            else:
                pairs = b"\x02" + view[pairs_at + view[pairs_at - 3] : at]
                if len(pairs) > PAIRS_BYTES:
                    left -= cost * (len(pairs) // PAIRS_BYTES)
                passes = None
                if mark:  # without a call: a million of these take a second
                    value: bytes | None = b""  # for a property that is absent
                    start = pairs.rfind(mark)
                    if start >= 0:
                        start += mark_bytes
                        stop = pairs.find(b"\x02", start)
                        value = pairs[start:stop] if stop > start else None
                    passes = known.get(value)
                if passes is None or (passes and not is_decisive):
                    passes = self._passes_all(pairs)
                    if first_test is not self._first_test:
                        first_test = self._first_test
                        mark, known, is_decisive = first_test
                        mark_bytes = len(mark)
            if passes:
                passed.append(unit)
                count_max -= messages
        assert end is not None, "there is a unit"
        return Scanned(passed, end, cost_max - left)

    def _head(self) -> tuple[bytes, dict[bytes | None, bool], bool]:
        """Return the mark of the first test, what is known of it, and whether it is the only one.

        The mark is empty if there is no test.
        """
        if not self._tests:
            return b"", {}, False
        mark, known, _ = self._tests[0]
        return mark, known, self._is_tested and len(self._tests) == 1

    def _passes_all(self, pairs: bytes) -> bool:
        """Evaluate the filter for some properties; the test that rejects them becomes the first."""
        self._properties.use(pairs)
        tests = self._tests
        for number, (mark, known, test) in enumerate(tests):
            value = _value(pairs, mark)
            passes = known.get(value)
            if passes is None:
                passes = test(self._properties)
                if value is not None and len(value) <= KNOWN_BYTES_MAX:
                    if len(known) >= KNOWN_MAX:
                        known.clear()
                    known[value] = passes
            if not passes:
                if number:
                    tests.insert(0, tests.pop(number))
                    self._first_test = self._head()
                return False
        return self._is_tested or self._passes(self._properties)

    def _passes_unusual(self, stored: memoryview) -> bool:
        """Evaluate the filter for a record with long hosts or topic, or for what is not one."""
        try:
            return self._passes(record.stored_properties(stored))
        except WireError:
            return False


def _value(pairs: bytes, mark: bytes) -> bytes | None:
    """Return what follows a mark, as `scan` does: nothing if it is absent, None for what is odd."""
    start = pairs.rfind(mark)
    if start < 0:
        return b""
    start += len(mark)
    stop = pairs.find(b"\x02", start)
    return pairs[start:stop] if stop > start else None


class _Test(NamedTuple):
    """A test of one property.

    Attributes:
        mark: What stands before its value.
        known: What was said of values; b"" stands for none.
        passes: Makes the test.
    """

    mark: bytes
    known: dict[bytes | None, bool]
    passes: Callable[[Mapping[str, str]], bool]


class _StoredProperties(Mapping[str, str]):
    """Some properties of a record as they are stored, each decoded when it is asked for.

    Attributes:
        marks: What stands before the value of each; see `properties.value_of`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.marks = {name: f"\x02{name}\x01".encode() for name in names}
        self._pairs = b""
        self._found: dict[str, str | None] = {}

    def use(self, pairs: bytes) -> None:
        """Go on to those of another record, given with one 0x02 before them."""
        self._pairs = pairs
        self._found = {}

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def get(self, name: str, default: object = None) -> str | None:  # type: ignore[override] # noqa: ARG002
        """Return the value of a property, None if it is absent."""
        try:
            return self._found[name]
        except KeyError:
            value = self._found[name] = properties.value_of(self._pairs, self.marks[name])
            return value

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.marks if self.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=SCANS_MAX)
def scan_of(wanted: MessageFilter) -> PropertyScan:
    """Return the scan of a filter, with what it remembers."""
    return PropertyScan(wanted)
