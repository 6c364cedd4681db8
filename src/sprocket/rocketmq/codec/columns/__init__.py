"""Many records at once, as columns: needs numpy, which the light install lacks.

`columns` decodes what Spark and the queues need; `RecordBatch` is what queues and index take;
`batch_heads` makes what a batch send has beside bodies and properties.
"""

from sprocket.rocketmq.codec.columns import columns
from sprocket.rocketmq.codec.columns.batch_heads import HEAD_BYTES, LENGTH_BYTES, batch_heads
from sprocket.rocketmq.codec.columns.columns import (
    Buffer,
    Ints,
    Mask,
    Records,
    Stop,
    are_same,
    gather,
    records,
    scan,
)
from sprocket.rocketmq.codec.columns.record_batch import ByQueue, QueueRun, RecordBatch

__all__ = [
    "HEAD_BYTES",
    "LENGTH_BYTES",
    "Buffer",
    "ByQueue",
    "Ints",
    "Mask",
    "QueueRun",
    "RecordBatch",
    "Records",
    "Stop",
    "are_same",
    "batch_heads",
    "columns",
    "gather",
    "records",
    "scan",
]
