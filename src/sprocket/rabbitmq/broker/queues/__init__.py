"""Queues: what is in them, in which order, who gets it, and what becomes of what nobody gets.

A `BrokerQueue` decides; a `QueueStorage` keeps the messages for it, in memory or on disk. What is
due after all that arrived in a turn of the loop is done for many messages at once, as
`runtime.turns` says.
"""

from sprocket.rabbitmq.broker.queues.consumers import QueueConsumer, Receiver
from sprocket.rabbitmq.broker.queues.dead_letters import (
    DEATHS,
    DeadLetters,
    DeathReason,
    DyingQueue,
    LetterBox,
    died,
    is_cycle,
)
from sprocket.rabbitmq.broker.queues.deliveries import DELIVERY_COUNT, message_of
from sprocket.rabbitmq.broker.queues.headers import put as put_header
from sprocket.rabbitmq.broker.queues.levels import QueueEntry, StorageDepth
from sprocket.rabbitmq.broker.queues.queue import (
    RETRY_SECONDS,
    TURN_MESSAGES_MAX,
    BrokerQueue,
    Getter,
    Owner,
    QueueDepth,
    QueueServices,
)
from sprocket.rabbitmq.broker.queues.reads import FewReads, QueueReads
from sprocket.rabbitmq.broker.queues.storage import (
    MemoryStorage,
    QueueStorage,
    ReadEntry,
    WithdrawnEntry,
)
from sprocket.rabbitmq.broker.queues.windows import WindowLimits, Windows

__all__ = [
    "DEATHS",
    "DELIVERY_COUNT",
    "RETRY_SECONDS",
    "TURN_MESSAGES_MAX",
    "BrokerQueue",
    "DeadLetters",
    "DeathReason",
    "DyingQueue",
    "FewReads",
    "Getter",
    "LetterBox",
    "MemoryStorage",
    "Owner",
    "QueueConsumer",
    "QueueDepth",
    "QueueEntry",
    "QueueReads",
    "QueueServices",
    "QueueStorage",
    "ReadEntry",
    "Receiver",
    "StorageDepth",
    "WindowLimits",
    "Windows",
    "WithdrawnEntry",
    "died",
    "is_cycle",
    "message_of",
    "put_header",
]
