"""The index of each queue: written, flushed, closed, and recovered.

`QueueIndex` is one queue's while we run, `flush_steps` brings what some of them have into their
segment files, `close_steps` is a clean stop, `IndexRecovery` what follows after any other end.
"""

from sprocket.rabbitmq.store.queue_index import sums
from sprocket.rabbitmq.store.queue_index.closing import close_steps
from sprocket.rabbitmq.store.queue_index.joined import JoinedStates, QueueIndexFile, joined
from sprocket.rabbitmq.store.queue_index.loading import (
    LoadedIndex,
    LoadedSegment,
    load,
)
from sprocket.rabbitmq.store.queue_index.queue_index import (
    IndexEntry,
    IndexLimits,
    KnownSegment,
    QueueIndex,
    SegmentMessages,
    SegmentState,
    flush_steps,
)
from sprocket.rabbitmq.store.queue_index.recovery import IndexRecovery, RecoveredIndex
from sprocket.rabbitmq.store.queue_index.version_2 import stored_term

__all__ = [
    "IndexEntry",
    "IndexLimits",
    "IndexRecovery",
    "JoinedStates",
    "KnownSegment",
    "LoadedIndex",
    "LoadedSegment",
    "QueueIndex",
    "QueueIndexFile",
    "RecoveredIndex",
    "SegmentMessages",
    "SegmentState",
    "close_steps",
    "flush_steps",
    "joined",
    "load",
    "stored_term",
    "sums",
]
