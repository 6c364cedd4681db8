"""RocksDB databases: batches, refusals, and readers that leave no trace."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, DiskFailed, DiskFull, StoreLocked
from sprocket.base.units import MIB
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.store.queue import Database, is_database, read_all, rocks_database
from sprocket.testing.disk import SimulatedDisk

DISK = RealDisk()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The folder of a database that is not there yet."""
    return str(tmp_path / "db")


def made(folder: str, count: int = 9) -> Database:
    """Return an open database with the keys `k0`, `k1`, …, and their number in `more`."""
    opened = Database(DISK, folder, ("default", "more"), write=True)
    batch = opened.batch()
    for number in range(count):
        batch.put(b"k%d" % number, b"%d" % number)
    batch.put(b"count", b"%d" % count, opened.handle("more"))
    opened.write(batch)
    return opened


def tree(folder: str) -> dict[str, tuple[int, str]]:
    """Return time and content of every file."""
    return {
        path.name: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in Path(folder).iterdir()
    }


def test_what_was_written_is_read(folder: str) -> None:
    """By key, as a range in both directions, and whole; after a flush and a stop as well."""
    opened = made(folder)
    opened.flush()
    opened.flush()
    opened.close()
    opened.close()
    opened = Database(DISK, folder, ("default", "more"), write=True)
    assert opened.get([b"k1", b"x", b"k8"]) == [b"1", None, b"8"]
    assert opened.items(b"k4", 2) == [(b"k4", b"4"), (b"k5", b"5")]
    assert opened.items(b"k4x", 2, backwards=True) == [(b"k4", b"4"), (b"k3", b"3")]
    assert opened.items(b"k9", 2) == []
    assert list(opened.all("more")) == [(b"count", b"9")]
    assert opened.items(b"a", 9, family="more") == [(b"count", b"9")]
    opened.close()


def test_a_crash_takes_what_was_not_flushed(folder: str) -> None:
    """There is no log of it; a copy of the folder is what a killed process leaves."""
    opened = made(folder)
    opened.flush()
    batch = opened.batch()
    batch.put(b"k9", b"9")
    opened.write(batch)
    shutil.copytree(folder, folder + "2")
    opened.close()
    assert len(read_all(DISK, folder)) == 10
    assert len(read_all(DISK, folder + "2")) == 9


def test_a_reader_leaves_no_trace(folder: str) -> None:
    """Neither in a closed database nor in one that another process has open."""
    assert not is_database(DISK, folder)
    opened = made(folder)
    opened.flush()
    for _ in range(2):
        before = tree(folder)
        assert len(read_all(DISK, folder)) == 9
        assert tree(folder) == before
        opened.close()
    assert is_database(DISK, folder)


def test_a_reader_cannot_write(folder: str) -> None:
    """RocksDB refuses it."""
    made(folder).close()
    reader = Database(DISK, folder, write=False)
    batch = reader.batch()
    batch.put(b"a", b"b")
    with pytest.raises(DiskFailed, match="read only"):
        reader.write(batch)
    reader.close()


def test_unknown_families_are_taken_up(folder: str) -> None:
    """A database that has more of them is opened all the same."""
    made(folder).close()
    opened = Database(DISK, folder, write=True)
    assert len(list(opened.all())) == 9
    opened.close()


def test_one_process_at_a_time_writes(folder: str) -> None:
    """The second one is told who is in its way."""
    opened = made(folder)
    with pytest.raises(StoreLocked, match="LOCK"):
        Database(DISK, folder, write=True)
    opened.close()


def test_a_missing_database_is_not_made_by_a_reader(folder: str) -> None:
    """It is an error that names the folder."""
    with pytest.raises(DiskFailed, match=folder):
        read_all(DISK, folder)
    assert not os.path.exists(folder)


def test_damage_is_told(folder: str) -> None:
    """A file that is missing, and one whose bytes changed."""
    opened = made(folder)
    opened.flush()
    opened.close()
    for table in Path(folder).glob("*.sst"):
        data = bytearray(table.read_bytes())
        data[3] ^= 1
        table.write_bytes(data)
    with pytest.raises(CorruptRecord):
        read_all(DISK, folder)
    damaged = Database(DISK, folder, write=False)
    for is_backwards in (False, True):
        with pytest.raises(CorruptRecord):
            damaged.items(b"\xff" if is_backwards else b"", 100, backwards=is_backwards)
    damaged.close()
    table.unlink()
    with pytest.raises(CorruptRecord, match=table.name):
        Database(DISK, folder, write=True)


def test_every_call_says_what_it_could_not_do(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is closed under somebody's hands fails like a disk."""
    real = rocksdict.Rdict
    families: list[Any] = []

    def told(*arguments: Any) -> Any:
        families.append(real(*arguments))
        return families[0]

    monkeypatch.setattr(rocksdict, "Rdict", told)
    opened = made(folder)
    families += [families[0].get_column_family("more")]
    for family in families:
        family.close()
    calls = (
        lambda: opened.get([b"k"]),
        lambda: opened.items(b"k", 1),
        lambda: list(opened.all()),
        lambda: opened.write(opened.batch()),
        opened.flush,
    )
    for call in calls:
        with pytest.raises(DiskFailed, match="closed"):
            call()


def test_a_full_disk_is_known(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what RocksDB says of it."""

    def refuse(*_arguments: Any) -> None:
        raise Exception("IO error: No space left on device: x.sst")

    monkeypatch.setattr(rocksdict, "Rdict", refuse)
    with pytest.raises(DiskFull, match=f"open {folder}: IO error: No space left on device"):
        Database(DISK, folder, write=True)


def test_it_needs_its_package(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the error names the extra."""
    monkeypatch.setattr(rocks_database, "rocksdict", None)
    with pytest.raises(EngineMissing, match=r"sprocketmq\[rocksdb\]"):
        Database(DISK, folder, write=True)


def test_it_needs_the_real_disk() -> None:
    """A simulated one has no files that RocksDB could open."""
    with pytest.raises(EngineMissing, match="SimulatedDisk"):
        Database(SimulatedDisk(), "/store/consumequeue", write=True)


def test_few_tables_are_open(folder: str) -> None:
    """However many there are, as with any other files; for writers and for readers.

    What is not on the disk yet and what RocksDB says of itself have limits, too.
    """
    made(folder).close()
    for write in (True, False):
        opened = Database(DISK, folder, ("default", "more"), write=write)
        (newest, *_) = sorted(Path(folder).glob("OPTIONS-*"), reverse=True)
        assert f"max_open_files={rocks_database.OPEN_FILES_MAX}\n" in newest.read_text()
        assert f"write_buffer_size={16 * MIB}\n" in newest.read_text()
        assert f"max_log_file_size={MIB}\n" in newest.read_text()
        opened.close()
