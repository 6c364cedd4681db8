"""What statistics are made of: counters and lengths, by RabbitMQ's names, each always in one order.

A row is what is sampled of one object, a part of it what is shown together.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple

from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.model.counts import (
    ClientChurn,
    DeliveryCounts,
    ExchangeCounts,
    PublishCounts,
    QueueChurn,
)
from sprocket.rabbitmq.server.vhost_connection import VhostConnection

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
PUBLISHES: Final = {
    "publish": "published",
    "confirm": "confirmed",
    "return_unroutable": "returned",
    "drop_unroutable": "dropped",
}
"""By RabbitMQ's name, the field of the counts that has it; so with those below."""
DELIVERIES: Final = {
    "ack": "acked",
    "deliver": "delivered",
    "deliver_get": "given",
    "deliver_no_ack": "delivered_no_ack",
    "get": "got",
    "get_empty": "got_empty",
    "get_no_ack": "got_no_ack",
    "redeliver": "redelivered",
}
_CLIENT_CHURN = {
    "channel_closed": "channels_closed",
    "channel_created": "channels_opened",
    "connection_closed": "connections_closed",
    "connection_created": "connections_opened",
}
_QUEUE_CHURN = {
    "queue_created": "created",
    "queue_declared": "declared",
    "queue_deleted": "deleted",
}
CHURN: Final = (*_CLIENT_CHURN, *_QUEUE_CHURN)
FIGURES: Final = ("mem_used", "fd_used", "sockets_used", "disk_free", "io_sync_count")


class RowPart(NamedTuple):
    """Some members of a row."""

    range: str
    """Which parameters of a query ask for samples of it: `lengths` for `lengths_age`, …"""
    at: int
    """Where it begins in the row."""
    names: tuple[str, ...]


QUEUE_LENGTHS: Final = RowPart("lengths", 0, LENGTHS)
QUEUE_STATS: Final = RowPart("msg_rates", len(LENGTHS), ("publish", *DELIVERIES))
CHANNEL_PUBLISHES: Final = RowPart("msg_rates", 0, tuple(PUBLISHES))
CHANNEL_DELIVERIES: Final = RowPart("msg_rates", len(PUBLISHES), tuple(DELIVERIES))
EXCHANGE_STATS: Final = RowPart("msg_rates", 0, ("publish_in", "publish_out"))
CONNECTION_BYTES: Final = RowPart("data_rates", 0, ("recv_oct", "send_oct"))
SUM_LENGTHS: Final = RowPart("lengths", 0, LENGTHS)
"""Of a virtual host, or of all of them."""
SUM_STATS: Final = RowPart("msg_rates", len(LENGTHS), (*PUBLISHES, *DELIVERIES))
_SUMS_END: Final = SUM_STATS.at + len(SUM_STATS.names)
NODE_FIGURES: Final = RowPart("node_stats", _SUMS_END, (*FIGURES, *CHURN))
NODE_CHURN: Final = RowPart("lengths", _SUMS_END + len(FIGURES), CHURN)


def lengths(ready: int, unacked: int) -> tuple[int, ...]:
    """Return how many messages there are."""
    return ready + unacked, ready, unacked


deliveries: Final[Callable[[DeliveryCounts], tuple[int, ...]]] = attrgetter(*DELIVERIES.values())
"""Returns counters of deliveries."""
publishes: Final[Callable[[PublishCounts], tuple[int, ...]]] = attrgetter(*PUBLISHES.values())
"""Returns counters of what was published."""
_clients: Final[Callable[[ClientChurn], tuple[int, ...]]] = attrgetter(*_CLIENT_CHURN.values())
_queues: Final[Callable[[QueueChurn], tuple[int, ...]]] = attrgetter(*_QUEUE_CHURN.values())


def churn(clients: ClientChurn, queues: QueueChurn) -> tuple[int, ...]:
    """Return how often something came and went."""
    return *_clients(clients), *_queues(queues)


def queue_row(queue: BrokerQueue) -> tuple[int, ...]:
    """Return what is sampled of a queue."""
    ready, unacked = queue.ready_count, queue.unacked_count
    return ready + unacked, ready, unacked, queue.published_count, *deliveries(queue.counts)


def channel_row(published: PublishCounts, delivered: DeliveryCounts) -> tuple[int, ...]:
    """Return what is sampled of a channel."""
    return *publishes(published), *deliveries(delivered)


def exchange_row(counts: ExchangeCounts) -> tuple[int, ...]:
    """Return what is sampled of an exchange."""
    return counts.published_in, counts.published_out


def connection_row(connection: VhostConnection) -> tuple[int, ...]:
    """Return what is sampled of a connection."""
    peer = connection.session.peer
    return peer.read_bytes, peer.written_bytes
