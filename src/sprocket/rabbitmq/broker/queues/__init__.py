"""Queues: what is in them, in which order, who gets it, and what becomes of what nobody gets.

A `BrokerQueue` decides; a `QueueStorage` keeps the messages for it, in memory or on disk. What is
due after all that arrived in a turn of the loop is done by `Turns`, for many messages at once.
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
from sprocket.rabbitmq.broker.queues.turns import (
    CALL_WORK,
    QUEUE_WORK,
    SHARE_WORK,
    SMALL_WORK,
    TURN_WORK,
    Share,
    Turner,
    Turns,
)
from sprocket.rabbitmq.broker.queues.windows import WindowLimits, Windows

__all__ = [
    "CALL_WORK",
    "DEATHS",
    "DELIVERY_COUNT",
    "QUEUE_WORK",
    "RETRY_SECONDS",
    "SHARE_WORK",
    "SMALL_WORK",
    "TURN_MESSAGES_MAX",
    "TURN_WORK",
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
    "Share",
    "StorageDepth",
    "Turner",
    "Turns",
    "WindowLimits",
    "Windows",
    "WithdrawnEntry",
    "died",
    "is_cycle",
    "message_of",
    "put_header",
]
