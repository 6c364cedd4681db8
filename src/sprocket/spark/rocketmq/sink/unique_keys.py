"""Unique keys by which readers know the doubles of a write that was tried again.

Spark repeats a task, or a stream's last batch, that may have been written. So the UNIQ_KEY of a
row must be the same each time. In this order it is

1. made of the value that `keyColumn` names, whatever else changes;
2. what the row has already: the column `msgId`, else UNIQ_KEY in `properties`, as rows of this
   format's own source do;
3. made of the write, the batch, the partition, the row's number there, and a checksum of what the
   row says. If Spark gives the rows in another order the second time, that checksum lets a double
   have a key of its own, and not the key of another row, which a reader would then drop.

Its form is that of the clients' own: 32 digits, upper-case hex.
"""

import dataclasses
import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.base.checksum import crc32
from sprocket.spark.rocketmq.sink.texts import of_width, stored

_HEX = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint8).reshape(-1, 2)
_KEY_BYTES = 16
_PREFIX_BYTES = 8
_NUMBERS = 1 << 32


@dataclasses.dataclass(frozen=True, slots=True)
class Writing:
    """What is written, and which part of it this task has.

    Args:
        name: Of the write: the same when it is tried again, and no other's.
        batch: Number of the batch, by which a stream continues.
        partition: Number of the partition.
    """

    name: str
    batch: str
    partition: int


def numbered(writing: Writing, first_row: int, bodies: Any, properties: Any) -> Any:
    """Return the keys of rows that have nothing of their own to make them of.

    Args:
        writing: Whose rows they are.
        first_row: Number of the first in its partition.
        bodies: Binary, as they will be sent.
        properties: Binary, without the unique key.
    """
    count = len(bodies)
    raw = np.empty((count, _KEY_BYTES), np.uint8)
    rows = np.arange(first_row, first_row + count, dtype=np.int64)
    for high in np.unique(rows // _NUMBERS).tolist():
        prefix = _prefix(writing, high)
        raw[rows // _NUMBERS == high, :_PREFIX_BYTES] = np.frombuffer(prefix, np.uint8)
    raw[:, 8:12] = (rows % _NUMBERS).astype(">u4").view(np.uint8).reshape(count, 4)
    sums = np.array(_checksums(bodies, properties), ">u4")
    raw[:, 12:] = sums.view(np.uint8).reshape(count, 4)
    return of_width(_HEX[raw].tobytes(), 2 * _KEY_BYTES)


def of_values(name: str, values: Any) -> Any:
    """Return the keys that stand for the values of a binary column, of all writes of this name."""
    salt = name.encode()
    keys = [
        hashlib.blake2b(value, digest_size=_KEY_BYTES, key=salt[:64]).hexdigest().upper()
        for value in values.to_pylist()
    ]
    return pa.array(keys, pa.binary())


def _prefix(writing: Writing, high: int) -> bytes:
    text = "\0".join((writing.name, writing.batch, str(writing.partition), str(high)))
    return hashlib.blake2b(text.encode(), digest_size=_PREFIX_BYTES).digest()


def _checksums(bodies: Any, properties: Any) -> list[int]:
    """Return a checksum of each row's body and properties."""
    sums = [0] * len(bodies)
    for column in (properties, bodies):
        starts, data = stored(column)
        view = memoryview(data)
        places = starts.tolist()
        sums = [
            crc32(view[start:end], before)
            for start, end, before in zip(places, places[1:], sums, strict=False)
        ]
    return sums
