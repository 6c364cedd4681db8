"""What statistics are made of: counters and lengths, by RabbitMQ's names, each always in one order.

A row is what is sampled of one object, a part of it what is shown together.
"""

from typing import Final, NamedTuple

from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.model.counts import (
    ClientChurn,
    DeliveryCounts,
    ExchangeCounts,
    PublishCounts,
    QueueChurn,
)
from sprocket.rabbitmq.server.tenancy import VhostTenancy

LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
PUBLISHES: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERIES: Final = (
    "ack",
    "deliver",
    "deliver_get",
    "deliver_no_ack",
    "get",
    "get_empty",
    "get_no_ack",
    "redeliver",
)
CHURN: Final = (
    "channel_closed",
    "channel_created",
    "connection_closed",
    "connection_created",
    "queue_created",
    "queue_declared",
    "queue_deleted",
)
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
CHANNEL_PUBLISHES: Final = RowPart("msg_rates", 0, PUBLISHES)
CHANNEL_DELIVERIES: Final = RowPart("msg_rates", len(PUBLISHES), DELIVERIES)
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


def deliveries(counts: DeliveryCounts) -> tuple[int, ...]:
    """Return counters of deliveries."""
    delivered, no_ack, got, got_no_ack = (
        counts.delivered,
        counts.delivered_no_ack,
        counts.got,
        counts.got_no_ack,
    )
    return (
        counts.acked,
        delivered,
        delivered + no_ack + got + got_no_ack,
        no_ack,
        got,
        counts.got_empty,
        got_no_ack,
        counts.redelivered,
    )


def publishes(counts: PublishCounts) -> tuple[int, ...]:
    """Return counters of what was published."""
    return counts.published, counts.confirmed, counts.returned, counts.dropped


def churn(clients: ClientChurn, queues: QueueChurn) -> tuple[int, ...]:
    """Return how often something came and went."""
    return (
        clients.channels_closed,
        clients.channels_opened,
        clients.connections_closed,
        clients.connections_opened,
        queues.created,
        queues.declared,
        queues.deleted,
    )


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


def connection_row(tenancy: VhostTenancy) -> tuple[int, ...]:
    """Return what is sampled of a connection."""
    peer = tenancy.session.peer
    return peer.read_bytes, peer.written_bytes
