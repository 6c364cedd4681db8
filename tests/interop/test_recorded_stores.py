"""Stores that a real RocketMQ 5.3.3 wrote read equal to the last property.

They are data, so no peer needs to be installed. Recovery of the killed ones is tested with the
recovery itself; here they are only read.
"""

import filecmp
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import CASES, ROCKSDB, Recorded, filters_of_10b, in_our_names

from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk, SegmentFiles, SegmentWindow
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.cli.terminal.message import as_json
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import Entry, ScanStop, batch, properties, record, record_scan
from sprocket.rocketmq.model.message import INNER_BATCH, StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.index import Indexes, key_index, key_string
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import (
    BatchQueue,
    Database,
    FileQueues,
    GroupFilter,
    OtherKinds,
    RocksQueues,
    UnitAssigner,
    engines,
)
from sprocket.rocketmq.store.read import Boundary, GetStatus, Reading, queue_reader, time_search

DISK = RealDisk()
CLEAN = [name for name in CASES if Recorded(name).stopped_cleanly]

TORN_END = {"03-torn-last-cut": ScanStop.BAD_SIZE, "03-torn-last-head": ScanStop.BAD_OFFSET}
"""In these the last record of the list is damaged in the files."""

EXTENDED_UNITS = "10b-cq-ext-sql"
BATCH_QUEUES = "10d-batch-cq"
UNDISPATCHED = [name for name in CASES if name.startswith("03-") or name == "04b-rocksdb-kill9"]
"""Killed before the last records reached the queues."""

CLEANED = "14-retention"
REWRITTEN = "15-rewritten-tail"


class Log:
    """The log of a recorded store, walked."""

    def __init__(self, case: Recorded, root: str) -> None:
        size = case.geometry.log.segment_bytes
        self.files = SegmentFiles(DISK, f"{root}/commitlog", size, write=False)
        self.files.load()
        self.entries: list[Entry] = []
        self.messages: list[StoredMessage] = []
        self.blanks: list[dict[str, int]] = []
        self.stop = ScanStop.END
        self.end = PhysicalOffset(self.files.first)
        for segment in self.files.segments:
            scan = record_scan.Scan(segment.view, segment.start, 0, segment.size)
            for position, _ in scan:
                self.entries.append(record.entry(segment.view, position))
                self.messages.append(record.decode(segment.view, position))
            self.stop = scan.stop
            self.end = PhysicalOffset(segment.start + scan.position)
            if scan.stop is not ScanStop.BLANK:
                break
            self.blanks.append({"phys": self.end, "size": scan.blank_size})

    def slice(self, offset: int, size: int) -> memoryview:
        """Return stored bytes as the log of a store does."""
        if offset < self.files.first:
            raise OffsetTooSmall(offset, self.files.first)
        if offset + size > self.end:
            raise OffsetTooLarge(offset, self.end)
        segment = self.files.segment(offset)
        return segment.view[offset - segment.start : offset - segment.start + size]

    @property
    def warm_from(self) -> int:
        """All of it is looked at without copying."""
        return 0

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return what the file that holds a byte has, as the log of a store does."""
        self.slice(offset, min(size, 1))
        segment = self.files.segment(offset)
        return SegmentWindow(segment.view, segment.start, min(segment.end, self.end))


class Store:
    """A recorded store, opened for reading."""

    def __init__(self, name: str, folder: Path) -> None:
        self.case = Recorded(name)
        self.root = self.case.unpack(folder)
        geometry = self.case.geometry
        self.log = Log(self.case, self.root)
        self.queues = engines.make(DISK, StoreLayout(self.root), geometry.queue, write=False)
        self.queues.load(clean=True)
        self.queues.correct_min(PhysicalOffset(self.log.files.first))
        self.indexes = Indexes(
            DISK, f"{self.root}/index", geometry.index, SystemClock(), write=False
        )
        self.indexes.load()

    def close(self) -> None:
        """Close the handles."""
        self.queues.close()
        self.indexes.close_handles()
        self.log.files.close()


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Open the recorded store whose name is the parameter."""
    opened = Store(request.param, tmp_path)
    yield opened
    opened.close()


def comparable(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded line without what a store does not say."""
    left_out = {"crc_ok", "at", "inner"}
    line = {name: value for name, value in recorded.items() if name not in left_out}
    line.setdefault("unique_key", None)
    if not line["body_len"]:
        line.setdefault("body_hex", "")
    return line


@pytest.mark.slow
@pytest.mark.parametrize("store", CASES, indirect=True)
def test_every_record_reads_as_rocketmq_decodes_it(store: Store) -> None:
    """Every field, property and body of every record is the same, and none is missing."""
    expected = [in_our_names(comparable(line)) for line in store.case.records]
    if store.case.name in TORN_END:
        expected.pop()
    assert expected == [as_json(message) for message in store.log.messages]


@pytest.mark.slow
@pytest.mark.parametrize("store", CASES, indirect=True)
def test_the_log_ends_where_and_why_rocketmq_says(store: Store) -> None:
    """Blanks, the end, and what stops the walk there."""
    told = store.case.expected["log"]
    assert told["min_phys"] == store.log.files.first
    assert told.get("blanks", []) == store.log.blanks
    if store.case.name in TORN_END:
        assert store.log.stop is TORN_END[store.case.name]
        return
    reasons = {"zeros": ScanStop.ZEROS, "unknown magic": ScanStop.BAD_MAGIC}
    assert told["end"] == store.log.end
    assert reasons[told["end_because"]] is store.log.stop


@pytest.mark.slow
@pytest.mark.parametrize("store", CASES, indirect=True)
def test_every_unit_is_one_that_its_record_gets(store: Store) -> None:
    """Units agree with the log in queue, offset, place, size, code and number of messages."""
    due = {
        (unit.topic, unit.queue_id, unit.queue_offset): unit
        for entry in store.log.entries
        if entry.queueable
        for unit in UnitAssigner().each(entry)
    }
    count = 0
    for queue in store.queues.by_key.values():
        offset: int = queue.min_offset
        while offset < queue.max_offset:
            for first, place, size, code, messages in queue.units(offset, 1000):
                unit = due[queue.topic, queue.queue_id, first]
                assert (unit.physical_offset, unit.size) == (place, size)
                assert unit.next_offset == first + messages
                extended = queue.extended(code)
                if extended is not None:
                    assert store.case.name == EXTENDED_UNITS
                    assert (unit.tags_code, unit.stored_at_ms) == (
                        extended.tags_code,
                        extended.stored_at_ms,
                    )
                else:
                    assert unit.tags_code == code
                count += 1
                offset = first + messages
    if store.case.name not in (*UNDISPATCHED, CLEANED, "08-consumers"):
        assert len(due) == count


@pytest.mark.slow
@pytest.mark.parametrize("store", CASES, indirect=True)
def test_queues_have_the_range_that_the_broker_answers(store: Store) -> None:
    """First and next offset of each queue, without what the second broker wrote."""
    for topic, told in store.case.expected["topics"].items():
        for queue_id, answer in told["queues"].items():
            if store.case.name in UNDISPATCHED:
                continue
            expected = (answer["min"], answer.get("max_at_recovery", answer["max"]))
            key = topic, int(queue_id)
            queue = store.queues.by_key[key]
            assert expected == (queue.min_offset, queue.max_offset), key


@pytest.mark.slow
@pytest.mark.parametrize("store", CLEAN, indirect=True)
def test_every_message_is_read_through_its_queue(store: Store) -> None:
    """Pulling each queue from its first offset on gives every message once, bytes unchanged."""
    seen = []
    topics = {queue.topic for queue in store.queues.by_key.values()}
    for queue in store.queues.by_key.values():
        offset = queue.min_offset
        result = queue_reader.get_messages(queue, store.log, offset, Reading(7))
        while result.status is GetStatus.FOUND:
            seen += [record.decode(stored).physical_offset for stored in result.records]
            result = queue_reader.get_messages(queue, store.log, result.next_offset, Reading(7))
        assert result.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE)
    units = [u for e in store.log.entries if e.queueable for u in UnitAssigner().each(e)]
    assert [u.physical_offset for u in units if u.topic in topics] == sorted(seen)


@pytest.mark.slow
@pytest.mark.parametrize("store", CLEAN, indirect=True)
def test_offsets_by_time_are_those_the_broker_answers(store: Store) -> None:
    """LOWER and UPPER for each time asked, in queues that the second broker did not change.

    Of batch queues the broker's answers are right only for times at which something was stored.
    """
    topics = store.case.expected["topics"]
    times = {entry.stored_at_ms for entry in store.log.entries}
    count = 0
    for asked in store.case.expected["offset_by_time"]:
        answer = topics[asked["topic"]]["queues"][str(asked["queue_id"])]
        if answer.get("max_at_recovery", answer["max"]) != answer["max"]:
            continue
        queue = store.queues.by_key.get((asked["topic"], asked["queue_id"]))
        if isinstance(queue, BatchQueue) and asked["time"] not in times:
            continue
        for boundary in Boundary:
            found = time_search.offset_by_time(queue, store.log, asked["time"], boundary)
            assert asked[boundary.name.lower()] == found, (asked, boundary)
        count += 1
    assert count >= 10


@pytest.mark.slow
@pytest.mark.parametrize("store", [BATCH_QUEUES], indirect=True)
def test_inner_batches_hold_what_the_client_got(store: Store) -> None:
    """Each message of a batch: its offset, flag, body and properties."""
    pulled = {m["phys"]: m for m in store.case.expected["messages"]}
    assert len(pulled) == len(store.log.messages)
    for message in store.log.messages:
        columns = batch.split(message.body) if message.sys_flag & INNER_BATCH else ([], [], [])
        found = [
            {
                "queue_offset": message.queue_offset + number,
                "flag": flag,
                "body_len": len(body),
                "body_sha256": hashlib.sha256(body).hexdigest(),
                "properties": properties.decode(text),
            }
            for number, (flag, body, text) in enumerate(zip(*columns, strict=True))
        ]
        wanted = pulled[message.physical_offset].get("inner", [])
        assert [{k: v for k, v in m.items() if k != "body_hex"} for m in wanted] == found


@pytest.mark.slow
@pytest.mark.parametrize("store", CLEAN, indirect=True)
def test_keys_are_found_where_the_broker_finds_them(store: Store) -> None:
    """All that the broker answers is found; what is found beyond that lies in its second.

    The broker counts a message twice that has a key twice, and leaves out one whose store time,
    rounded down to a second, lies before the time asked for.
    """
    assert store.case.expected["query_by_key"]
    times = {entry.physical_offset: entry.stored_at_ms for entry in store.log.entries}
    for asked in store.case.expected["query_by_key"]:
        count = 32 if asked["unique"] else min(64, asked["max"])
        key = key_string(asked["topic"], asked["key"])
        found = store.indexes.find(key, count, asked["begin"], asked["end"])
        answered = [place for place in asked["phys"] if place < store.log.end]
        expected = sorted(set(answered), reverse=True)
        assert sorted(found, reverse=True) == found
        beyond = [place for place in found if place not in expected]
        assert expected == [place for place in found if place in expected], asked
        for place in beyond:
            # Where the broker's answer was cut off at its maximum, older messages follow.
            cut_off = len(answered) == count and place < min(expected)
            assert cut_off or abs(times.get(place, asked["begin"]) - asked["begin"]) < 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    "store", sorted({*CASES} - {*UNDISPATCHED, *ROCKSDB, CLEANED}), indirect=True
)
def test_queues_made_from_the_log_are_the_same_files(store: Store, tmp_path: Path) -> None:
    """Putting the log's records into new queues gives RocketMQ's files byte for byte.

    Of all kinds: plain, light, extended with the bits of the filters of that time, and of batches.
    """
    made = str(tmp_path / "made")
    folders = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
    is_extended = store.case.name == EXTENDED_UNITS
    others = OtherKinds(f"{made}/{folders[1]}", f"{made}/{folders[2]}", extend=is_extended)
    others.batch_topics.update(store.case.batch_topics)
    queues = FileQueues(DISK, f"{made}/{folders[0]}", store.case.geometry.queue, others=others)
    queues.load(clean=True)
    subscriptions: dict[str, list[GroupFilter]] = {}
    units = UnitAssigner(store.log.files, subscriptions=subscriptions)
    size = 1 if is_extended else 50
    for first in range(0, len(store.log.entries), size):
        entries = store.log.entries[first : first + size]
        if is_extended:
            subscriptions.update(filters_of_10b(entries[0].stored_at_ms))
        queues.put_round(units.of(entries))
    queues.close()
    for folder, _, names in os.walk(store.root):
        if folder.removeprefix(store.root).startswith(tuple(f"/{name}/" for name in folders)):
            twin = made + folder.removeprefix(store.root)
            assert (names, [], []) == filecmp.cmpfiles(folder, twin, names, shallow=False)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["04a-rocksdb-clean", "12b-config-rdb-v2"], indirect=True)
def test_queues_made_from_the_log_are_the_same_keys(store: Store, tmp_path: Path) -> None:
    """Putting the log's records into a new RocksDB gives RocketMQ's keys and values.

    But for the `min` records: RocketMQ writes one when somebody asks, for empty queues too.
    """
    made = RocksQueues(DISK, str(tmp_path / "made"))
    for first in range(0, len(store.log.entries), 50):
        made.put_round(UnitAssigner().of(store.log.entries[first : first + 50]))
    made.close()
    theirs = store.case.database("consumequeue")
    database = Database(DISK, str(tmp_path / "made"), ("default", "offset"), write=False)
    assert theirs["default"] == dict(database.all())
    ours = dict(database.all("offset"))
    database.close()
    for records in (ours, theirs["offset"]):
        for key in [key for key in records if b"\1min\1" in key]:
            del records[key]
    assert theirs["offset"] == ours


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True], ids=["numpy", "plain"])
@pytest.mark.parametrize(
    "store",
    [name for name in CASES if name not in (*UNDISPATCHED, CLEANED, REWRITTEN)],
    indirect=True,
)
def test_an_index_made_from_the_log_is_the_same_file(
    store: Store, tmp_path: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Putting the log's keys into a new index gives RocketMQ's files byte for byte."""
    if plain:  # as for a round of few keys
        monkeypatch.setattr(key_index, "ARRAY_KEYS_MIN", 1 << 30)
    folder = tmp_path / "made"
    made = Indexes(DISK, str(folder), store.case.geometry.index, SystemClock())
    for first in range(0, len(store.log.entries), 50):
        made.put_round(store.log.entries[first : first + 50])
    made.close()
    theirs = sorted(Path(store.root, "index").iterdir())
    ours = sorted(folder.iterdir())
    assert len(theirs) == len(ours)
    for their, our in zip(theirs, ours, strict=True):
        assert filecmp.cmp(their, our, shallow=False), their.name


@pytest.mark.slow
@pytest.mark.parametrize("store", ["10a-crc-tail"], indirect=True)
def test_crc_tails_of_rocketmq_fit_their_records(store: Store) -> None:
    """Each record of a store that was written with tails ends in one, and it is right."""
    for entry in store.log.entries:
        data = bytes(store.log.slice(entry.physical_offset, entry.size))
        message = record.decode(data, check_tail=True)
        assert "__CRC32#" in message.properties
        damaged = bytearray(data)
        damaged[record_layout.QUEUE_OFFSET_AT + 7] ^= 1
        assert record_layout.tail_fits(damaged, 0, len(damaged)) is False
