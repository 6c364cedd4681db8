"""One log for all queues: what they write in a turn is durable after one sync.

RabbitMQ keeps a journal for each queue and syncs each by itself. While we run, the records of all
journals go to this log instead; a queue's own journal.jif is written at a clean stop, from here.
"""

from sprocket.rabbitmq.store.write_ahead.reading import (
    NO_LOG,
    JournalFault,
    QueueTail,
    WriteAheadContents,
    read_log,
    set_aside,
    sync_log,
)
from sprocket.rabbitmq.store.write_ahead.write_ahead_log import Origin, WriteAheadLog

__all__ = [
    "NO_LOG",
    "JournalFault",
    "Origin",
    "QueueTail",
    "WriteAheadContents",
    "WriteAheadLog",
    "read_log",
    "set_aside",
    "sync_log",
]
