"""Filters by properties: which records of a queue pass, and what ends a read by one."""

import random
from typing import Any

import pytest
from tests.unit.rocketmq.store.logs import Log, outcome

from sprocket.base.disk import SegmentWindow, WouldBlock
from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.filter import PropertyTest, compile_sql
from sprocket.rocketmq.model.filters import PropertyFilter
from sprocket.rocketmq.store.read import GetResult, GetStatus, Reading, property_scan, queue_reader


def by(text: str) -> PropertyFilter:
    """Return the filter that an expression is."""
    return PropertyFilter.of(compile_sql(text))


def get(log: Log, offset: int, wanted: PropertyFilter, **reading: Any) -> GetResult:
    """Read the queue T/0."""
    return queue_reader.get_messages(log.queue, log, offset, Reading(wanted=wanted, **reading))


def read_all(log: Log, wanted: PropertyFilter, max_count: int = 32) -> list[int]:
    """Read the queue to its end, as a consumer does; return the offsets that passed."""
    offset, found = 0, []
    while offset < log.queue.max_offset:
        result = get(log, offset, wanted, max_count=max_count)
        assert result.next_offset > offset
        assert len(result.records) == result.count <= max_count
        offset = result.next_offset
        found += [record.decode(one).queue_offset for one in result.records]
    return found


def random_log(rng: random.Random, count: int) -> Log:
    """Return messages whose properties are absent, empty, long, named alike, or not closed."""
    log = Log()
    for _ in range(count):
        pairs = [
            f"{rng.choice(['a', 'b', 'ba', 'x'])}\x01{rng.choice(['', '1', '2', '7', 'é'])}\x02"
            for _ in range(rng.randrange(4))
        ]
        pairs += [f"long\x01{'y' * 2000}\x02"] * (rng.random() < 0.1)
        rng.shuffle(pairs)
        text = "".join(pairs).encode()
        log.add(
            body=b"z" * rng.choice([0, 1, 500]), six=rng.random() < 0.2, pairs=text.rstrip(b"\x02")
        )
    return log


MANY = " OR ".join(f"{name} = 7" for name in "abcdefghijklmnop")


@pytest.mark.parametrize(
    "text",
    [
        *("a = 1", "a IS NULL", "a = 'é' OR b IS NOT NULL", "TRUE", "a = 1 AND b = 2", "x > 1"),
        *("b = 1 AND a = 1 AND b <> 2", "TRUE AND a = 1", "b > 0 AND (a = 1 OR x > 1) AND a < 7"),
        *(" AND ".join(f"{name} IS NULL" for name in "abcxy"), "a BETWEEN 1 AND 2", MANY),
    ],
)
@pytest.mark.parametrize("max_count", [1, 32])
def test_a_record_passes_as_its_properties_do(text: str, max_count: int) -> None:
    """Whatever they are, and whatever other records had before."""
    log, wanted = random_log(random.Random(text), 120), by(text)
    stored = [record.decode(one) for one in log.get(0, max_count=500, max_bytes=1 << 20).records]
    expected = [one.queue_offset for one in stored if wanted.by_properties(one.properties)]
    assert len(stored) == 120
    assert read_all(log, wanted, max_count) == expected


def test_nothing_is_confused_by_what_stands_in_a_value_or_name() -> None:
    """Only whole names count; of two the last, unless it is empty."""
    log = Log()
    for pairs in (
        b"ba\x011\x02",
        b"x\x01a\x011\x02",
        b"a\x012\x02a\x011\x02",
        b"a\x011\x02a\x01\x02",
    ):
        log.add(pairs=pairs)
    assert read_all(log, by("a = 1")) == [2, 3]


def test_a_read_without_a_match_says_where_to_go_on() -> None:
    """800 units further, or at the end."""
    log = Log(units_per_file=2000)
    for _ in range(1000):
        log.add()
    assert outcome(get(log, 0, by("a = 1"))) == (GetStatus.NO_MATCHED_MESSAGE, 800, 0)
    assert outcome(get(log, 800, by("a = 1"))) == (GetStatus.NO_MATCHED_MESSAGE, 1000, 0)


def test_an_answer_that_is_full_ends_at_its_last_message() -> None:
    """By number or by bytes: what passed and does not fit comes next time."""
    log = Log()
    for number in range(9):
        log.add(pairs=b"a\x01%d\x02" % (number % 3))
    wanted = by("a = 1")
    assert outcome(get(log, 0, wanted, max_count=2)) == (GetStatus.FOUND, 5, 2)
    assert get(log, 0, wanted, max_bytes=100).next_offset <= 4
    assert outcome(get(log, 0, wanted)) == (GetStatus.FOUND, 9, 3)


def test_what_a_read_costs_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dear filters look at fewer records, at one at least; long properties count more."""
    monkeypatch.setattr(queue_reader, "FILTER_COST_MAX", 70)
    log = Log()
    for _ in range(30):
        log.add()
    log.add(pairs=b"b\x01" + b"y" * 10_000)
    log.add()
    cheap, dear = by("a = 1"), by(" OR ".join(["a = 1"] * 50))
    found = get(log, 0, cheap)
    assert (found.next_offset, found.filter_cost) == (10, 70)
    assert get(log, 0, dear).next_offset == 1
    assert get(log, 30, cheap).next_offset == 31


def test_answers_are_remembered_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of short values; a filter is asked once for what many messages have."""
    asked: list[dict[str, str]] = []

    def passes(found: Any) -> bool:
        asked.append(dict(found))
        return True

    monkeypatch.setattr(property_scan, "KNOWN_MAX", 2)
    wanted = PropertyFilter(frozenset({"a"}), 1, passes, (PropertyTest("a", (passes,)),), True)
    log = Log()
    for value in (b"1", b"1", b"2", b"1", b"3", b"1", b"1", b"y" * 65, b"y" * 65):
        log.add(pairs=b"a\x01" + value + b"\x02")
    assert len(read_all(log, wanted)) == 9
    assert [one["a"][:1] for one in asked] == ["1", "2", "3", "1", "y", "y"]


class SlowLog(Log):
    """A log of which the disk has to bring what lies from a place on."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__()
        self.there = 0
        self.error = error

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return what is there."""
        if offset + size > self.there:
            raise WouldBlock([]) if self.error is WouldBlock else DiskFailed("it is bad")
        return SegmentWindow(memoryview(bytes(self.data[: self.there])), 0, self.there)


@pytest.mark.parametrize("error", [WouldBlock, DiskFailed])
def test_a_read_ends_before_what_the_disk_lacks(error: type[Exception]) -> None:
    """Unless that is the first record: nothing is evaluated twice."""
    log = SlowLog(error)
    for number in range(6):
        log.add(pairs=b"a\x01%d\x02" % number)
        log.there = len(log.data) if number == 2 else log.there
    assert outcome(get(log, 0, by("a = 1"))) == (GetStatus.FOUND, 3, 1)
    assert outcome(get(log, 0, by("a = 5"))) == (GetStatus.NO_MATCHED_MESSAGE, 3, 0)
    with pytest.raises(error):
        get(log, 3, by("a = 5"))


@pytest.mark.parametrize("at", range(0, 92, 4))
def test_damage_is_never_handed_out_nor_an_error(at: int) -> None:
    """Whatever a record says of itself."""
    log = Log()
    for _ in range(3):
        log.add(pairs=b"a\x011\x02")
    place = log.queue.unit(1)[0]
    for value in (0x00, 0x7F, 0xFF):
        log.data[place + at : place + at + 4] = bytes([value] * 4)
        found = [
            record.decode(one, check_crc=False).queue_offset
            for one in get(log, 0, by("a = 1")).records
        ]
        assert found in ([0, 2], [0, 1, 2])


def test_a_unit_that_leads_nowhere_is_passed_over() -> None:
    """Before the log, behind it, or of too few bytes."""
    log = Log()
    for _ in range(5):
        log.add(pairs=b"a\x011\x02")
    for number, place, size in ((1, log.end + 5, 100), (2, 0, 5), (3, -9, 100)):
        log.put_unit(number, place, size, 0)
    assert read_all(log, by("a = 1")) == [0, 4]
    log.put_unit(4, 0, 5, 0)
    assert outcome(get(log, 1, by("a = 1"))) == (GetStatus.NO_MATCHED_MESSAGE, 5, 0)
