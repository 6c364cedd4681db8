"""Many records at once, as columns: needs numpy, which the light install lacks.

`columns` decodes what Spark and the queues need; `RecordBatch` is what queues and index take.
"""

from sprocket.rocketmq.codec.columns import columns
from sprocket.rocketmq.codec.columns.columns import (
    Buffer,
    Ints,
    Mask,
    Records,
    Stop,
    gather,
    records,
    walk,
)
from sprocket.rocketmq.codec.columns.record_batch import ByQueue, QueueRun, RecordBatch

__all__ = [
    "Buffer",
    "ByQueue",
    "Ints",
    "Mask",
    "QueueRun",
    "RecordBatch",
    "Records",
    "Stop",
    "columns",
    "gather",
    "records",
    "walk",
]
