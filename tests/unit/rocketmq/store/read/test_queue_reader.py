"""Reading a queue: every status and every limit."""

import random
from collections.abc import Mapping
from contextlib import closing
from typing import Any, cast

import pytest
from msgspec import structs
from tests.unit.rocketmq.store.logs import HOST, Log, batches, filled, log_size, outcome, unit_of

from sprocket.base.disk import SegmentFiles, SegmentWindow
from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.record import Entry, Extra, record
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.model.filters import OwnedBits, PropertyFilter, TagFilter
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.log import PageCache
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    FileQueues,
    OtherKinds,
    Queue,
    QueueFiles,
    UnitAssigner,
)
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.rocketmq.store.queue.runs import EntryRun
from sprocket.rocketmq.store.read import GetStatus, Reading, queue_reader
from sprocket.rocketmq.store.read.property_scan import RECORD_COST
from sprocket.rocketmq.store.read.queue_reader import head_of


def test_no_such_queue_and_none_ever_filled() -> None:
    """Both say to begin at 0."""
    log = Log()
    nothing = queue_reader.get_messages(None, log, 7)
    assert outcome(nothing) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0)
    log.add()
    log.queue.truncate(PhysicalOffset(0))
    assert outcome(log.get(7)) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-1, (GetStatus.OFFSET_TOO_SMALL, 5, 0)),
        (4, (GetStatus.OFFSET_TOO_SMALL, 5, 0)),
        (5, (GetStatus.FOUND, 20, 15)),
        (19, (GetStatus.FOUND, 20, 1)),
        (20, (GetStatus.OFFSET_OVERFLOW_ONE, 20, 0)),
        (21, (GetStatus.OFFSET_OVERFLOW_BADLY, 20, 0)),
    ],
)
def test_where_the_offset_lies(offset: int, expected: tuple[GetStatus, int, int]) -> None:
    """Before the first message, inside, at the end, one past it."""
    log = filled(20)
    log.first = log.queue.unit(5)[0]
    log.queue.correct_min(PhysicalOffset(log.first))
    result = log.get(offset)
    assert expected == outcome(result)
    assert (result.min_offset, result.max_offset) == (5, 20)


def test_records_are_the_stored_bytes() -> None:
    """Unchanged, in order, counted."""
    log = filled(3)
    result = log.get(0)
    assert b"".join(result.records) == bytes(log.data)
    assert (result.count, result.bytes) == (3, len(log.data))
    assert not result.suggest_slave


def test_records_back_to_back_are_one_run() -> None:
    """What lies between them, or a filter takes out, parts them; each is found in its run."""
    log = filled(7)
    places = [unit_of(log, number) for number in range(7)]
    stored = [bytes(log.data[at : at + size]) for at, size in places]
    whole = log.get(1, max_count=5)
    assert [bytes(run) for run in whole.runs] == [b"".join(stored[1:6])]
    assert [bytes(one) for one in whole.records] == stored[1:6]
    only_b = log.get(0, tags=frozenset({hash32("B")}))
    assert [bytes(run) for run in only_b.runs] == stored[1::2]
    log.data += bytes(50)
    log.add()
    last = bytes(log.data[places[6][0] + places[6][1] + 50 :])
    assert [bytes(run) for run in log.get(5).runs] == [b"".join(stored[5:7]), last]


@pytest.mark.parametrize("changed", ["place", "size", "offset", "queue", "magic"])
def test_each_field_of_a_head_counts(changed: str) -> None:
    """Between others that are plainly meant."""
    log = filled(9)
    places = [unit_of(log, number) for number in range(9)]
    stored = [bytes(log.data[at : at + size]) for at, size in places]
    place, _ = places[4]
    at = {"size": 0, "magic": 4, "queue": 12, "offset": 20, "place": 28}[changed]
    log.data[place + at + 3] ^= 1
    result = log.get(1)
    assert outcome(result) == (GetStatus.FOUND, 9, 7)
    assert [bytes(run) for run in result.runs] == [b"".join(stored[1:4]), b"".join(stored[5:])]


def test_a_record_is_given_once_though_two_units_point_at_it() -> None:
    """By the unit whose place in the queue it has."""
    log = filled(6)
    place, size, code = log.queue.unit(4)
    log.put_unit(2, place, size, code)
    result = log.get(0)
    assert [record.decode(one).queue_offset for one in result.records] == [0, 1, 3, 4, 5]


def test_no_head_is_looked_for_where_none_has_room() -> None:
    """Behind a unit of fewer bytes than a record has, at the end of what is there."""
    log = filled(6)
    log.put_unit(2, log.end - 5, 5, 0)
    result = log.get(0)
    assert [record.decode(one).queue_offset for one in result.records] == [0, 1, 3, 4, 5]
    assert log.get(2, max_count=1, own_from=0) == log.get(2, max_count=1)


def test_own_records_lie_in_the_order_of_their_queue() -> None:
    """If units say otherwise each is looked at; else some bytes would be given twice."""
    log = filled(6)
    log.data += bytes(7)
    log.add()
    place, size, code = log.queue.unit(1)
    log.put_unit(3, place, size, code)
    assert log.get(0, own_from=0) == log.get(0)
    assert log.get(0).count == 6


def test_own_records_are_cut_where_the_answer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at each of them, as who asks for many is mostly ended by the bytes."""
    log = filled(9)
    expected = log.get(2, max_bytes=4 * log.queue.unit(3)[1] + 10)
    assert expected.count == 4

    def never(*_: object, **__: object) -> None:
        raise AssertionError("each record is looked at")

    monkeypatch.setattr(queue_reader, "_collect", never)
    assert log.get(2, max_bytes=4 * log.queue.unit(3)[1] + 10, own_from=0) == expected


def random_log(rng: random.Random) -> Log:
    """Return a log of 20 messages, some of them with room between, some of other kinds."""
    log = Log()
    for _ in range(20):
        log.add(body=bytes(rng.choice((1, 1, 200))), six=rng.random() < 0.1)
        if rng.random() < 0.1:
            log.data += bytes(rng.randrange(1, 100))
    return log


def some_question(rng: random.Random, log: Log) -> dict[str, Any]:
    """Return what to ask of a log, of which the oldest part may be gone."""
    if rng.random() < 0.2:
        log.first = rng.choice((0, 300, 1000, log.end))
    return {
        "offset": rng.randrange(10),
        "max_count": rng.choice((0, 1, 5, 32)),
        "max_bytes": rng.choice((0, 500, 1500, *[1 << 18] * 4)),
        "bytes_in_memory": rng.choice((None, None, None, 0, 1000)),
    }


@pytest.mark.parametrize("seed", range(200))
def test_own_records_are_taken_as_any_others_would_be(seed: int) -> None:
    """The short way and the long one give the same, whatever the log is like."""
    rng = random.Random(seed)
    log = random_log(rng)
    asked = some_question(rng, log)
    own_from = rng.choice((0, 0, 0, 1, 1000))
    found = [
        (outcome(one), one.bytes, [bytes(run) for run in one.runs], one.suggest_slave)
        for one in (log.get(**asked), log.get(**asked, own_from=own_from))
    ]
    assert found[0] == found[1]


class ColdLog(Log):
    """A log of which nothing is warm: it is read a part at a time; some of it cannot be.

    Attributes:
        asked: Begin and end of each part.
        bad: Places that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []
        self.bad: set[int] = set()

    @property
    def warm_from(self) -> int:
        """Nothing is."""
        return len(self.data)

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return no more than what was asked for."""
        assert size > 0
        self.slice(offset, 1)
        end = min(offset + size, len(self.data))
        self.asked.append((offset, end))
        if not self.bad.isdisjoint(range(offset, end)):
            raise DiskFailed("a bad sector")
        return SegmentWindow(memoryview(bytes(self.data[offset:end])), offset, end)


def cold(log: Log) -> ColdLog:
    """Return the same log, cold."""
    same = ColdLog()
    same.data, same.first, same.queues = log.data, log.first, log.queues
    return same


@pytest.mark.parametrize("seed", range(200))
def test_own_records_that_are_cold_are_taken_as_any_others_would_be(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they are parted to be read, and whatever of them cannot be."""
    rng = random.Random(seed)
    monkeypatch.setattr(queue_reader, "COLD_GAP_BYTES_MAX", rng.choice((0, 10, 1000)))
    monkeypatch.setattr(queue_reader, "COLD_BYTES_MAX", rng.choice((1, 500, 1 << 18)))
    log = cold(random_log(rng))
    asked = some_question(rng, log)
    if rng.random() < 0.3:
        log.bad.add(rng.randrange(log.end))

    def got(**more: Any) -> object:
        try:
            one = log.get(**asked, **more)
        except DiskFailed as error:
            return str(error)
        return outcome(one), one.bytes, b"".join(one.runs), one.suggest_slave

    assert got(own_from=0) == got()


def test_own_records_that_are_cold_are_read_by_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies back to back by one, however long; what lies close together up to a limit.

    Answers of many were not taken so: each of their records was looked at.
    """
    monkeypatch.setattr(queue_reader, "COLD_GAP_BYTES_MAX", 10)
    monkeypatch.setattr(queue_reader, "COLD_BYTES_MAX", 500)
    monkeypatch.setattr(queue_reader, "_collect", None)
    log = ColdLog()
    for gap in (0, 0, 0, 0, 0, 0, 10, 11, 10, 10, 10, 10):
        log.data += bytes(gap)
        log.add(body=bytes(29))
    places = [log.queue.unit(number) for number in range(12)]
    size = places[0][1]
    result = log.get(0, own_from=0)
    assert (result.count, result.bytes) == (12, 12 * size)
    expected = [(0, 6 * size), (places[6][0], places[6][0] + size)]
    expected += [(places[n][0], places[last][0] + size) for n, last in ((7, 9), (10, 11))]
    assert 3 * size + 20 <= 500 < 4 * size + 30
    assert log.asked == expected


@pytest.mark.parametrize("seed", range(200))
def test_wrong_units_of_own_records_give_nothing_that_lies_elsewhere(seed: int) -> None:
    """What is given begins with the right message, and is as long as it says."""
    rng = random.Random(seed)
    log = random_log(rng)
    for _ in range(rng.choice((1, 2))):
        place, size, code = log.queue.unit(at := rng.randrange(20))
        twin, *_ = log.queue.unit(rng.randrange(20))
        wrong = rng.choice((place, place, twin, twin, place + 1, 1 << 40, -5))
        size = rng.choice((*[size] * 4, size - 1, size - 1, 5, -1, -500, FILLER_SIZE, 1 << 30))
        log.put_unit(at, wrong, size, code)
    asked = some_question(rng, log)
    if seed % 2:
        log = cold(log)
    found = log.get(**asked, own_from=0)
    assert found.bytes == sum(map(len, found.runs))
    if found.count:
        _, _, _, offset, place = head_of(found.runs[0], 0)
        assert offset >= asked["offset"]
        assert found.runs[0][:36] == log.data[place : place + 36]


@pytest.mark.parametrize("changed", ["place", "size", "offset", "queue", "magic"])
@pytest.mark.parametrize("number", [1, 8])
def test_the_ends_of_own_records_are_looked_at(changed: str, number: int) -> None:
    """What does not fit its unit there is passed over, though this process wrote it."""
    log = filled(9)
    place, _ = unit_of(log, number)
    at = {"size": 0, "magic": 4, "queue": 12, "offset": 20, "place": 28}[changed]
    log.data[place + at + 3] ^= 1
    assert log.get(1, own_from=0).count == 7


def test_what_lies_before_the_own_records_is_looked_at() -> None:
    """Each record of it, and what comes in the same answer."""
    log = filled(9)
    places = [unit_of(log, number)[0] for number in range(9)]
    log.data[places[4] + 15] ^= 1
    assert log.get(1, own_from=places[1]).count == 8
    assert log.get(1, own_from=places[2]).count == 7
    assert log.get(1).count == 7


def test_a_run_ends_with_its_file() -> None:
    """Two files that are full to their ends are two views, though their records touch."""
    log = filled(6)
    border = unit_of(log, 3)[0]
    views = [
        SegmentWindow(memoryview(bytes(log.data[:border])), 0, border),
        SegmentWindow(memoryview(bytes(log.data[border:])), border, len(log.data)),
    ]
    log.window = lambda offset, size: views[offset >= border]  # type: ignore[method-assign]  # noqa: ARG005
    for own_from in (None, 0):
        result = log.get(0, own_from=own_from)
        assert [bytes(run) for run in result.runs] == [bytes(view.view) for view in views]
        assert outcome(result) == (GetStatus.FOUND, 6, 6)


def test_limits_end_an_answer_but_never_keep_it_empty() -> None:
    """Count, bytes, and the first message whatever its size."""
    log = filled(5)
    size = log.queue.unit(1)[1]
    assert outcome(log.get(0, max_count=2)) == (GetStatus.FOUND, 2, 2)
    assert outcome(log.get(1, max_bytes=0)) == (GetStatus.FOUND, 2, 1)
    assert outcome(log.get(0, max_count=0)) == (GetStatus.FOUND, 1, 1)
    assert [log.get(1, max_bytes=2 * size + more).count for more in (-1, 0)] == [1, 2]
    log.add(body=bytes(1000))
    assert outcome(log.get(5, max_bytes=100)) == (GetStatus.FOUND, 6, 1)


def test_messages_far_behind_have_smaller_limits() -> None:
    """Fewer bytes, and a slave is suggested; small ones come as many as were asked for."""
    log = filled(40)
    near = log.get(30, bytes_in_memory=len(log.data) // 2)
    assert (near.count, near.suggest_slave) == (10, False)
    far = log.get(0, max_count=15, bytes_in_memory=len(log.data) // 2)
    assert (far.count, far.suggest_slave) == (15, True)
    big = Log()
    for _ in range(5):
        big.add(body=bytes(queue_reader.FAR_BYTES_MAX * 2 // 5))
    assert big.get(0, bytes_in_memory=0).count == 2
    assert big.get(0, max_bytes=1 << 20).count == 5


def test_a_filter_skips_and_goes_on_behind() -> None:
    """Codes are compared as 32 bits; nothing passing is an answer of its own."""
    log = filled(10)
    only_b = log.get(0, tags=frozenset({hash32("B")}))
    assert outcome(only_b) == (GetStatus.FOUND, 10, 5)
    assert [record.decode(stored).tags for stored in only_b.records] == ["B"] * 5
    assert outcome(log.get(0, tags=frozenset({7}))) == (GetStatus.NO_MATCHED_MESSAGE, 10, 0)
    assert outcome(log.get(0, tags=frozenset())) == (GetStatus.NO_MATCHED_MESSAGE, 10, 0)


def test_codes_beyond_32_bits() -> None:
    """The low bits count; the address of an extended unit passes everything."""
    log = Log()
    log.add()
    place, size, _ = log.queue.unit(0)
    for code, tags, passes in [
        ((1 << 40) + 7, {7}, True),
        ((1 << 32) - 1, {-1}, True),
        (-(1 << 31), {-(1 << 31)}, True),
        (-(1 << 31) - 1, {7}, True),
        (8, {7}, False),
    ]:
        log.queues.remove("T", 0)
        log.queues.put_round([Entry("T", 0, 0, place, size, code, 0)])
        assert passes == (log.get(0, tags=frozenset(tags)).status is GetStatus.FOUND)


def test_a_read_looks_at_800_units_or_one_file() -> None:
    """A selective filter gets an answer with the offset to go on from."""
    log = filled(900)
    nothing = frozenset({7})
    assert outcome(log.get(0, tags=nothing)) == (GetStatus.NO_MATCHED_MESSAGE, 800, 0)
    assert outcome(log.get(0, tags=nothing, max_count=850))[1] == 850
    small = filled(25, units_per_file=10)
    assert outcome(small.get(3, tags=nothing)) == (GetStatus.NO_MATCHED_MESSAGE, 10, 0)
    assert outcome(small.get(3)) == (GetStatus.FOUND, 10, 7)


def test_messages_that_are_gone_are_passed_over() -> None:
    """The log lost its beginning, the queue's minimum does not know yet."""
    log = filled(10)
    log.first = log.queue.unit(6)[0]
    assert outcome(log.get(2)) == (GetStatus.FOUND, 10, 4)
    log.first = log.end
    assert outcome(log.get(2)) == (GetStatus.MESSAGE_WAS_REMOVING, 10, 0)


def test_a_unit_that_points_elsewhere_is_passed_over() -> None:
    """Another record, the middle of one, past the end, fillers: never wrong bytes."""
    log = filled(4)
    place, size, _ = log.queue.unit(2)
    twin = unit_of(log, 1)
    assert twin[1] == size
    for wrong in [twin, (place + 1, size), (place, size - 1), (1 << 40, size), (place, 5)]:
        log.queues.remove("T", 0)
        log.queues.put_round([Entry("T", 0, 0, 0, log_size(log, 0), 0, 0)])
        log.queues.put_round([Entry("T", 0, 1, *unit_of(log, 1), 0, 0)])
        run = EntryRun(log.queue)
        run.entries, run.end = [Entry("T", 0, 2, *wrong, 0, 0)], place + size
        log.queue.append(run)
        log.queues.fill_to("T", 0, 4)
        assert outcome(log.get(0)) == (GetStatus.FOUND, 4, 2)
        assert outcome(log.get(2)) == (GetStatus.MESSAGE_WAS_REMOVING, 4, 0)


def test_a_unit_that_cannot_be_read_sends_on_to_the_next_file() -> None:
    """The queue's first file is gone although the minimum lies in it."""
    log = filled(25, units_per_file=10)
    files = QueueFiles(SegmentFiles(log.disk, log.queue.files.folder, log.geometry.file_bytes))
    queue = FileQueue("T", 0, files, log.geometry.units_per_file)
    queue.resume(log.queue.ends()._replace(first_file=log.geometry.file_bytes))
    found = queue_reader.get_messages(queue, log, 4)
    assert outcome(found) == (GetStatus.OFFSET_FOUND_NULL, 10, 0)


class Extended(Log):
    """A log whose queue T/0 has extended units with bits of two subscriptions."""

    def __init__(self) -> None:
        super().__init__()
        others = OtherKinds("/ext", "/batches", extend=True)
        self.queues = FileQueues(self.disk, "/q", QueueGeometry(), others=others)
        self.queues.load()


BLOOM = Bloom()
OWN = BLOOM.positions("group", "T")


def extended() -> Extended:
    """Return messages with tags A and B in turn; the bits say which have A."""
    log = Extended()
    for n in range(6):
        log.add(tag="AB"[n % 2], at_ms=n)
    entries = [
        structs.replace(
            record.entry(bytes(log.data), unit_of(log, n)[0]),
            extra=Extra(bit_map=BLOOM.bit_map([OWN] if n % 2 == 0 else [])),
        )
        for n in range(6)
    ]
    log.queues.remove("T", 0)
    log.queues.load()
    log.queues.put_round(entries)
    return log


def test_extended_units_are_filtered_by_their_own_code() -> None:
    """Not by their address; one that is lost passes."""
    log = extended()
    only_b = log.get(0, tags=frozenset({hash32("B")}))
    assert outcome(only_b) == (GetStatus.FOUND, 6, 3)
    (path,) = [path for path in log.disk.contents() if path.startswith("/ext/T/0/")]
    log.disk.open(path, write=True).write([bytes(log.disk.size(path))], 0)
    log.queues.close()
    assert log.get(0, tags=frozenset({hash32("B")})).count == 6


@pytest.mark.parametrize(
    ("since_ms", "map_bytes", "asked"),
    [(-1, 14, [0, 2, 4]), (2, 14, [0, 1, 2, 4]), (-1, 13, [0, 1, 2, 3, 4, 5])],
)
def test_what_bit_maps_reject_is_not_read(since_ms: int, map_bytes: int, asked: list[int]) -> None:
    """Maps of older messages, or of another length, say nothing; the read goes on behind all."""
    log, seen = extended(), []

    def passes(properties: Mapping[str, str]) -> bool:
        seen.append("AB".index(properties["TAGS"]))
        return properties["TAGS"] == "A"

    bits = OwnedBits(OWN, map_bytes, since_ms)
    wanted = PropertyFilter(frozenset({"TAGS", "x"}), 1, passes, bits=bits)
    found = queue_reader.get_messages(log.queue, log, 0, Reading(wanted=wanted))
    assert outcome(found) == (GetStatus.FOUND, 6, 3)
    assert seen == [number % 2 for number in asked]
    assert found.filter_cost == 6 * queue_reader.BITS_COST + len(asked) * (1 + RECORD_COST)
    none = queue_reader.get_messages(log.queue, log, 5, Reading(wanted=wanted))
    assert outcome(none) == (GetStatus.NO_MATCHED_MESSAGE, 6, 0)
    one = queue_reader.get_messages(log.queue, log, 0, Reading(max_count=1, wanted=wanted))
    assert outcome(one) == (GetStatus.FOUND, 1, 1)


def test_the_last_reason_is_told() -> None:
    """A message that is gone, then one that is not wanted; and the other way round."""
    log = filled(4)
    log.first = log.queue.unit(2)[0]
    assert outcome(log.get(0, tags=frozenset({7})))[0] is GetStatus.NO_MATCHED_MESSAGE
    a = hash32("A")
    assert outcome(log.get(1, tags=frozenset({a}), max_count=1)) == (GetStatus.FOUND, 3, 1)
    log.first = log.end
    assert outcome(log.get(3, tags=frozenset({hash32("B")})))[0] is (GetStatus.MESSAGE_WAS_REMOVING)


def test_a_read_looks_into_one_file() -> None:
    """At 800 units of it at most."""
    log = filled(35, units_per_file=10)
    only_last = frozenset({hash32("C")})
    log.add(tag="C")
    assert outcome(log.get(3, tags=only_last)) == (GetStatus.NO_MATCHED_MESSAGE, 10, 0)
    assert outcome(log.get(30, tags=only_last)) == (GetStatus.FOUND, 36, 1)
    many = filled(1000, units_per_file=1000)
    assert outcome(many.get(5, tags=only_last)) == (GetStatus.NO_MATCHED_MESSAGE, 805, 0)


@pytest.mark.parametrize(
    ("code", "wanted", "passes"),
    [
        (7, 7, True),
        (8, 7, False),
        ((1 << 40) + 7, 7, True),
        ((1 << 32) - 1, -1, True),
        (-(1 << 31), -(1 << 31), True),
    ],
)
def test_tags_are_compared_by_their_low_32_bits(code: int, wanted: int, passes: bool) -> None:
    """As Java's `(int)` takes them."""
    log = filled(1)
    place, size, *_ = log.queue.unit(0)
    log.put_unit(0, place, size, code)
    assert log.get(0, tags=frozenset({wanted})).count == passes


def test_nothing_looked_at_suggests_no_slave() -> None:
    """RocketMQ takes place 0 for what was looked at then."""
    log = filled(5)
    assert not log.get(5, bytes_in_memory=0).suggest_slave
    assert log.get(4, bytes_in_memory=0).suggest_slave


def test_batches_count_with_all_their_messages() -> None:
    """The first is given whole; then no more than asked for, and the offset is behind them."""
    log, queue = batches(3, 4, 5, 1)
    for offset, max_count, expected in [
        (0, 1, (GetStatus.FOUND, 3, 3)),
        (0, 7, (GetStatus.FOUND, 7, 7)),
        (0, 11, (GetStatus.FOUND, 7, 7)),
        (0, 99, (GetStatus.FOUND, 13, 13)),
        (5, 4, (GetStatus.FOUND, 7, 4)),
        (11, 6, (GetStatus.FOUND, 13, 6)),
        (13, 6, (GetStatus.OFFSET_OVERFLOW_ONE, 13, 0)),
    ]:
        assert (
            outcome(queue_reader.get_messages(queue, log, offset, Reading(max_count))) == expected
        )


def test_the_scan_of_a_batch_queue_is_measured_in_its_units() -> None:
    """16,000 bytes of 46 each, counted in messages."""
    log, queue = batches(*[100] * 5)
    nothing = TagFilter(codes=frozenset({7}))
    result = queue_reader.get_messages(queue, log, 0, Reading(wanted=nothing))
    assert outcome(result) == (GetStatus.NO_MATCHED_MESSAGE, 400, 0)


def light() -> tuple[Log, Queue]:
    """Return three records of queue T/0, which stand in a light queue as well."""
    log = Log()
    for n in range(3):
        pairs = b"INNER_MULTI_DISPATCH\x01%%LMQ%%a\x02INNER_MULTI_QUEUE_OFFSET\x01%d\x02" % n
        new = NewRecord("T", 0, b"x", pairs, HOST, HOST)
        data = record.encode(
            new, queue_offset=n, physical_offset=len(log.data), stored_at_ms=n, crc_tail=False
        )
        log.data += data
        log.queues.put_round(UnitAssigner().of([record.entry(data)]))
    queue = log.queues.by_key.get(("%LMQ%a", 0))
    assert queue is not None
    return log, queue


def test_light_queues_give_records_of_others() -> None:
    """A record must say that it stands there; where it does not, it is passed over."""
    log, queue = light()
    result = queue_reader.get_messages(queue, log, 0)
    assert outcome(result) == (GetStatus.FOUND, 3, 3)
    assert b"".join(result.records) == bytes(log.data)
    at = bytes(log.data).rindex(b"%LMQ%a")
    log.data[at : at + 6] = b"%LMQ%b"
    assert outcome(queue_reader.get_messages(queue, log, 0)) == (GetStatus.FOUND, 3, 2)
    log.data[record_layout.FIXED_BYTES - 1] = 0xFF
    assert queue_reader.get_messages(queue, log, 0).count == 1


class FakePageCache:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.noted: list[tuple[object, int]] = []

    def note(self, reader: object, place: int) -> None:
        """Keep where somebody reads."""
        self.noted.append((reader, place))


@pytest.mark.parametrize("own_from", [0, None])
def test_where_a_reader_is_gets_noted(own_from: int | None) -> None:
    """By the first record that the reader wants; a filler is nowhere."""
    log = filled(10)
    cache = FakePageCache()
    pages = cast("PageCache", cache)
    found = queue_reader.get_messages(
        log.queue, log, 3, Reading(2, reader="R"), page_cache=pages, own_from=own_from
    )
    assert found.count == 2
    assert set(cache.noted) == {("R", log.queue.unit(3)[0])}
    log = filled(1)
    log.queues.fill_to("T", 0, 3)
    cache.noted.clear()
    assert (
        queue_reader.get_messages(log.queue, log, 1, Reading(reader="R"), page_cache=pages).count
        == 0
    )
    assert cache.noted == []


@pytest.mark.parametrize("place", [-40, -35, -5, 0, 1 << 40])
def test_a_wrong_place_of_the_last_own_record_is_no_error(place: int) -> None:
    """Nothing before the log is looked at."""
    log = filled(6)
    _, size, code = log.queue.unit(1)
    log.put_unit(1, place, size, code)
    assert log.get(0, max_count=2, own_from=0) == log.get(0, max_count=2)


def test_batches_are_no_own_records() -> None:
    """A unit may stand for many messages there, so each is looked at."""
    log, queue = batches(2, 1, 3)
    expected = queue_reader.get_messages(queue, log, 0)
    assert queue_reader.get_messages(queue, log, 0, own_from=0) == expected
    assert expected.count > len(expected.records)


def test_units_are_given_with_the_codes_that_stand_behind_them() -> None:
    """None outside of the queue; the code of an extended unit instead of its address."""
    log = filled(5)
    found = queue_reader.units(log.queue, 1, 3)
    assert [unit[0] for unit in found] == [1, 2, 3]
    assert [unit[3] for unit in found] == [log.queue.unit(offset)[2] for offset in (1, 2, 3)]
    for outside in (-1, 5, 6):
        assert queue_reader.units(log.queue, outside, 3) == []
    queue = extended().queue
    (unit,) = queue_reader.units(queue, 0, 1)
    assert queue.unit(0)[2] != unit[3] == hash32("A")


def test_bytes_are_added_up_from_the_units() -> None:
    """Over files, of batches, of extended units; what stands for a lost message counts nothing."""
    log = filled(25, units_per_file=10)
    assert queue_reader.stored_bytes(log.queue) == len(log.data)
    assert queue_reader.stored_bytes(None) == 0
    assert queue_reader.stored_bytes(extended().queue) == len(extended().data)
    log.queues.fill_to("T", 0, 31)
    assert queue_reader.stored_bytes(log.queue) == len(log.data)
    in_batches, queue = batches(3, 4, 5, 1)
    assert queue_reader.stored_bytes(queue) == len(in_batches.data)


def test_bytes_are_not_known_where_units_are_lost() -> None:
    """A file is gone or was cut short: no sum is given of what is left."""
    log = filled(25, units_per_file=10)
    paths = [f"{log.queue.files.folder}/{n * log.geometry.file_bytes:020d}" for n in range(2)]
    with closing(log.disk.open(paths[1], write=True)) as file:
        file.write([bytes(100)], 100)
    assert queue_reader.stored_bytes(log.queue) == -1
    files = QueueFiles(SegmentFiles(log.disk, log.queue.files.folder, log.geometry.file_bytes))
    queue = FileQueue("T", 0, files, log.geometry.units_per_file)
    queue.resume(log.queue.ends()._replace(first_file=log.geometry.file_bytes))
    assert queue_reader.stored_bytes(queue) == -1
