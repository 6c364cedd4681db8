"""What the bench of Spark reads: stores of a GiB and more, made in seconds.

The messages are as clients send them: a tag, a key, a unique key and WAIT, to which the broker adds
the checksum of the record. Keys and tags differ in length, and so do the records. Some thousand
are made by the code that a broker runs; numpy writes places, times and unique keys into copies of
them, and only checksums are made one by one.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.store_samples import AT_MS, HOST, QUEUES, TOPIC

from sprocket.base.checksum import crc31
from sprocket.base.disk import RealDisk
from sprocket.base.units import GIB, KIB, MIB
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    CRC_TAIL_BYTES,
    FIXED_BYTES,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    STORED_AT_MS_AT,
)
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.layout import StoreLayout

FILE_BYTES = GIB
"""Of a full file of the log, as brokers make them."""
LAST_BYTES = 64 * MIB
"""Written to the newest file, which planning follows record by record."""
LARGE_BODY_BYTES = 4 * MIB - KIB
"""Of the records of a large store: what a message may have by default."""
TAGS = ("created", "paid", "shipped", "returned")

_MADE = 4096
"""Records that differ in their bodies, keys and tags."""
_UNIQUE_DIGITS = 9
_CRC_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Store:
    """A store that was made: its folder, the records of its log, and their bytes."""

    folder: str
    count: int
    size: int


def store(
    folder: Path,
    body_bytes: int,
    full_files: int = 1,
    topics: Sequence[str] = (TOPIC,),
    file_bytes: int = FILE_BYTES,
) -> Store:
    """Make a store that was stopped cleanly and has a log alone.

    Args:
        folder: Where.
        body_bytes: The size of each body.
        full_files: Full files of the log; then comes one with `LAST_BYTES`.
        topics: Whose messages they are, in turn.
        file_bytes: The size of a file.
    """
    layout = StoreLayout(str(folder))
    Path(layout.commitlog).mkdir(parents=True)
    block = _Block(body_bytes, topics)
    count = size = 0
    for base in range(0, (full_files + 1) * file_bytes, file_bytes):
        is_last = base == full_files * file_bytes
        path = f"{layout.commitlog}/{base:020d}"
        file = RealDisk().open(path, write=True, create=True, size=file_bytes)
        position, room = 0, LAST_BYTES if is_last else file_bytes - BLANK_BYTES
        fitting = _MADE
        while fitting == _MADE:
            fitting = int(np.searchsorted(block.starts, room - position, "right")) - 1
            data = block.placed(count, base + position, fitting)
            file.write([data], position)
            position += len(data)
            count += fitting
        if not is_last:
            file.write([record.blank(file_bytes - position)], position)
        file.close()
        size += position
    return Store(str(folder), count, size)


def large_store(folder: Path, gib: int = 64) -> Store:
    """Make a store with this many files of a GiB, full of records whose bodies are holes.

    What planning reads is all there; on the disk it takes 8 KiB a record.
    """
    layout = StoreLayout(str(folder))
    Path(layout.commitlog).mkdir(parents=True)
    zeros = bytes(LARGE_BODY_BYTES)
    one = record.encode(
        _new_record(zeros, {}),
        queue_offset=0,
        physical_offset=0,
        stored_at_ms=AT_MS,
        crc_tail=False,
    )
    head, tail = bytearray(one[:FIXED_BYTES]), one[FIXED_BYTES + LARGE_BODY_BYTES :]
    each = (FILE_BYTES - BLANK_BYTES) // len(one)
    for base in range(0, gib * FILE_BYTES, FILE_BYTES):
        path = f"{layout.commitlog}/{base:020d}"
        file = RealDisk().open(path, write=True, create=True, size=FILE_BYTES)
        for number in range(each):
            start = number * len(one)
            head[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = (base + start).to_bytes(8, "big")
            file.write([tail, head] if number else [head], max(start - len(tail), 0))
        end = each * len(one)
        is_last = base == (gib - 1) * FILE_BYTES
        file.write([tail] if is_last else [tail, record.blank(FILE_BYTES - end)], end - len(tail))
        file.close()
    return Store(str(folder), each * gib, (gib - 1) * FILE_BYTES + each * len(one))


class _Block:
    """Some thousand records, to be put anywhere in a log."""

    def __init__(self, body_bytes: int, topics: Sequence[str]) -> None:
        chosen = random.Random(1)
        each = (topics[number % len(topics)] for number in range(_MADE))
        made = [_record(chosen, body_bytes, topic) for topic in each]
        self.starts = np.cumsum([0, *map(len, made)])
        """Of each record, and the end of the last."""
        self._data = np.frombuffer(b"".join(made), np.uint8).copy()
        unique = [one.index(b"UNIQ_KEY\x01") + len("UNIQ_KEY\x01") for one in made]
        self._unique_at = self.starts[:-1] + unique + 32 - _UNIQUE_DIGITS
        self._placed = np.zeros(len(topics), np.int64)
        """How many of each topic there are before."""

    def placed(self, first: int, base: int, count: int) -> memoryview:
        """Return some records, the number of the first and its physical offset being given."""
        start, end = self.starts[:count], self.starts[1 : count + 1]
        number = np.arange(first, first + count)
        times, topic = np.divmod(np.arange(count), len(self._placed))
        of_topic = self._placed[topic] + times
        self._placed += np.bincount(topic, minlength=len(self._placed))
        self._set(start + QUEUE_ID_AT, of_topic % QUEUES, ">i4")
        self._set(start + QUEUE_OFFSET_AT, of_topic // QUEUES, ">i8")
        self._set(start + PHYSICAL_OFFSET_AT, base + start, ">i8")
        self._set(start + STORED_AT_MS_AT, AT_MS + number // 100, ">i8")
        digits = number[:, None] // 10 ** np.arange(_UNIQUE_DIGITS - 1, -1, -1) % 10 + ord("0")
        self._data[self._unique_at[:count, None] + np.arange(_UNIQUE_DIGITS)] = digits
        view, tails = self._data.data, end - CRC_TAIL_BYTES
        ranges = zip(start.tolist(), tails.tolist(), strict=True)
        sums = np.array([crc31(view[one:tail]) for one, tail in ranges], np.int64)
        digits = sums[:, None] // 10 ** np.arange(_CRC_DIGITS) % 10 + ord("0")
        self._data[(end - 1 - _CRC_DIGITS)[:, None] + np.arange(_CRC_DIGITS)] = digits
        return view[: self.starts[count]]

    def _set(
        self, at: "np.ndarray[tuple[int], np.dtype[np.int64]]", values: object, kind: str
    ) -> None:
        """Write a number into each record."""
        field = np.asarray(values).astype(kind)
        self._data[at[:, None] + np.arange(field.itemsize)] = field.view(np.uint8).reshape(
            -1, field.itemsize
        )


def _record(chosen: random.Random, body_bytes: int, topic: str) -> bytes:
    """Return a record whose fields are still to be set: a line of JSON, and what belongs to it."""
    order = chosen.randrange(10 ** chosen.randint(3, 7))
    body = b'{"order": %d' % order
    while len(body) < body_bytes:
        body += b', "item-%d": %d.%02d' % (
            chosen.randrange(100),
            chosen.randrange(1000),
            chosen.randrange(100),
        )
    pairs = {"UNIQ_KEY": "0" * 32, "WAIT": "true", "TAGS": chosen.choice(TAGS)}
    whole = body[: body[: body_bytes - 1].rindex(b",")] + b"}"
    new = _new_record(whole.ljust(body_bytes), {**pairs, "KEYS": f"order-{order}"}, topic)
    return record.encode(new, queue_offset=0, physical_offset=0, stored_at_ms=AT_MS, crc_tail=True)


def _new_record(body: bytes, pairs: dict[str, str], topic: str = TOPIC) -> NewRecord:
    return NewRecord(
        topic=topic,
        queue_id=0,
        body=body,
        properties=properties.encode(pairs),
        born_host=HOST,
        store_host=HOST,
        born_at_ms=AT_MS,
    )
