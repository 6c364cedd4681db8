"""Consume queues: for each message of a queue a unit that says where it lies in the log.

`Queues` is what a store asks of them; `FileQueues` keeps them as RocketMQ's files, `RocksQueues`
in a RocksDB, and `engines` knows which a store has. `UnitAssigner` says which unit a record gets.
They are made from the log, and made again if they are lost; `ranges` does that for many at once.
"""

from sprocket.rocketmq.store.queue import engines, ranges
from sprocket.rocketmq.store.queue.batch_queue import BATCH_UNIT, BatchQueue
from sprocket.rocketmq.store.queue.engine import Queues
from sprocket.rocketmq.store.queue.extension import ExtendedUnit, Extension, is_address
from sprocket.rocketmq.store.queue.file_queues import FileQueues, OtherKinds
from sprocket.rocketmq.store.queue.queue import (
    FILLER_SIZE,
    QUEUE_UNIT,
    UNIT_BYTES,
    UNIT_TYPE,
    LastUnit,
    Queue,
    QueueKey,
    UnitRead,
)
from sprocket.rocketmq.store.queue.queue_files import QueueFiles, move_away
from sprocket.rocketmq.store.queue.queue_units import (
    GroupFilter,
    Subscriptions,
    UnitAssigner,
    delays_ms,
)
from sprocket.rocketmq.store.queue.ranges import (
    FILLERS_MAX,
    JoinedQueue,
    RangeWriter,
    UnitRange,
)
from sprocket.rocketmq.store.queue.rocks_database import CURRENT, Database, is_database, read_all
from sprocket.rocketmq.store.queue.rocks_queues import RocksQueues
from sprocket.rocketmq.store.queue.runs import UnitBatch

__all__ = [
    "BATCH_UNIT",
    "CURRENT",
    "FILLERS_MAX",
    "FILLER_SIZE",
    "QUEUE_UNIT",
    "UNIT_BYTES",
    "UNIT_TYPE",
    "BatchQueue",
    "Database",
    "ExtendedUnit",
    "Extension",
    "FileQueues",
    "GroupFilter",
    "JoinedQueue",
    "LastUnit",
    "OtherKinds",
    "Queue",
    "QueueFiles",
    "QueueKey",
    "Queues",
    "RangeWriter",
    "RocksQueues",
    "Subscriptions",
    "UnitAssigner",
    "UnitBatch",
    "UnitRange",
    "UnitRead",
    "delays_ms",
    "engines",
    "is_address",
    "is_database",
    "move_away",
    "ranges",
    "read_all",
]
