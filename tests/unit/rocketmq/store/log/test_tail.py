"""The end of the log reads the same from memory and from its files, wherever one begins."""

import errno
from itertools import pairwise

import pytest
from tests.stores import SMALL, filled_parts, log_files, new, open_parts, overwrite

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import DiskFull
from sprocket.rocketmq.store.log import Tail, log_stream
from sprocket.rocketmq.store.log import tail as module
from sprocket.rocketmq.store.store import Store
from sprocket.testing.disk import SimulatedDisk


def _written(count: int = 12) -> tuple[Tail, SegmentFiles, list[int]]:
    """Return the end of a log in memory, its files, and where each write began and the last ended.

    A write has one to three records.
    """
    disk = SimulatedDisk()
    opened = open_parts(disk)
    store = Store(opened)
    places = []
    for number in range(count):
        places.append(int(store.end))
        store.append_all([new(body=bytes(90), name=f"N{number}")] * (number % 3 + 1))
        store.write()
    return opened.log.tail, log_files(disk), [*places, int(store.end)]


def test_memory_and_files_give_the_same() -> None:
    """From any write to the end of any in its file; behind the last blank there is nothing."""
    memory, files, places = _written()
    for start in places[:-1]:
        segment = files.segment(start)
        for end in [*[p for p in places if start < p < segment.end], min(places[-1], segment.end)]:
            found = bytes(memory.read(start, end))
            on_disk = bytes(Tail(files).read(start, end))
            assert on_disk.rstrip(b"\0") == found.rstrip(b"\0"), (start, end)
    assert len(files) > 1


def test_what_is_in_memory_is_not_read() -> None:
    """From any place that was not dropped on, up to any."""
    tail, files, places = _written(3)
    whole = bytes(Tail(files).read(0, places[3]))
    overwrite(files, 0, bytes(places[3]))
    for start in range(0, places[3], 7):
        for end in (start + 1, places[2], places[3]):
            if end > start:
                assert tail.read(start, end) == whole[start:end], (start, end)
    tail.drop(places[1] - 1)
    assert any(tail.read(0, places[1])[:64])
    tail.drop(places[1])
    assert not any(tail.read(0, places[1])[:64])


def test_no_more_is_given_at_once_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is kept."""
    monkeypatch.setattr(module, "READ_BYTES", 100)
    tail, _, places = _written(9)
    assert len(tail.read(0, places[9])) == places[1]


def test_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes first; what is not kept is read."""
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 1000)
    tail, files, places = _written()
    assert tail.read(places[0], places[1]) == Tail(files).read(places[0], places[1])
    for segment in files.segments:
        overwrite(files, segment.start, bytes(segment.size))
    writes = [range(*ends) for ends in pairwise(places) if any(tail.read(*ends))]
    assert [one.stop for one in writes] == places[-len(writes) :]
    assert 0 < sum(map(len, writes)) <= 1000


def test_a_failed_write_leaves_nothing_here() -> None:
    """Other records get its places."""
    disk, store, opened = filled_parts(2)
    end = int(store.end)
    store.append(new(body=b"lost"))
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        store.write()
    store.append(new(body=b"kept"))
    store.write()
    assert b"kept" in bytes(opened.log.tail.read(end, int(store.end)))


def test_a_record_longer_than_a_read_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more than that."""
    monkeypatch.setattr(module, "READ_BYTES", 100)
    _, files, places = _written(3)
    assert len(Tail(files).read(0, places[-1])) == places[1]


def test_records_that_came_as_columns_are_given_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """From any of them on, as many as one asks for, up to any end; what is between is read."""
    monkeypatch.setattr(log_stream, "COLUMNS_MIN", 2)
    monkeypatch.setattr(log_stream, "KEPT_MIN", 2)
    disk, store, _ = filled_parts(12)
    places = [int(place) for place, _ in store.records()]
    ends = [*places[1:], int(store.end)]
    assert ends[-1] < SMALL.log.segment_bytes
    data = bytes(store.log_part(0, ends[-1]))
    tail, stream = Tail(log_files(disk)), log_stream.LogStream(0, SMALL.log.segment_bytes, 2048)
    seam = 5
    for piece in (data[: ends[seam] - 1], data[ends[seam] - 1 :]):
        for found in stream.take(piece):
            if found.batch is not None:
                tail.add_batch(found.batch)
            tail.add((found.start, found.end, [found.data]))
    for number, place in enumerate(places):
        last = seam - 1 if number < seam else len(places) - 1
        for end in ends[number:]:
            for count in (1, 2, 99):
                batch = tail.batch(place, end, count)
                if number == seam:
                    assert batch is None
                    continue
                wanted = min(last + 1, ends.index(end) + 1, number + count)
                assert batch is not None
                assert batch.physical_offset.tolist() == places[number:wanted]
    assert tail.batch(places[0] + 1, ends[-1], 99) is None
    assert tail.batch(0, ends[-1], 99) is tail.batch(0, ends[seam], 99)
    assert tail.read(places[seam], ends[-1]) == data[places[seam] : ends[seam]]
    tail.drop(ends[-1])
    assert tail.batch(places[-1], ends[-1], 99) is None
