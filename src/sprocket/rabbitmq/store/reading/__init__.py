"""A look at a virtual host's folder, of a stopped RabbitMQ or of ours, that changes nothing.

`VhostReader` has the queues and, one after the other, their messages.
"""

from sprocket.rabbitmq.store.reading.faults import FaultyReads, FileTooLarge
from sprocket.rabbitmq.store.reading.index_rows import (
    EMBEDDED,
    IndexRows,
    RowSource,
    left_by_segment,
)
from sprocket.rabbitmq.store.reading.shared_messages import MessageMissing, SharedMessages
from sprocket.rabbitmq.store.reading.vhost import (
    FoundDelayed,
    FoundMessage,
    FoundQueue,
    MessageState,
    QueueCounts,
    QueuePart,
    VhostReader,
    vhost_folders,
)

__all__ = [
    "EMBEDDED",
    "FaultyReads",
    "FileTooLarge",
    "FoundDelayed",
    "FoundMessage",
    "FoundQueue",
    "IndexRows",
    "MessageMissing",
    "MessageState",
    "QueueCounts",
    "QueuePart",
    "RowSource",
    "SharedMessages",
    "VhostReader",
    "left_by_segment",
    "vhost_folders",
]
