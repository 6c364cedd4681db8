"""The end of the log reads the same from memory and from its files, wherever one begins."""

import errno

import pytest
from tests.stores import filled, new, open_store

from sprocket.base.errors import DiskFull
from sprocket.rocketmq.store.log import tail as module
from sprocket.rocketmq.store.log.tail import Tail
from sprocket.rocketmq.store.store import Store
from sprocket.testing.disk import SimulatedDisk


def _written(count: int = 12) -> tuple[Store, list[int]]:
    """Return a store with writes of one to three records, and where each write began."""
    store = open_store(SimulatedDisk())
    places = []
    for number in range(count):
        places.append(int(store.end))
        store.append_all([new(body=bytes(90), name=f"N{number}")] * (number % 3 + 1))
        store.write()
    return store, places


def test_memory_and_files_give_the_same() -> None:
    """From any write to the end of any in its file; behind the last blank there is nothing."""
    store, places = _written()
    memory, files = store._log.tail, Tail(store._files)
    for start in places:
        segment = store._files.segment(start)
        for end in [*[p for p in places if start < p < segment.end], min(store.end, segment.end)]:
            found = memory.read(start, end)
            assert files.read(start, end).rstrip(b"\0") == found.rstrip(b"\0"), (start, end)
    assert len(store._files) > 1


def test_what_is_in_memory_is_not_read() -> None:
    """Only what begins and ends as it was written; all else is in the files."""
    store, places = _written(3)
    store._files.segment(0).file.write([bytes(64)], 0)
    assert any(store._log.tail.read(0, places[1])[:64])
    assert not any(store._log.tail.read(0, places[1] - 1)[:64])
    store._log.tail.drop(places[1] - 1)
    assert any(store._log.tail.read(0, places[1])[:64])
    store._log.tail.drop(places[1])
    assert not any(store._log.tail.read(0, places[1])[:64])


def test_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes first; what is not kept is read."""
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 1000)
    store, places = _written()
    tail = store._log.tail
    kept = sum(end - start for start, end, _ in tail._runs)
    assert 0 < kept == tail._kept_bytes <= 1000
    assert tail.read(places[0], places[1]) == Tail(store._files).read(places[0], places[1])


def test_a_failed_write_leaves_nothing_here() -> None:
    """Other records get its places."""
    disk, store = filled(2)
    end = int(store.end)
    store.append(new(body=b"lost"))
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFull):
        store.write()
    store.append(new(body=b"kept"))
    store.write()
    assert b"kept" in store._log.tail.read(end, int(store.end))


def test_a_record_longer_than_a_read_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more than that."""
    monkeypatch.setattr(module, "READ_BYTES", 100)
    store, places = _written(3)
    assert len(Tail(store._files).read(0, int(store.end))) == places[1]
