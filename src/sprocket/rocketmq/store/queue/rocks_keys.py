"""Keys and values of queues in RocksDB; the only module that knows their bytes.

All integers are big-endian and signed. Family `default` has the units:

    key    i32 topic bytes · 01 · topic · 01 · i32 queue id · 01 · i64 queue offset
    value  i64 physical offset · i32 record size · i64 tags code · i64 stored at (ms)

The first 20 bytes of a value are the unit that the engine in files has. Family `offset` has the
last and the first unit of each queue, both inclusive, and how far the log was dispatched:

    key    i32 topic bytes · 01 · topic · 01 · `max` or `min` · 01 · i32 queue id
    value  i64 physical offset · i64 queue offset
    key    the same with topic `CHECKPOINT_TOPIC`, `max`, queue 0
    value  i64 physical end

Source: RocketMQ `RocksDBConsumeQueueTable`, `RocksDBConsumeQueueOffsetTable`; see
docs/formats/rocksdb-queues.md.
"""

import struct
from typing import NamedTuple

from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.store.queue.queue import UNIT_BYTES

UNITS = "default"
OFFSETS = "offset"

I64 = struct.Struct(">q")
VALUE = struct.Struct(">qiqq")
"""Physical offset, record size, tags code, stored at (ms)."""
VALUE_TYPE = [("unit", f"V{UNIT_BYTES}"), ("stored_at_ms", ">i8")]
"""The same for numpy."""
OFFSET_VALUE = struct.Struct(">qq")
"""Physical offset, queue offset."""
_I32 = struct.Struct(">i")

MAX = b"max"
MIN = b"min"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"


def unit_prefix(topic: str, queue_id: int) -> bytes:
    """Return what the keys of a queue's units begin with; the queue offset follows."""
    name = topic.encode()
    return _I32.pack(len(name)) + b"\1" + name + b"\1" + _I32.pack(queue_id) + b"\1"


def unit_keys_end(prefix: bytes) -> bytes:
    """Return a key behind all units of the queue with this prefix."""
    return prefix[:-1] + b"\2"


def offset_key(topic: str, queue_id: int, which: bytes) -> bytes:
    """Return the key of a queue's last (`MAX`) or first (`MIN`) unit."""
    return record_key(unit_prefix(topic, queue_id), which)


def record_key(prefix: bytes, which: bytes) -> bytes:
    """Do as `offset_key`, given what the keys of the queue's units begin with."""
    return prefix[:-5] + which + b"\1" + prefix[-5:-1]


CHECKPOINT_KEY = offset_key(CHECKPOINT_TOPIC, 0, MAX)


class OffsetRecord(NamedTuple):
    """A record of the family `offset`, except for the checkpoint."""

    topic: str
    queue_id: int
    which: bytes
    physical_offset: int
    queue_offset: int


def decode_offset(key: bytes, value: bytes) -> OffsetRecord:
    """Decode a key of the family `offset` and its value.

    Raises:
        CorruptRecord: They are none.
    """
    topic_end = len(key) - 9
    try:
        (queue_id,) = _I32.unpack_from(key, topic_end + 5)
        topic, which = key[5:topic_end].decode(), key[topic_end + 1 : topic_end + 4]
        if which in (MAX, MIN) and key == offset_key(topic, queue_id, which):
            return OffsetRecord(topic, queue_id, which, *OFFSET_VALUE.unpack(value))
    except (struct.error, UnicodeDecodeError):
        pass
    raise CorruptRecord(f"key {key.hex()} with value {value.hex()} is not an offset of a queue")
