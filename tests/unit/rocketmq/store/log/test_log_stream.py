"""The bytes of another log become whole records and ends of files, however they come."""

from itertools import pairwise
from random import Random

import pytest
from tests.stores import new

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.codec.record_layout import I32
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.log import CommitLog, LogStream, StoredRecords
from sprocket.rocketmq.store.log import log_stream as module
from sprocket.testing.disk import SimulatedDisk

SEGMENT = 2048
MESSAGE = 1024


def a_log(count: int = 12, seed: int = 1) -> bytes:
    """Return all bytes of a log with several files."""
    random = Random(seed)
    disk = SimulatedDisk()
    disk.make_folder("/log")
    log = CommitLog(SegmentFiles(disk, "/log", SEGMENT), 0, crc_tail=True)
    for number in range(count):
        log.append([new(body=bytes(random.randrange(1, 800)))], [number], 1)
    log.write()
    read = [segment.file.read(0, SEGMENT) for segment in log.files.segments]
    return b"".join(read)[: log.end]


def stored(one: NewRecord, queue_offset: int, place: int) -> bytes:
    """Return a record as it lies in a log."""
    return record.encode(
        one, queue_offset=queue_offset, physical_offset=place, stored_at_ms=1, crc_tail=True
    )


def pieces(data: bytes, random: Random) -> list[bytes]:
    """Return some bytes in pieces, of one byte among others."""
    ends = sorted(random.sample(range(1, len(data)), 20))
    ends += [end + 1 for end in ends if end + 1 < len(data)]
    return [data[a:b] for a, b in pairwise([0, *sorted(set(ends)), len(data)])]


def _end_of(records: StoredRecords) -> int:
    """Return where the last record ends."""
    (size,) = I32.unpack_from(records.data, records.last_start - records.start)
    return int(records.last_start + size)


@pytest.mark.parametrize("columns_min", [1, 1 << 30])
@pytest.mark.parametrize("seed", range(20))
def test_any_pieces_make_the_same_log(
    seed: int, columns_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte; and after each piece the log ends where a record, or a file, does.

    Many records come as columns as well, and those say the same.
    """
    monkeypatch.setattr(module, "COLUMNS_MIN", columns_min)
    monkeypatch.setattr(module, "KEPT_MIN", columns_min)
    data = a_log(seed=seed)
    disk = SimulatedDisk()
    disk.make_folder("/log")
    log = CommitLog(SegmentFiles(disk, "/log", SEGMENT), 0, crc_tail=False)
    stream = LogStream(0, SEGMENT, MESSAGE)
    count, received = 0, 0
    for piece in pieces(data, Random(seed)):
        for records in stream.take(piece):
            log.append_stored(records)
            count += records.count
            has_batch = records.count >= columns_min
            assert (records.batch is not None) is has_batch
            if records.batch is not None:
                entries = records.batch.entries()
                assert [one.physical_offset for one in entries][:: len(entries)] == [records.start]
                assert (len(entries), records.batch.end) == (records.count, _end_of(records))
            assert log.end == records.end
        received += len(piece)
        assert stream.received == received or stream.place == received
        log.write()
        assert log.end == stream.place
    assert (count, log.end) == (12, len(data))
    found = b"".join(segment.file.read(0, SEGMENT) for segment in log.files.segments)
    assert found[: log.end] == data


def test_a_blank_ends_its_file_before_its_rest_has_come() -> None:
    """Nobody reads the rest; what is asked for next is the next file."""
    data = stored(new(body=bytes(700)), 0, 0)
    blank = record.blank(SEGMENT - len(data))
    stream = LogStream(0, SEGMENT, MESSAGE)
    (found,) = stream.take(data + blank)
    assert (found.count, found.end, bytes(found.data)) == (1, SEGMENT, data + blank)
    assert stream.received == len(data) + 8
    assert stream.take(bytes(SEGMENT - len(data) - 9)) == []
    assert (stream.received, stream.place) == (SEGMENT - 1, SEGMENT)
    assert stream.take(b"\0") == []
    following = stored(new(), 1, SEGMENT)
    assert stream.take(following) == [
        StoredRecords(SEGMENT, memoryview(following), 1, SEGMENT, SEGMENT + len(following))
    ]


def test_a_record_says_where_it_lies() -> None:
    """One of another place is refused, whole as it is."""
    data = stored(new(), 0, 512)
    with pytest.raises(WireError, match="record at 0 says that it lies at 512"):
        LogStream(0, SEGMENT, MESSAGE).take(data)


def test_what_is_no_log_is_refused() -> None:
    """Anything else than a record or a blank where one must begin."""
    data = stored(new(), 0, 0)
    with pytest.raises(WireError, match=f"no record begins at {len(data)}: magic 0x00000000"):
        LogStream(0, SEGMENT, MESSAGE).take(data + bytes(8))
    broken = data[:40] + b"\xff" * 60 + data[100:]
    with pytest.raises(WireError):
        LogStream(0, SEGMENT, MESSAGE).take(broken)


def test_files_of_another_size_are_named() -> None:
    """A blank that ends elsewhere, and a record that reaches over the end of a file."""
    with pytest.raises(WireError, match=r"ends at 1024, here at 2048.*log\.segment_bytes"):
        LogStream(0, SEGMENT, MESSAGE).take(record.blank(1024))
    large = stored(new(body=bytes(2000)), 0, 0)
    with pytest.raises(WireError, match=r"where a file ends after 2048.*log\.segment_bytes"):
        LogStream(0, SEGMENT, 4096).take(large[:100])


def test_a_record_without_end_is_refused() -> None:
    """It would be waited for in memory."""
    large = stored(new(body=bytes(300_000)), 0, 0)
    with pytest.raises(WireError, match=r"larger than any of 1024 may be"):
        LogStream(0, 1 << 20, MESSAGE).take(large[:100])
