"""What one round has for one queue in RocksDB; see `rocks_queues` for the rounds."""

from typing import TYPE_CHECKING

from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.store.layout import check_topic
from sprocket.rocketmq.store.queue import rocks_keys
from sprocket.rocketmq.store.queue.engine import QueueKey
from sprocket.rocketmq.store.queue.rocks_keys import I64, VALUE
from sprocket.rocketmq.store.queue.rocks_queue import RocksQueue

try:
    import numpy as np
except ImportError:  # the light install; it makes no batches either
    np = None  # type: ignore[assignment]

if TYPE_CHECKING:  # it needs numpy
    import numpy.typing as npt

    from sprocket.rocketmq.codec.columns import Ints, RecordBatch
    from sprocket.rocketmq.store.queue.unit_batch import UnitBatch

_VALUES = [
    ("physical_offset", ">i8"),
    ("size", ">i4"),
    ("tags_code", ">i8"),
    ("stored_at_ms", ">i8"),
]
"""`rocks_keys.VALUE` for many units."""


class RocksRound:
    """What one round has for one queue.

    Attributes:
        first: Queue offset and place that it begins at, if it is new.
        next_offset: The queue's next offset behind it; None if a blank queue is to get its first.
        last_place: Where its last record lies.
        end: Behind its last record, −1 if `take` found none.
        count: How many units it has.
    """

    __slots__ = ("_key", "count", "end", "first", "last_place", "next_offset", "prefix")

    def __init__(self, queue: RocksQueue | None, key: QueueKey) -> None:
        self._key = key
        self.count = 0
        self.end = -1
        self.first: tuple[int, int] | None = None
        if queue is None:
            self.prefix = rocks_keys.unit_prefix(check_topic(key[0]), key[1])
            self.next_offset: int | None = None
            self.last_place = -1
        else:
            self.prefix = queue.prefix
            self.next_offset = None if queue.is_blank else queue.max_offset
            self.last_place = queue.last_place

    def take(self, batch: "RecordBatch | UnitBatch", rows: "Ints") -> "Ints":
        """Take those records of a batch for this queue that it lacks; return their numbers.

        Raises:
            CorruptRecord: A message is missing before the first of them.
        """
        fresh = batch.physical_offset[rows] > self.last_place
        if self.next_offset is not None:
            fresh &= batch.queue_offset[rows] >= self.next_offset
        rows = rows if fresh.all() else rows[fresh]
        if len(rows):
            self._go_on(batch, rows)
        return rows

    def _go_on(self, batch: "RecordBatch | UnitBatch", rows: "Ints") -> None:
        first, last = int(rows[0]), int(rows[-1])
        offset, last_offset = int(batch.queue_offset[first]), int(batch.queue_offset[last])
        assert last_offset - offset == len(rows) - 1, "the offsets of a queue have a gap"
        self.last_place = int(batch.physical_offset[last])
        self.end = self.last_place + int(batch.size[last])
        if self.next_offset is None:
            self.first = offset, int(batch.physical_offset[first])
        elif offset != self.next_offset:
            topic, queue_id = self._key
            raise CorruptRecord(
                f"queue {topic}/{queue_id} ends at {self.next_offset}, "
                f"the log has its message {offset} before {self.end}"
            )
        self.count = len(rows)
        self.next_offset = last_offset + 1

    def keys(self, queue_offsets: "Ints") -> list[bytes]:
        """Return the keys of units."""
        prefix, width = self.prefix, len(self.prefix) + I64.size
        found = np.empty((len(queue_offsets), width), np.uint8)
        found[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
        found[:, len(prefix) :] = queue_offsets.astype(">i8").view(np.uint8).reshape(-1, I64.size)
        keys: list[bytes] = found.view(f"V{width}").ravel().tolist()
        return keys


def unit_values(batch: "RecordBatch | UnitBatch") -> "npt.NDArray[np.void]":
    """Return the value of each unit of a batch."""
    found = np.empty(len(batch), _VALUES)
    found["physical_offset"] = batch.physical_offset
    found["size"] = batch.size
    found["tags_code"] = batch.tags_code
    found["stored_at_ms"] = batch.stored_at_ms
    return found.view(f"V{VALUE.size}")
