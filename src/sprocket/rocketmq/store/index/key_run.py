"""Runs of keys on their way into an index that is made again by many at once.

A process that reads a part of the log writes the keys of its records to a file of their own, one
after the other: `i32 hash, i64 physical offset, i64 store time in ms`, little-endian. When all are
there it is known which of them go into which index file, and each of these is made by a process
that reads its keys in the order of the log. Such files live as long as this takes.

An index file that is made so has the bytes of one that the store filled while it ran.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from sprocket.base.disk import Disk, File, steps
from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.codec.columns import Ints, RecordBatch
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.store.index.index_file import IndexFile
from sprocket.rocketmq.store.index.key_index import batch_hashes

KEY_TYPE = np.dtype([("hash", "<i4"), ("offset", "<i8"), ("at_ms", "<i8")])
KEY_BYTES = KEY_TYPE.itemsize
CHUNK_KEYS = 1 << 19
"""Read and put at once, 10 MB of them."""


class KeyRun(Struct, frozen=True):
    """Some keys in such a file.

    Attributes:
        path: The file.
        first: The number of the first key, from 0 on.
        count: How many.
    """

    path: str
    first: int
    count: int


class IndexedKey(NamedTuple):
    """One key: `abs_hash` of its key string, and place and store time of its record."""

    hash: int
    offset: int
    at_ms: int


class KeyRunWriter:
    """Writes the keys of a part of the log.

    Args:
        disk: Where.
        path: A new file.

    Attributes:
        count: How many keys were put.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.count = 0
        self._path = path
        self._file: File = disk.open(path, write=True, create=True)

    def put(self, batch: RecordBatch) -> None:
        """Write the keys of the next records.

        Raises:
            DiskFull, DiskFailed: The part is to be put again, to another file.
        """
        row, hashes = batch_hashes(batch, 0)
        if not len(row):
            return
        keys = np.empty(len(row), KEY_TYPE)
        keys["hash"] = hashes
        keys["offset"] = batch.physical_offset[row]
        keys["at_ms"] = batch.stored_at_ms[row]
        self._file.write([keys.tobytes()], self.count * KEY_BYTES)
        self.count += len(row)

    def close(self) -> KeyRun:
        """Return what was written. Durability: none; the file is made again if it is lost."""
        self._file.close()
        return KeyRun(self._path, 0, self.count)


def key_of(disk: Disk, run: KeyRun, number: int) -> IndexedKey:
    """Return one key of a run; its errors are those of `index_of`."""
    (key,) = _read(disk, KeyRun(run.path, run.first + number, 1))
    return IndexedKey(*(int(column[0]) for column in key))


def index_of(
    disk: Disk,
    path: str,
    geometry: IndexGeometry,
    runs: Iterable[KeyRun],
    before: IndexedKey | None = None,
) -> None:
    """Make an index file; one that is there already is made again.

    Args:
        disk: Where.
        path: The file.
        geometry: How many slots and units it has.
        runs: The keys, in the order of the log, as many as there is room for.
        before: The last key of the file before; None if there is none.

    Raises:
        DiskFailed: The keys are not there as they were written, or the disk failed.
        DiskFull: There is no space.
    Durability: the file is on the disk, its name after a `sync_folder`.
    """
    disk.open(path, write=True, create=True, size=geometry.file_bytes).close()
    file = IndexFile(disk, path, geometry, write=True)
    try:
        if before is not None:
            file.begin_behind(before.offset, before.at_ms)
        reached = -1
        for run in runs:
            for hashes, offsets, times in _read(disk, run):
                if offsets[0] < reached or (np.diff(offsets) < 0).any():
                    raise DiskFailed(f"{run.path}: the keys are not in the order of the log")
                reached = int(offsets[-1])
                done = file.put_arrays(hashes, offsets, times)
                assert done == len(hashes), "more keys than the file has room for"
        steps.run(file.flush_steps(slots=True))
    finally:
        file.release()


def _read(disk: Disk, run: KeyRun) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Give the keys of a run, many at a time: hashes, places, store times."""
    file = disk.open(run.path)
    try:
        for done in range(0, run.count, CHUNK_KEYS):
            count = min(CHUNK_KEYS, run.count - done)
            data = file.read((run.first + done) * KEY_BYTES, count * KEY_BYTES)
            if len(data) < count * KEY_BYTES:
                raise DiskFailed(
                    f"{run.path}: keys are missing; does every machine see the same folder?",
                    run.path,
                )
            keys = np.frombuffer(data, KEY_TYPE)
            hashes, offsets, times = (
                keys[name].astype(np.int64) for name in ("hash", "offset", "at_ms")
            )
            yield hashes, offsets, times
    finally:
        file.close()
