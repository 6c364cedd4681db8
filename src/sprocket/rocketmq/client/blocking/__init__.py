"""The clients for programs without an event loop: same names, same arguments, no `await`.

    with Producer("127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"42 bolts"))

Each object has an event loop in a thread of its own, or shares that of a `Client`; its methods may
be called from any thread. Objects do not survive a fork. What needs no wrapper, such as `Message`
and the settings, is here too, so that one import serves.
"""

from sprocket.rocketmq.client import (
    ClientSettings,
    ConsumerSettings,
    DeadLetter,
    DeliverLater,
    Message,
    MessageQueue,
    PackedBatch,
    ProducerSettings,
    PullResult,
    PullStatus,
    QueueSlice,
    ReceivedMessage,
    SendResult,
    SendStatus,
    SessionCredentials,
    SliceAnswer,
    Sql,
    TransactionResult,
    TransactionState,
    credentials_if_given,
    reply_to,
    split_batch,
    tls_context,
    tls_if_asked,
)
from sprocket.rocketmq.client.blocking.admin import BlockingAdmin as Admin
from sprocket.rocketmq.client.blocking.clients import BlockingLitePullConsumer as LitePullConsumer
from sprocket.rocketmq.client.blocking.clients import BlockingProducer as Producer
from sprocket.rocketmq.client.blocking.clients import BlockingPuller as Puller
from sprocket.rocketmq.client.blocking.clients import BlockingPushConsumer as PushConsumer
from sprocket.rocketmq.client.blocking.clients import BlockingTransaction as Transaction
from sprocket.rocketmq.client.blocking.clients import (
    BlockingTransactionProducer as TransactionProducer,
)
from sprocket.rocketmq.client.blocking.wrapper import BlockingClient as Client

__all__ = [
    "Admin",
    "Client",
    "ClientSettings",
    "ConsumerSettings",
    "DeadLetter",
    "DeliverLater",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "PackedBatch",
    "Producer",
    "ProducerSettings",
    "PullResult",
    "PullStatus",
    "Puller",
    "PushConsumer",
    "QueueSlice",
    "ReceivedMessage",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "SliceAnswer",
    "Sql",
    "Transaction",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "credentials_if_given",
    "reply_to",
    "split_batch",
    "tls_context",
    "tls_if_asked",
]
