"""The stream over a store directory, without Spark: each of the engine's traps, and each loss."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from tests.unit.spark.damage_by_reader import A_WRONG_BYTE, FAILS, LOGGED, says
from tests.unit.spark.samples import encoded, plain_rows, schema

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, DataLost, FileMissing, ForeignStore, SettingsError
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.queue import QUEUE_UNIT
from sprocket.spark.rocketmq.folder import DirectoryStream
from sprocket.spark.rocketmq.folder import stream as module
from sprocket.spark.rocketmq.options import read_directory
from sprocket.testing.clock import FakeClock

FILE_BYTES = 1200
SIZE = 120
"""Of each record here; nine of them and padding fill a file."""
ALL = ReadAllAvailable()
STORED_AT_MS = 1_700_000_001_000
"""When the first record of `encoded` was stored; each further one a millisecond later."""


def made(base: int, number: int = 0, body: bytes = b"body") -> bytes:
    """Return a record of 120 bytes, if its body has four, that lies at `base`."""
    return encoded(1, base=base, first=number, body=body, pairs={"UNIQ_KEY": "U0", "TAGS": "A"})


class Store:
    """A store directory that somebody writes to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "commitlog"
        self.log.mkdir(parents=True)
        self.end = 0
        self.clock = FakeClock()

    def file(self, at: int) -> Path:
        """Return the file with a physical offset."""
        return self.log / f"{at // FILE_BYTES * FILE_BYTES:020d}"

    def write(self, at: int, data: bytes) -> None:
        """Put bytes at a physical offset, into a file that has its full length from the start."""
        path = self.file(at)
        held = bytearray(path.read_bytes() if path.exists() else bytes(FILE_BYTES))
        held[at % FILE_BYTES : at % FILE_BYTES + len(data)] = data
        path.write_bytes(held)

    def append(self, count: int, *, first: int = 0, body: bytes = b"body") -> None:
        """Write records as a broker does; what does not fit begins the next file."""
        for number in range(first, first + count):
            data = made(self.end, number, body)
            left = FILE_BYTES - self.end % FILE_BYTES
            if len(data) + 8 > left:
                self.write(self.end, record.blank(left))
                self.end += left
                data = made(self.end, number, body)
            self.write(self.end, data)
            self.end += len(data)

    def cut(self, at: int) -> None:
        """Take away what lies behind a physical offset, as recovery does."""
        for path in list(self.log.iterdir()):
            if int(path.name) >= at and int(path.name) > 0:
                path.unlink()
        self.write(at, bytes(FILE_BYTES - at % FILE_BYTES))
        self.end = at

    def retire(self, at: int) -> None:
        """Delete the file with a physical offset, as retention does."""
        self.file(at).unlink()

    def reader(self, **given: str) -> DirectoryStream:
        """Return a stream over it."""
        options = read_directory(
            {"path": str(self.folder), "columns": "physicalOffset", **given}, is_stream=True
        )
        return DirectoryStream(schema(options), options, self.clock)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with two full files and two records in the third."""
    made = Store(tmp_path / "store")
    made.append(20)
    return made


def at(place: int) -> dict[str, Any]:
    """Return an offset as Spark keeps it."""
    return {"v": 1, "phys": place}


def place(kept: dict[str, Any]) -> dict[str, Any]:
    """Return an offset without the record that was read, as earlier releases wrote it."""
    return {name: value for name, value in kept.items() if name != "last"}


def rows(stream: DirectoryStream, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Return the physical offsets of the records between two offsets, read as workers do."""
    found: list[int] = []
    for partition in stream.partitions(start, end):
        batches = list(stream.read(pickle.loads(pickle.dumps(partition))))  # noqa: S301
        found += [row["physicalOffset"] for row in plain_rows(batches)]
    return found


def read_on(
    stream: DirectoryStream, start: dict[str, Any], limit: ReadLimit | None = None
) -> list[list[int]]:
    """Return the records of each batch from an offset until nothing is left."""
    batches: list[list[int]] = []
    while True:
        end = stream.latestOffset(start, limit or stream.getDefaultReadLimit())
        if end is start:
            return batches
        batches.append(rows(stream, start, end))
        start = json.loads(json.dumps(end))
        assert len(batches) < 99


PLACES = [base + SIZE * number for base in (0, 1200) for number in range(9)] + [2400, 2520]


def test_a_query_starts_where_it_is_told(store: Store) -> None:
    """At the oldest record, at the end, or at a place."""
    assert store.reader().initialOffset() == at(0)
    assert store.reader(startingoffsets="latest").initialOffset() == at(2640)
    stream = store.reader(startingphysicaloffset="1320")
    assert read_on(stream, stream.initialOffset()) == [PLACES[10:]]
    store.retire(0)
    assert store.reader().initialOffset() == at(1200)


@pytest.mark.parametrize("late", [0, 1, 8, 9, 10, 18, 19, 20])
def test_a_query_starts_at_a_time(store: Store, late: int) -> None:
    """At the first record stored then or later, wherever the file is; nothing older comes."""
    stream = store.reader(startingtimestamp=str(STORED_AT_MS + late))
    batches = read_on(stream, stream.initialOffset())
    assert batches == ([PLACES[late:]] if late < 20 else [])
    assert stream.initialOffset() == at([*PLACES, 2640][late])


def test_a_query_starts_at_offsets_of_queues(store: Store) -> None:
    """It reads from the oldest record on, and leaves out what lies before; -1 means nothing."""
    store.append(3)
    table = '{"orders":{"any":{"0":1}}}'
    stream = store.reader(startingoffsets=table, columns="physicalOffset,queueOffset")
    assert stream.initialOffset() == {**at(0), "until": 3000}
    kept = read_on(stream, stream.initialOffset())[0]
    assert kept == [*PLACES[1:], 2760, 2880]
    with pytest.raises(SettingsError, match="has -1 for a queue"):
        store.reader(startingoffsets='{"orders":{"any":{"0":-1}}}').initialOffset()


def test_few_bytes_in_several_tasks(store: Store) -> None:
    """`minPartitions` cuts a batch into more."""
    stream = store.reader(minpartitions="2")
    assert len(stream.partitions(at(0), at(960))) == 1  # too near to the file's end to be cut
    assert len(stream.partitions(at(0), at(2640))) == 3
    assert rows(stream, at(0), at(2640)) == PLACES


def test_a_topic_that_is_not_there_is_named(store: Store) -> None:
    """As for a table: the text has the nearest."""
    (store.folder / "consumequeue" / "orders").mkdir(parents=True)
    with pytest.raises(SettingsError, match="did you mean orders"):
        store.reader(subscribe="ordrs").initialOffset()


def test_the_initial_offset_is_the_same_when_asked_again(store: Store) -> None:
    """Trap 1: Spark asks twice at the first start and mixes the answers; growth must not show."""
    stream = store.reader(startingoffsets="latest")
    first = json.dumps(stream.initialOffset())
    store.append(3)
    assert json.dumps(stream.initialOffset()) == first


def test_latest_after_a_failed_start_is_refused(store: Store) -> None:
    """Trap 2: resolved anew, `latest` may lie behind the noted end; that is data loss."""
    with pytest.raises(DataLost, match="before its first batch"):
        store.reader(startingoffsets="latest").partitions(at(2640), at(2520))
    assert store.reader(failondataloss="false").partitions(at(2640), at(2520)) == []


def test_an_offset_that_did_not_move_is_given_back(store: Store) -> None:
    """Trap 3: the same text, or Spark would run empty batches for ever."""
    stream = store.reader()
    start = json.loads('{"v": 1, "phys": 2640}')
    assert stream.latestOffset(start, ALL) is start
    moved = '{"v": 1, "phys": 2640, "last": [2520, 1700000001019]}'
    assert json.dumps(stream.latestOffset(at(0), ALL)) == moved
    assert json.dumps(store.reader().latestOffset(at(0), ALL)) == moved
    assert stream.reportLatestOffset() == at(2640)


def test_a_checkpoint_of_another_source_is_refused(store: Store) -> None:
    """Offsets of queues, or of a later release, are not a place in the log."""
    for kept in ({"v": 1, "queues": {}}, {"v": 2, "phys": 3}):
        with pytest.raises(DataLost, match="another release or another source"):
            store.reader().latestOffset(kept, ALL)


def test_once_takes_everything(store: Store) -> None:
    """Trap 4: Trigger.Once asks for all; no limit holds, and nothing is waited for."""
    given = {"maxbytespertrigger": "150", "maxoffsetspertrigger": "2"}
    assert place(store.reader(**given).latestOffset(at(0), ALL)) == at(2640)
    stream = store.reader(minoffsetspertrigger="100")
    stream.latestOffset(at(0), ALL)
    assert place(stream.latestOffset(at(2520), ALL)) == at(2640)


def test_available_now_ends(store: Store) -> None:
    """Never past what was there at its start, in as many steps as the limits ask for, then stop."""
    stream = store.reader(maxoffsetspertrigger="3", minoffsetspertrigger="2")
    stream.prepareForTriggerAvailableNow()
    store.append(50)
    batches = read_on(stream, stream.initialOffset())
    assert [one for batch in batches for one in batch] == PLACES
    assert [len(batch) for batch in batches] == [3, 3, 3, 3, 3, 3, 2]
    assert stream.reportLatestOffset() == at(2640)


def test_available_now_ends_when_the_log_is_gone(store: Store) -> None:
    """The end was fixed; a checkpoint ahead of it stays where it is."""
    stream = store.reader()
    stream.prepareForTriggerAvailableNow()
    store.append(1)
    ahead = at(store.end)
    assert stream.latestOffset(ahead, ALL) is ahead


def test_the_limit_that_spark_passes_back(store: Store) -> None:
    """Bytes before messages before the fewest messages; all of them hold nevertheless."""
    many = {"maxbytespertrigger": "1k", "maxoffsetspertrigger": "5", "minoffsetspertrigger": "2"}
    assert store.reader(**many).getDefaultReadLimit() == ReadMaxBytes(1024)
    del many["maxbytespertrigger"]
    assert store.reader(**many).getDefaultReadLimit() == ReadMaxRows(5)
    del many["maxoffsetspertrigger"]
    assert store.reader(**many).getDefaultReadLimit() == ReadMinRows(2)
    assert store.reader().getDefaultReadLimit() == ALL


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ({"maxbytespertrigger": "1"}, 120),
        ({"maxbytespertrigger": "239"}, 120),
        ({"maxbytespertrigger": "240"}, 240),
        ({"maxbytespertrigger": "1200"}, 1200),
        ({"maxbytespertrigger": "1319"}, 1200),
        ({"maxbytespertrigger": "1320"}, 1320),
        ({"maxbytespertrigger": "1g"}, 2640),
        ({"maxoffsetspertrigger": "1"}, 120),
        ({"maxoffsetspertrigger": "9"}, 1200),
        ({"maxoffsetspertrigger": "10"}, 1320),
        ({"maxoffsetspertrigger": "20"}, 2640),
        ({"maxoffsetspertrigger": "5", "maxbytespertrigger": "360"}, 360),
        ({"maxoffsetspertrigger": "2", "maxbytespertrigger": "360"}, 240),
    ],
)
def test_limits_cut_at_a_record(store: Store, given: dict[str, str], end: int) -> None:
    """Never more than was said, but one record at least; of two limits the smaller one holds."""
    stream = store.reader(**given)
    assert place(stream.latestOffset(at(0), stream.getDefaultReadLimit())) == at(end)


@settings(max_examples=25)
@given(
    bytes_max=st.integers(1, 1500),
    count_max=st.integers(0, 12),
    partition_bytes=st.sampled_from([1, 100, 250, 5000]),
    restart=st.booleans(),
)
def test_every_record_once_whatever_the_limits(
    tmp_path_factory: pytest.TempPathFactory,
    bytes_max: int,
    count_max: int,
    partition_bytes: int,
    restart: bool,
) -> None:
    """Batch by batch, cut into tasks, by one stream or by a new one for each batch."""
    store = Store(tmp_path_factory.mktemp("store"))
    store.append(20)
    given = {"maxbytespertrigger": str(bytes_max), "maxpartitionbytes": str(partition_bytes)}
    if count_max:
        given["maxoffsetspertrigger"] = str(count_max)
    stream, start, found = store.reader(**given), at(0), []
    while (end := stream.latestOffset(start, ReadMaxBytes(bytes_max))) is not start:
        found += rows(stream, start, end)
        stream, start = store.reader(**given) if restart else stream, end
    assert found == PLACES


def test_few_messages_wait(store: Store) -> None:
    """The first batch begins at once; then the fewest are waited for, until it is too late."""
    stream = store.reader(minoffsetspertrigger="3", maxtriggerdelay="10s")
    limit = stream.getDefaultReadLimit()
    assert place(stream.latestOffset(at(2520), limit)) == at(2640)
    start = at(2640)
    store.append(2)
    assert stream.latestOffset(start, limit) is start
    store.append(1)
    assert place(stream.latestOffset(start, limit)) == at(3000)
    store.append(1)
    start = at(3000)
    store.clock.advance(9_999)
    assert stream.latestOffset(start, limit) is start
    store.clock.advance(1)
    assert place(stream.latestOffset(start, limit)) == at(3120)
    store.clock.advance(10_000)
    start = at(3120)
    assert stream.latestOffset(start, limit) is start


def test_retention(store: Store) -> None:
    """What is below the oldest file is an error that names both; or reading begins there."""
    store.retire(0)
    with pytest.raises(DataLost, match="physical offset 120 is gone, the oldest kept is 1200"):
        store.reader().latestOffset(at(120), ALL)
    with pytest.raises(DataLost, match="the oldest kept is 1200"):
        store.reader().partitions(at(120), at(1320))
    gentle = store.reader(failondataloss="false", maxoffsetspertrigger="2")
    assert place(gentle.latestOffset(at(120), gentle.getDefaultReadLimit())) == at(1440)
    assert rows(gentle, at(120), at(1440)) == [1200, 1320]
    assert gentle.partitions(at(120), at(240)) == []


def test_retention_of_all_that_was_written(store: Store) -> None:
    """Only a file made ahead is left: nothing is lost for who had read all, all for others."""
    store.write(3600, bytes(FILE_BYTES))
    for start in (0, 1200, 2400):
        store.retire(start)
    read_all = at(3600)
    assert store.reader().latestOffset(read_all, ALL) is read_all
    with pytest.raises(DataLost, match="2640 is gone, the oldest kept is 3600"):
        store.reader().latestOffset(at(2640), ALL)
    assert place(store.reader(failondataloss="false").latestOffset(at(2640), ALL)) == at(3600)


def test_a_file_removed_during_a_task(store: Store) -> None:
    """The task fails; or its other rows are kept."""
    for loss in ("true", "false"):
        stream = store.reader(failondataloss=loss)
        partitions = stream.partitions(at(0), at(2640))
        store.retire(0 if loss == "true" else 1200)
        batches = [stream.read(partition) for partition in partitions]
        if loss == "true":
            with pytest.raises(FileMissing, match="cleaned away while the query ran"):
                plain_rows([one for some in batches for one in some])
        else:
            kept = plain_rows([one for some in batches for one in some])
            assert [row["physicalOffset"] for row in kept] == [2400, 2520]


class Retiring(RealDisk):
    """A disk on which retention deletes a file as soon as somebody wants to open it."""

    def __init__(self, store: Store, place: int) -> None:
        self.path = str(store.file(place))

    def open(self, path: str, *args: Any, **more: Any) -> Any:
        """Delete the one file instead of opening it."""
        if path == self.path and self.exists(path):
            self.remove(path)
        return super().open(path, *args, **more)


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(30)])
def test_a_file_removed_while_a_batch_is_planned(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: ReadLimit
) -> None:
    """It was listed and is gone when it is opened: planned again, as if it had never been there."""
    monkeypatch.setattr(module, "open_files", lambda *_: Retiring(store, 0))
    given = {"failondataloss": "false", "maxpartitionbytes": "300", "maxoffsetspertrigger": "30"}
    stream = store.reader(**given)
    end = stream.latestOffset(at(0), limit)
    assert rows(stream, at(0), end) == PLACES[9:]
    assert not store.file(0).exists()


def test_a_log_that_became_shorter(store: Store) -> None:
    """A restored disk is an error; or the next batch starts at the new end."""
    running = store.reader()
    assert place(running.latestOffset(at(0), ALL)) == at(2640)
    store.cut(2520)
    for stream in (running, store.reader()):
        with pytest.raises(DataLost, match="2640 is gone, the log ends at 2520"):
            stream.latestOffset(at(2640), ALL)
        with pytest.raises(DataLost, match="2640 is gone, the log ends at 2520"):
            stream.partitions(at(0), at(2640))
    gentle = store.reader(failondataloss="false")
    assert place(gentle.latestOffset(at(2640), ALL)) == at(2520)
    assert gentle.partitions(at(2640), at(2520)) == []
    store.append(1, first=20)
    assert read_on(gentle, at(2520)) == [[2520]]
    assert rows(gentle, at(2400), at(9999)) == [2400, 2520]


def test_available_now_tells_of_a_log_that_became_shorter(store: Store) -> None:
    """The end that it fixes is the new one; that the checkpoint is ahead of it is not silent."""
    store.cut(2520)
    stream = store.reader()
    stream.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="the log ends at 2520"):
        stream.latestOffset(at(2640), ALL)


@pytest.mark.parametrize("body", [b"body", b"BODY", b"a longer body"])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_log_that_was_cut_back_and_has_grown_again(
    store: Store, body: bytes, is_running: bool
) -> None:
    """Even where new records have the places of the old ones, a running stream sees that.

    One that starts sees what it can: that its place lies within a record.
    """
    stream = store.reader()
    assert read_on(stream, at(2400)) == [[2400, 2520]]
    store.cut(2400)
    store.append(4, first=40, body=body)
    place = at(2640)
    if is_running or len(body) > 4:
        with pytest.raises(DataLost, match="2640 is gone, no record that was read ends there"):
            (stream if is_running else store.reader()).latestOffset(place, ALL)
    gentle = store.reader(failondataloss="false")
    first = 2640 if len(body) == 4 else 2400 + 2 * len(made(0, body=body))
    assert read_on(gentle, place)[0][0] == first


def after_all(stream: DirectoryStream) -> dict[str, Any]:
    """Return where a stream is that has read everything, as the checkpoint has it."""
    kept: dict[str, Any] = json.loads(json.dumps(stream.latestOffset(at(0), ALL)))
    return kept


def make_anew(store: Store, count: int, body: bytes = b"body") -> None:
    """Delete a store and make it again, with younger messages."""
    for path in list(store.log.iterdir()):
        path.unlink()
    store.end = 0
    store.append(count, first=500, body=body)


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("is_available_now", [False, True])
@pytest.mark.parametrize("body", [b"body", b"a longer body"])
@pytest.mark.parametrize("count", [0, 3, 20, 22, 40])
def test_a_store_that_was_made_anew(
    store: Store, count: int, body: bytes, is_available_now: bool, is_running: bool
) -> None:
    """Whether its log is shorter or longer, and has a record there or not: told, or read whole."""
    stream = {loss: store.reader(failondataloss=loss) for loss in ("true", "false")}
    start = after_all(stream["true"])
    assert after_all(stream["false"]) == start
    make_anew(store, count, body)
    if not is_running:
        stream = {loss: store.reader(failondataloss=loss) for loss in ("true", "false")}
    if is_available_now:
        for one in stream.values():
            one.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match=r"2640 is gone.*failOnDataLoss=false"):
        stream["true"].latestOffset(start, ALL)
    batches = read_on(stream["false"], start)
    assert [one for batch in batches for one in batch] == read_all(store)
    assert len(read_all(store)) == count


def read_all(store: Store) -> list[int]:
    """Return the physical offsets of all records of a store."""
    stream = store.reader()
    return [one for batch in read_on(stream, stream.initialOffset()) for one in batch]


def test_a_store_that_was_made_anew_at_the_start_of_a_file(store: Store) -> None:
    """There a record always begins; the one before it is another one, or there is none."""
    given = {"maxbytespertrigger": "1200"}
    stream = store.reader(**given)
    start = stream.latestOffset(at(0), stream.getDefaultReadLimit())
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert (place(start), place(end)) == (at(1200), at(2400))
    assert "last" not in start  # the first batch had a limit, and nothing before it
    cut = store.reader(maxbytespertrigger="1320")
    end = cut.latestOffset(start, cut.getDefaultReadLimit())
    end = cut.latestOffset(end, cut.getDefaultReadLimit())
    kept = {**at(2400), "last": [960, STORED_AT_MS + 8]}
    make_anew(store, 22, b"a longer body")
    with pytest.raises(DataLost, match="2400 is gone, no record that was read ends there"):
        store.reader().latestOffset(kept, ALL)
    gentle = store.reader(failondataloss="false")
    assert [one for batch in read_on(gentle, kept) for one in batch] == read_all(store)


@pytest.mark.parametrize("count", [1, 4])
def test_a_log_that_was_cut_back_goes_on_at_its_younger_records(store: Store, count: int) -> None:
    """What it still has was read; nothing of that comes again, and nothing new is left out."""
    start = after_all(store.reader())
    store.cut(2520)
    gentle = store.reader(failondataloss="false")
    assert read_on(gentle, start) == [[]]
    store.append(count, first=40)
    with pytest.raises(DataLost, match="2640 is gone, no record that was read ends there"):
        store.reader().latestOffset(start, ALL)
    gentle = store.reader(failondataloss="false")
    batches = read_on(gentle, start)
    assert [one for batch in batches for one in batch] == [2520 + SIZE * n for n in range(count)]


def test_retention_of_the_record_that_was_read(store: Store) -> None:
    """It says nothing any more; what is to be read is there."""
    kept = {**at(1320), "last": [960, STORED_AT_MS + 8]}
    store.retire(0)
    assert read_on(store.reader(), kept) == [PLACES[10:]]


def test_a_damaged_record_that_was_read(store: Store) -> None:
    """Damage is not a loss: a record that begins there may be that one, unless its time differs."""
    kept = {**at(2640), "last": [960, STORED_AT_MS + 8]}
    store.append(2)
    sound = store.file(0).read_bytes()
    for changed in (4, 90):
        store.write(960 + changed, b"\xff")
        stream = store.reader(mode="DROPMALFORMED")
        assert place(stream.latestOffset(kept, ALL)) == at(2880)
        store.file(0).write_bytes(sound)
    store.write(960 + 63, b"\xff")
    with pytest.raises(DataLost, match="2640 is gone"):
        store.reader().latestOffset(kept, ALL)


@pytest.mark.parametrize("given", [{"subscribe": "orders"}, {"assign": '{"orders":{"a":[0,1]}}'}])
def test_a_topic_that_has_fewer_queues(store: Store, given: dict[str, str]) -> None:
    """Its log has all that was in the others; that their folders are gone is not a loss."""
    queues = [store.folder / "consumequeue" / "orders" / str(number) for number in range(2)]
    for queue in queues:
        queue.mkdir(parents=True)
        (queue / f"{0:020d}").write_bytes(QUEUE_UNIT.pack(0, SIZE, 0))
    stream = store.reader(**given)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    shutil.rmtree(queues[1])
    store.append(1)
    assert read_on(store.reader(**given), start) == [[2640]]


def test_a_topic_that_was_made_again_in_one_log(store: Store) -> None:
    """All of its messages are read, those too whose offsets were before the start of the query."""
    table = {"startingoffsets": '{"orders":{"any":{"0":5}}}'}
    stream = store.reader(columns="physicalOffset,queueOffset", **table)
    start = stream.initialOffset()
    assert start == {**at(0), "until": 2640}
    store.append(4)  # the queue begins at 0 again
    batches = read_on(stream, start)
    assert batches == [PLACES[5:], [2640, 2760, 2880, 3000]]
    kept = stream.latestOffset(start, ALL)
    assert (place(kept), kept["until"]) == ({**at(2640), "until": 2640}, 2640)
    store.append(1)
    assert read_on(store.reader(**table), kept) == [[2640, 2760, 2880, 3000, 3120]]
    old = {"v": 1, "phys": 2640}  # of an earlier release: the start holds for all of the log
    assert read_on(store.reader(**table), old) == [[]]


def test_a_place_within_a_full_file_that_is_none(store: Store) -> None:
    """The chain before it does not land there; a body that looks like a record misleads nobody."""
    with pytest.raises(DataLost, match="1300 is gone"):
        store.reader().latestOffset(at(1300), ALL)
    gentle = store.reader(failondataloss="false")
    assert rows(gentle, at(1300), at(1560)) == [1320, 1440]
    fake = Store(store.folder / "fake")
    fake.append(1)
    fake.append(1, body=made(120 + 88) + bytes(8))
    kept = fake.end
    fake.append(10)
    assert read_on(fake.reader(), at(kept))[0][0] == kept
    with pytest.raises(DataLost, match="208 is gone"):
        fake.reader().latestOffset(at(208), ALL)


@settings(max_examples=40)
@given(kept=st.sampled_from([0, 1, 4, 8, 87, 88, 119]) | st.integers(0, 119))
def test_a_record_written_in_part_is_waited_for(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    """While a broker writes, of a record that is there in part nothing is read, however much."""
    store = Store(tmp_path_factory.mktemp("store"))
    (store.folder / "abort").write_text("1")
    store.append(11)
    stream = store.reader()
    start = at(store.end)
    assert place(stream.latestOffset(at(0), ALL)) == start
    data = made(store.end, 11)
    store.write(store.end, data[:kept])
    assert stream.latestOffset(start, ALL) is start
    assert store.reader().latestOffset(start, ALL) is start
    store.write(store.end, data)
    assert read_on(stream, start) == [[1440]]


def test_remains_from_before_the_last_start_are_no_records(store: Store) -> None:
    """After a loss of power a new record may end where an old one begins that was never cut away.

    It is older than the start of the broker, and lies behind one that is younger.
    """
    abort = store.folder / "abort"
    abort.write_text("1")
    started_at = (STORED_AT_MS + 500) / 1000
    os.utime(abort, (started_at, started_at))
    stream = store.reader()
    assert place(stream.latestOffset(at(0), ALL)) == at(2640)
    store.write(2640, made(2640, 900))
    store.write(2760, made(2760, 21))
    assert place(stream.latestOffset(at(0), ALL)) == at(2760)
    assert place(store.reader().latestOffset(at(0), ALL)) == at(2760)
    store.write(2760, made(2760, 901))
    assert read_on(stream, at(2760)) == [[2760]]


def test_damage_goes_by_the_mode(store: Store) -> None:
    """A broken record of a full file is the tasks' to tell, and no loss; limits step over it."""
    store.write(240 + 4, b"\xff\xff")
    stream = store.reader(maxoffsetspertrigger="4")
    end = stream.latestOffset(at(0), stream.getDefaultReadLimit())
    assert end == at(480)
    with pytest.raises(CorruptRecord, match="at physical offset 240"):
        rows(stream, at(0), end)
    dropping = store.reader(mode="DROPMALFORMED", maxoffsetspertrigger="3")
    with structlog.testing.capture_logs() as logged:
        batches = read_on(dropping, at(0))
    assert [one for batch in batches for one in batch] == PLACES[:2] + PLACES[3:]
    assert [one["event"] for one in logged] == ["damage is left out"]
    assert says("`spark.readStream` of a directory", A_WRONG_BYTE) == (FAILS, LOGGED)
    assert read_on(store.reader(mode="DROPMALFORMED"), at(240))[0][:2] == [360, 480]


def test_batches_are_planned_alike_after_a_restart(store: Store) -> None:
    """What a batch reads depends on its two offsets, whatever was written or read since."""
    stream = store.reader(maxpartitionbytes="300")
    before = [partition.value for partition in stream.partitions(at(120), at(2520))]
    store.append(30)
    again = store.reader(maxpartitionbytes="300")
    assert [partition.value for partition in again.partitions(at(120), at(2520))] == before
    assert isinstance(stream.partitions(at(0), at(0)), list)
    assert rows(again, at(120), at(2520)) == PLACES[1:-1]


def test_an_empty_log_and_what_comes(tmp_path: Path) -> None:
    """A store that nothing was written to yet is waited for; a folder that is none is refused."""
    with pytest.raises(ForeignStore, match="no folder commitlog"):
        Store(tmp_path / "a").reader(path=str(tmp_path)).initialOffset()
    store = Store(tmp_path / "b")
    stream = store.reader()
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) is start
    store.write(0, bytes(FILE_BYTES))
    assert stream.latestOffset(start, ALL) is start
    store.append(1)
    assert read_on(stream, start) == [[0]]


def test_readers_travel(store: Store) -> None:
    """Spark pickles the reader for its workers."""
    stream = store.reader()
    stream.latestOffset(stream.initialOffset(), ALL)
    copy = pickle.loads(pickle.dumps(stream))  # noqa: S301
    assert rows(copy, at(0), at(240)) == [0, 120]
    assert list(stream.read(type("Bare", (), {"value": None}))) == []
