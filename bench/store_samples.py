"""What the bench of the store works on: records, a GiB of log, a full index, 100,000 queues.

All are made by the code that a broker runs, except for the log, which would take half a minute:
there numpy writes offsets, times and keys into copies of one record, and only checksums are made
one by one.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sprocket.base.checksum import crc31
from sprocket.base.clock import SystemClock
from sprocket.base.disk import File, RealDisk
from sprocket.base.units import GIB
from sprocket.rocketmq.codec.record import Entry, properties, record
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    CRC_TAIL_BYTES,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    STORED_AT_MS_AT,
)
from sprocket.rocketmq.geometry import Engine, Geometry, IndexGeometry, QueueGeometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.recovery import recovery
from sprocket.rocketmq.store.store import Store

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
TOPIC = "BenchmarkTopic"
QUEUES = 8
AT_MS = 1_700_000_000_000
LONE_DIGITS = 9
_CHUNK = 8192


def new_record(body: bytes, number: int = 0, *, topic: str = TOPIC, queue_id: int = 0) -> NewRecord:
    """Return a record with a unique key of 32 characters, one key, a tag, and a property."""
    unique, key = f"{number:032X}", f"key-{number:0{LONE_DIGITS}d}"
    pairs = {"UNIQ_KEY": unique, "WAIT": "true", "TAGS": "tagA", "KEYS": key}
    return NewRecord(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=properties.encode(pairs),
        born_host=HOST,
        store_host=HOST,
        born_at_ms=AT_MS,
    )


def entries(count: int, size: int = 1200) -> list[Entry]:
    """Return what dispatch gets of such records."""
    return [
        Entry(
            TOPIC,
            number % QUEUES,
            number // QUEUES,
            number * size,
            size,
            3_552_217,
            AT_MS + number // 100,
            (f"{number:032X}", f"key-{number:0{LONE_DIGITS}d}"),
        )
        for number in range(count)
    ]


def log_of_a_gib(root: Path, body_bytes: int) -> int:
    """Make a store that was killed before anything was dispatched; return its records."""
    layout = StoreLayout(str(root))
    Path(layout.commitlog).mkdir(parents=True)
    disk = RealDisk()
    recovery.mark_open(disk, layout, os.getpid())
    path = f"{layout.commitlog}/{0:020d}"
    file = disk.open(path, write=True, create=True, size=GIB)
    try:
        count = position = 0
        for data in _records(body_bytes):
            room = (GIB - BLANK_BYTES - position) // data.shape[1]
            part = data[:room]
            file.write([part.tobytes()], position)
            count += len(part)
            position += part.size
            if len(part) < len(data):
                file.write([record.blank(GIB - position)], position)
                return count
    finally:
        file.close()
    raise AssertionError("the records never end")


def _records(body_bytes: int) -> Iterator["np.ndarray[tuple[int, int], np.dtype[np.uint8]]"]:
    """Give rows of records, one after the other from the start of a log on, without end."""
    new = new_record(os.urandom(body_bytes))
    one = record.encode(new, queue_offset=0, physical_offset=0, stored_at_ms=AT_MS, crc_tail=True)
    unique_at = one.index(b"UNIQ_KEY\x01") + len("UNIQ_KEY") + 1 + 32 - LONE_DIGITS
    key_at = one.index(b"key-") + len("key-")
    tail_at = len(one) - CRC_TAIL_BYTES
    digits_at = len(one) - 1 - 10
    rows = np.tile(np.frombuffer(one, np.uint8), (_CHUNK, 1))
    first = 0
    while True:
        number = np.arange(first, first + _CHUNK)
        for at, kind, values in (
            (QUEUE_ID_AT, ">i4", number % QUEUES),
            (QUEUE_OFFSET_AT, ">i8", number // QUEUES),
            (PHYSICAL_OFFSET_AT, ">i8", number * len(one)),
            (STORED_AT_MS_AT, ">i8", AT_MS + number // 100),
        ):
            field = values.astype(kind)
            rows[:, at : at + field.itemsize] = field.view(np.uint8).reshape(_CHUNK, -1)
        digits = number[:, None] // 10 ** np.arange(LONE_DIGITS - 1, -1, -1) % 10 + ord("0")
        rows[:, unique_at : unique_at + LONE_DIGITS] = digits
        rows[:, key_at : key_at + LONE_DIGITS] = digits
        sums = np.array([crc31(memoryview(row)[:tail_at]) for row in rows])
        rows[:, digits_at : digits_at + 10] = sums[:, None] // 10 ** np.arange(10) % 10 + ord("0")
        yield rows
        first += _CHUNK


def full_index(folder: Path, keys: list[str]) -> Indexes:
    """Make an index file with all the units it can take; `keys` are spread over them.

    The other units have hashes drawn at random, as those of keys are.
    """
    geometry = IndexGeometry()
    indexes = Indexes(RealDisk(), str(folder), geometry, SystemClock())
    random = np.random.default_rng(1)
    every = (geometry.units - 1) // len(keys)
    for number, key in enumerate(keys):
        place = number * every * 1000
        indexes.put_round([Entry(TOPIC, 0, number, place, 1000, 0, AT_MS, (key,))])
        count = every - 1
        hashes = random.integers(0, 1 << 31, count)
        offsets = place + 1000 + 1000 * np.arange(count)
        indexes.put_hashes(hashes, offsets, np.full(count, AT_MS))
    indexes.close()
    indexes.load()
    return indexes


class NeverSynced(RealDisk):
    """The real disk without its syncs, to make a store of many files quickly."""

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """Open a file whose `sync` does nothing."""
        file = super().open(path, write=write, create=create, size=size)
        return _NeverSyncedFile(file)  # type: ignore[return-value]

    def sync_folder(self, path: str) -> None:
        """Do nothing."""

    def sync_tree(self, path: str) -> None:
        """Do nothing."""


class _NeverSyncedFile:
    def __init__(self, file: File) -> None:
        self._file = file

    def sync(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def many_queues(root: Path, topics: int, queues_per_topic: int, engine: Engine) -> None:
    """Make a store with one message in each of this many queues, stopped cleanly."""
    store = Store.open(
        NeverSynced(),
        str(root),
        StoreSettings(fill_ahead_bytes=0),
        SystemClock(),
        Geometry(queue=QueueGeometry(engine=engine)),
    )
    for topic in range(topics):
        for queue_id in range(queues_per_topic):
            store.append(new_record(b"body", topic=f"Topic-{topic:05d}", queue_id=queue_id))
        store.write()
    store.close()
