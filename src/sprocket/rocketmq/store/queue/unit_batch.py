"""Units of many batches, gathered by queue, so that each queue is written once.

A walk over the log comes to each queue again and again, with very many queues mostly for one
message at a time. A put costs about as much as opening a file, however many units it has. Needs
numpy.
"""

import numpy as np

from sprocket.rocketmq.codec.columns import ByQueue, Ints, QueueRun, RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.store.queue.engine import QueueKey

_COLUMNS = "physical_offset", "size", "tags_code", "stored_at_ms", "queue_offset"


class UnitBatch:
    """Columns of units as `RecordBatch` has them, one element a unit, those of a queue together.

    Args:
        batches: Follow each other in the log; their records are their own units.
    """

    physical_offset: Ints
    size: Ints
    tags_code: Ints
    stored_at_ms: Ints
    queue_offset: Ints

    def __init__(self, parts: "list[UnitPart]") -> None:
        numbers: dict[QueueKey, int] = {}
        queue = [
            np.repeat([numbers.setdefault(key, len(numbers)) for key in part.keys], part.counts)
            for part in parts
        ]
        queues: Ints = np.concatenate(queue) if queue else np.zeros(0, np.int64)
        order = np.argsort(queues, kind="stable")
        for name in _COLUMNS:
            column = [getattr(part, name) for part in parts]
            setattr(self, name, np.concatenate(column)[order] if column else queues)
        first = np.searchsorted(queues[order], np.arange(len(numbers)))
        self.by_queue = ByQueue(np.arange(len(order)), first)
        bounds = [*first.tolist(), len(order)]
        self.runs = [
            QueueRun(topic, queue_id, self.by_queue.rows[bounds[n] : bounds[n + 1]])
            for (topic, queue_id), n in numbers.items()
        ]

    def __len__(self) -> int:
        return len(self.size)

    def entry(self, number: int) -> Entry:
        """Return the entry of one unit; of its record's keys it has none."""
        topic, queue_id = next(
            (run.topic, run.queue_id) for run in self.runs if run.rows[-1] >= number
        )
        return Entry(
            topic,
            queue_id,
            int(self.queue_offset[number]),
            int(self.physical_offset[number]),
            int(self.size[number]),
            int(self.tags_code[number]),
            int(self.stored_at_ms[number]),
        )


class UnitPart:
    """What is kept of one batch until its units are put: 40 bytes each."""

    __slots__ = ("counts", "keys", *_COLUMNS)

    physical_offset: Ints
    size: Ints
    tags_code: Ints
    stored_at_ms: Ints
    queue_offset: Ints

    def __init__(self, batch: RecordBatch) -> None:
        self.keys = [(run.topic, run.queue_id) for run in batch.runs]
        rows, first = batch.by_queue
        self.counts = np.diff(first, append=len(rows))
        for name in _COLUMNS:
            setattr(self, name, getattr(batch, name)[rows])

    def __len__(self) -> int:
        return len(self.size)
