"""Producer, consumers and admin for Python programs; asyncio first.

    async with Producer("127.0.0.1:9876") as producer:
        await producer.send(Message("orders", b"42 bolts", tag="new"), sharding_key="customer-7")

Programs without an event loop find the same names in `client.blocking`.
"""

from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.consumer import (
    DeadLetter,
    DeliverLater,
    LitePullConsumer,
    Puller,
    PushConsumer,
    SliceAnswer,
)
from sprocket.rocketmq.client.network import Client, PullResult, PullStatus
from sprocket.rocketmq.client.producer import (
    PackedBatch,
    Producer,
    SendResult,
    SendStatus,
    Transaction,
    TransactionProducer,
    TransactionResult,
    reply_to,
    split_batch,
)
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    credentials_if_given,
    tls_if_asked,
)
from sprocket.rocketmq.model.filters import Sql
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.rights import SessionCredentials
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice
from sprocket.rocketmq.model.transaction import TransactionState
from sprocket.runtime.tls_files import client_context as tls_context

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
