"""The table of metrics: which there are, and where each is read.

Left out are families about Erlang's processes, its files and Raft, and what nobody here counts;
docs/answers-rabbitmq.md names them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from sprocket.rabbitmq.broker.channels import ChannelState
from sprocket.rabbitmq.broker.queues import BrokerQueue, DeathReason, StorageDepth
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.model.counts import Death, DeliveryCounts, PublishCounts, Traffic
from sprocket.rabbitmq.model.declared_queue import CLASSIC, QUORUM
from sprocket.rabbitmq.model.exchange import DEFAULT_EXCHANGE, Exchange
from sprocket.rabbitmq.server.management.figures import NodeFigures
from sprocket.rabbitmq.server.management.services import NodeServices, connection_name
from sprocket.rabbitmq.server.vhost_connection import VhostConnection
from sprocket.runtime.http import Family, Group, labelled


class Logins(NamedTuple):
    """How often somebody tried to log in."""

    protocol: str
    succeeded: int
    failed: int


class Scope(NamedTuple):
    """What is scraped."""

    services: NodeServices
    node: NodeFigures
    logins: Sequence[Logins]
    vhosts: Sequence[VhostBroker]
    """The virtual hosts whose queues are shown."""


class _StoredQueue(NamedTuple):
    queue: BrokerQueue
    kept: StorageDepth


class _CountedQueue(NamedTuple):
    """A queue, or those of one type that are deleted."""

    vhost: str
    name: str
    type: str
    deliveries: DeliveryCounts
    published: int


class _Connection(NamedTuple):
    """A connection, or all that are closed."""

    name: str
    traffic: Traffic
    pending_bytes: int = 0
    channels: int = 0


class _Channel(NamedTuple):
    """A channel, or all that are closed."""

    name: str
    published: PublishCounts


class _ChannelNow(NamedTuple):
    name: str
    state: ChannelState


class _Deaths(NamedTuple):
    """How many messages have died in one way."""

    death: Death
    times: int


class _BoundExchange(NamedTuple):
    exchange: Exchange
    bindings: int


_PROTOCOL: Final = "amqp091"


AnyGroup: TypeAlias = (
    Group[Scope, NodeFigures]
    | Group[Scope, Logins]
    | Group[Scope, BrokerQueue]
    | Group[Scope, _StoredQueue]
    | Group[Scope, _CountedQueue]
    | Group[Scope, _Connection]
    | Group[Scope, _Channel]
    | Group[Scope, _ChannelNow]
    | Group[Scope, VhostBroker]
    | Group[Scope, _BoundExchange]
    | Group[Scope, _Deaths]
)

# Where the objects are.


def _node(scope: Scope) -> Iterable[NodeFigures]:
    return [scope.node]


def _queues(scope: Scope) -> list[BrokerQueue]:
    return [queue for vhost in scope.vhosts for queue in vhost.queues]


def _stored_queues(scope: Scope) -> Iterable[_StoredQueue]:
    queues = _queues(scope)
    return (_StoredQueue(one, one.storage_depth()) for one in queues if not one.is_deleted)


def _counted_queues(scope: Scope) -> Iterable[_CountedQueue]:
    queues = _queues(scope)
    return (
        _CountedQueue(one.name.vhost, one.label, one.type, one.counts, one.published_count)
        for one in queues
    )


def _past_queues(scope: Scope) -> Sequence[_CountedQueue]:
    found = []
    for kind, past in scope.services.counts.past_queues.items():
        deliveries = DeliveryCounts()
        deliveries.add(past.deliveries)
        found.append(_CountedQueue("", "", kind, deliveries, past.published))
    return found


def _connections(scope: Scope) -> Iterable[_Connection]:
    connections = scope.services.authenticator.connections()
    return (_connection(one) for one in connections)


def _connection(connection: VhostConnection) -> _Connection:
    peer = connection.session.peer
    traffic = Traffic(peer.read_bytes, peer.read_count, peer.written_bytes, peer.written_count)
    pending = peer.pending_bytes if peer.is_open else 0
    return _Connection(connection_name(connection), traffic, pending, connection.channel_count)


def _past_connections(scope: Scope) -> Sequence[_Connection]:
    past = scope.services.authenticator.churn.past
    copied = Traffic(past.read_bytes, past.read_count, past.written_bytes, past.written_count)
    return [_Connection("", copied)]


def _channels(scope: Scope) -> Iterable[_Channel]:
    channels = scope.services.open_channels()
    return (_Channel(one.name, one.channel.published_counts) for one in channels)


def _channels_now(scope: Scope) -> Iterable[_ChannelNow]:
    channels = scope.services.open_channels()
    return (_ChannelNow(one.name, one.channel.state()) for one in channels)


def _past_channels(scope: Scope) -> Sequence[_Channel]:
    published = PublishCounts()
    published.add(scope.services.counts.past_published)
    return [_Channel("", published)]


def _vhosts(scope: Scope) -> Iterable[VhostBroker]:
    return list(scope.services.vhosts.values())


def _exchanges(scope: Scope) -> Iterable[_BoundExchange]:
    """Give every exchange to which somebody may bind and publish, but for the default one."""
    found = [
        (vhost, one)
        for vhost in scope.services.vhosts.values()
        for one in vhost.topology.exchanges()
        if one.name != DEFAULT_EXCHANGE and not one.is_internal
    ]
    return (
        _BoundExchange(one, len(vhost.topology.bindings_from(one.name))) for vhost, one in found
    )


def _deaths(scope: Scope) -> Iterable[_Deaths]:
    return [_Deaths(death, count) for death, count in scope.services.counts.deaths.items()]


def _too_often(scope: Scope) -> Iterable[_Deaths]:
    return [one for one in _deaths(scope) if one.death.queue_type == QUORUM]


def _died(reason: DeathReason) -> Callable[[_Deaths], int]:
    return lambda one: one.times if one.death.reason == reason.value else 0


# What a series is labelled with.


def _queue(one: BrokerQueue) -> str:
    return labelled(vhost=one.name.vhost, queue=one.label)


def _exchange(one: _BoundExchange) -> str:
    exchange = one.exchange
    return labelled(vhost=exchange.vhost, exchange=exchange.name, type=exchange.type)


def _channel(one: _Channel | _ChannelNow) -> str:
    return labelled(channel=one.name)


def _login(one: Logins) -> str:
    return labelled(protocol=one.protocol)


def _protocol(_: object) -> str:
    return labelled(protocol=_PROTOCOL)


def _type(one: _CountedQueue) -> str:
    return _TYPES[one.type]


_TYPES = {
    one: labelled(protocol=_PROTOCOL, queue_type=f"rabbit_{one}_queue") for one in (CLASSIC, QUORUM)
}


def _strategy(kind: str, *, is_letter: bool) -> str:
    strategy = "at_most_once" if is_letter else "disabled"
    return labelled(queue_type=f"rabbit_{kind}_queue", dead_letter_strategy=strategy)


def _death(one: _Deaths) -> str:
    return _strategy(one.death.queue_type, is_letter=one.death.is_letter)


_STRATEGIES = {
    kind: tuple(_strategy(kind, is_letter=one) for one in (False, True))
    for kind in (CLASSIC, QUORUM)
}

# The table.

GROUPS: Final[tuple[AnyGroup, ...]] = (
    Group(
        name="connection_churn_metrics",
        objects=_node,
        families=(
            Family(
                "connections_opened_total",
                "Total number of connections opened",
                lambda one: one.clients.connections_opened,
            ),
            Family(
                "connections_closed_total",
                "Total number of connections closed or terminated",
                lambda one: one.clients.connections_closed,
            ),
            Family(
                "channels_opened_total",
                "Total number of channels opened",
                lambda one: one.clients.channels_opened,
            ),
            Family(
                "channels_closed_total",
                "Total number of channels closed",
                lambda one: one.clients.channels_closed,
            ),
            Family(
                "queues_declared_total",
                "Total number of queues declared",
                lambda one: one.churn.declared,
            ),
            Family(
                "queues_created_total",
                "Total number of queues created",
                lambda one: one.churn.created,
            ),
            Family(
                "queues_deleted_total",
                "Total number of queues deleted",
                lambda one: one.churn.deleted,
            ),
        ),
    ),
    Group(
        name="node_coarse_metrics",
        objects=_node,
        families=(
            Family("process_open_fds", "Open file descriptors", lambda one: one.open_fds),
            Family("process_open_tcp_sockets", "Open TCP sockets", lambda one: one.sockets),
            Family(
                "process_resident_memory_bytes",
                "Memory used in bytes",
                lambda one: one.memory_bytes,
            ),
            Family(
                "disk_space_available_bytes",
                "Disk space available in bytes",
                lambda one: one.disk_free_bytes,
            ),
        ),
    ),
    Group(
        name="node_metrics",
        objects=_node,
        families=(
            Family("process_max_fds", "Most file descriptors", lambda one: one.max_fds),
            Family("process_max_tcp_sockets", "Most TCP sockets", lambda one: one.max_fds),
            Family(
                "resident_memory_limit_bytes",
                "Publishers are held while more memory than this is used, in bytes",
                lambda one: one.memory_bytes_max,
            ),
            Family(
                "disk_space_available_limit_bytes",
                "Publishers are held while less of the disk than this is free, in bytes",
                lambda one: one.disk_free_bytes_min,
            ),
            Family("erlang_uptime_seconds", "Time since the start", lambda one: one.uptime_seconds),
        ),
    ),
    Group(
        name="node_persister_metrics",
        objects=_node,
        families=(
            Family(
                "io_sync_ops_total",
                "Total number of syncs of what confirms wait for",
                lambda one: one.syncs,
            ),
            Family(
                "io_sync_time_seconds_total",
                "How long they took altogether",
                lambda one: one.sync_seconds,
            ),
        ),
    ),
    Group(
        name="auth_attempt_metrics",
        objects=lambda scope: scope.logins,
        labels=_login,
        sum_labels=_login,
        sums=(),
        families=(
            Family(
                "auth_attempts_total",
                "Total number of logins",
                lambda one: one.succeeded + one.failed,
            ),
            Family(
                "auth_attempts_succeeded_total",
                "Total number of logins that succeeded",
                lambda one: one.succeeded,
            ),
            Family(
                "auth_attempts_failed_total",
                "Total number of logins that failed",
                lambda one: one.failed,
            ),
        ),
    ),
    Group(
        name="queue_coarse_metrics",
        objects=_queues,
        labels=_queue,
        families=(
            Family(
                "queue_messages_ready",
                "Messages ready to be delivered to consumers",
                lambda one: one.ready_count,
            ),
            Family(
                "queue_messages_unacked",
                "Messages delivered to consumers but not yet acknowledged",
                lambda one: one.unacked_count,
            ),
            Family(
                "queue_messages",
                "Messages that are ready or not yet acknowledged",
                lambda one: one.ready_count + one.unacked_count,
            ),
        ),
    ),
    Group(
        name="queue_consumer_count",
        part_of="queue_metrics",
        objects=_queues,
        labels=_queue,
        families=(
            Family("queue_consumers", "Consumers on a queue", lambda one: len(one.consumers)),
        ),
    ),
    Group(
        name="queue_metrics",
        objects=_stored_queues,
        labels=lambda one: _queue(one.queue),
        families=(
            Family("queue_consumers", "Consumers on a queue", lambda one: len(one.queue.consumers)),
            Family(
                "queue_messages_ram",
                "Messages ready or not yet acknowledged that are in memory",
                lambda one: one.kept.held_count + one.queue.unacked_count,
            ),
            Family(
                "queue_messages_ready_ram",
                "Ready messages that are in memory",
                lambda one: one.kept.held_count,
            ),
            Family(
                "queue_messages_unacked_ram",
                "Messages not yet acknowledged that are in memory",
                lambda one: one.queue.unacked_count,
            ),
            Family(
                "queue_messages_persistent",
                "Persistent messages",
                lambda one: one.kept.durable_count,
            ),
            Family(
                "queue_messages_persistent_bytes",
                "Size of persistent messages in bytes",
                lambda one: one.kept.durable_bytes,
            ),
            Family(
                "queue_messages_bytes",
                "Size of messages ready or not yet acknowledged, in bytes",
                lambda one: _all_bytes(one.kept),
            ),
            Family(
                "queue_messages_ready_bytes",
                "Size of ready messages in bytes",
                lambda one: one.kept.ready_bytes,
            ),
            Family(
                "queue_messages_unacked_bytes",
                "Size of messages not yet acknowledged, in bytes",
                lambda one: _unacked_bytes(one.kept),
            ),
            Family(
                "queue_messages_paged_out",
                "Ready messages that are on the disk only",
                lambda one: one.queue.ready_count - one.kept.held_count,
            ),
        ),
    ),
    Group(
        name="channel_metrics",
        objects=_channels_now,
        labels=_channel,
        families=(
            Family(
                "channel_consumers", "Consumers on a channel", lambda one: one.state.consumer_count
            ),
            Family(
                "channel_messages_unacked",
                "Messages delivered on a channel and not yet acknowledged",
                lambda one: one.state.unacked_count,
            ),
            Family(
                "channel_messages_unconfirmed",
                "Messages published on a channel and not yet confirmed",
                lambda one: one.state.unconfirmed_count,
            ),
            Family(
                "channel_messages_uncommitted",
                "Messages received in a transaction that is not yet committed",
                lambda one: one.state.uncommitted_count,
            ),
            Family(
                "channel_acks_uncommitted",
                "Acknowledgements in a transaction that is not yet committed",
                lambda one: one.state.uncommitted_ack_count,
            ),
            Family(
                "consumer_prefetch",
                "Most messages that each consumer may have unacknowledged",
                lambda one: one.state.consumer_prefetch,
            ),
            Family(
                "channel_prefetch",
                "Most messages that the consumers of a channel may have unacknowledged together",
                lambda one: one.state.channel_prefetch,
            ),
        ),
    ),
    Group(
        name="channel_exchange_metrics",
        objects=_channels,
        labels=_channel,
        past=_past_channels,
        families=(
            Family(
                "channel_messages_published_total",
                "Total number of messages published into an exchange on a channel",
                lambda one: one.published.published,
            ),
            Family(
                "channel_messages_confirmed_total",
                "Total number of messages published on a channel and confirmed",
                lambda one: one.published.confirmed,
            ),
            Family(
                "channel_messages_unroutable_returned_total",
                "Total number of messages that no queue got, returned to their publisher",
                lambda one: one.published.returned,
            ),
            Family(
                "channel_messages_unroutable_dropped_total",
                "Total number of messages that no queue got, dropped",
                lambda one: one.published.dropped,
            ),
        ),
    ),
    Group(
        name="channel_queue_metrics",
        objects=_counted_queues,
        labels=lambda one: labelled(vhost=one.vhost, queue=one.name),
        past=_past_queues,
        families=(
            Family(
                "channel_get_ack_total",
                "Total number of messages got by basic.get, to be acknowledged",
                lambda one: one.deliveries.got,
            ),
            Family(
                "channel_get_total",
                "Total number of messages got by basic.get, without acknowledgement",
                lambda one: one.deliveries.got_no_ack,
            ),
            Family(
                "channel_messages_delivered_ack_total",
                "Total number of messages delivered to consumers that acknowledge",
                lambda one: one.deliveries.delivered,
            ),
            Family(
                "channel_messages_delivered_total",
                "Total number of messages delivered to consumers that do not acknowledge",
                lambda one: one.deliveries.delivered_no_ack,
            ),
            Family(
                "channel_messages_redelivered_total",
                "Total number of messages redelivered to consumers",
                lambda one: one.deliveries.redelivered,
            ),
            Family(
                "channel_messages_acked_total",
                "Total number of messages acknowledged by consumers",
                lambda one: one.deliveries.acked,
            ),
            Family(
                "channel_get_empty_total",
                "Total number of times that basic.get found no message",
                lambda one: one.deliveries.got_empty,
            ),
        ),
    ),
    Group(
        name="connection_coarse_metrics",
        objects=_connections,
        labels=lambda one: labelled(connection=one.name),
        past=_past_connections,
        families=(
            Family(
                "connection_incoming_bytes_total",
                "Total number of bytes received on a connection",
                lambda one: one.traffic.read_bytes,
            ),
            Family(
                "connection_outgoing_bytes_total",
                "Total number of bytes sent on a connection",
                lambda one: one.traffic.written_bytes,
            ),
        ),
    ),
    Group(
        name="connection_metrics",
        objects=_connections,
        labels=lambda one: labelled(connection=one.name),
        past=_past_connections,
        families=(
            Family(
                "connection_incoming_packets_total",
                "Total number of reads from a connection",
                lambda one: one.traffic.read_count,
            ),
            Family(
                "connection_outgoing_packets_total",
                "Total number of writes to a connection",
                lambda one: one.traffic.written_count,
            ),
            Family(
                "connection_pending_packets",
                "Bytes that wait to be sent on a connection",
                lambda one: one.pending_bytes,
            ),
            Family("connection_channels", "Channels on a connection", lambda one: one.channels),
        ),
    ),
    Group(
        name="channel_queue_exchange_metrics",
        objects=_counted_queues,
        labels=lambda one: labelled(queue_vhost=one.vhost, queue=one.name),
        past=_past_queues,
        families=(
            Family(
                "queue_messages_published_total",
                "Total number of messages published to queues",
                lambda one: one.published,
            ),
        ),
    ),
)
"""What is reported as sums, or a series for each object."""

SUMMED: Final[tuple[AnyGroup, ...]] = (
    Group(
        name="totals",
        objects=_node,
        families=(
            Family("connections", "Connections that are open", lambda one: one.connections),
            Family("channels", "Channels that are open", lambda one: one.channels),
            Family("queues", "Queues that there are", lambda one: one.queues),
        ),
    ),
    Group(
        name="consumers",
        objects=_queues,
        labels=_queue,
        families=(Family("consumers", "Consumers that there are", lambda one: len(one.consumers)),),
    ),
    Group(
        name="protocol",
        objects=_channels,
        labels=_channel,
        past=_past_channels,
        sum_labels=_protocol,
        sums=(),
        families=(
            Family(
                "global_messages_received_total",
                "Total number of messages received from publishers",
                lambda one: one.published.published + one.published.withheld,
            ),
            Family(
                "global_messages_received_confirm_total",
                "Total number of messages received from publishers that wait for an answer",
                lambda one: one.published.to_confirm,
            ),
            Family(
                "global_messages_routed_total",
                "Total number of messages routed to queues",
                lambda one: one.published.routed,
            ),
            Family(
                "global_messages_unroutable_dropped_total",
                "Total number of messages that no queue got, dropped",
                lambda one: one.published.dropped,
            ),
            Family(
                "global_messages_unroutable_returned_total",
                "Total number of messages that no queue got, returned to their publisher",
                lambda one: one.published.returned,
            ),
            Family(
                "global_messages_confirmed_total",
                "Total number of messages confirmed to publishers",
                lambda one: one.published.confirmed,
            ),
            Family(
                "global_publishers",
                "Channels that have published something",
                lambda one: bool(one.name and one.published.published + one.published.withheld),
            ),
        ),
    ),
    Group(
        name="protocol_consumers",
        objects=_channels_now,
        labels=_channel,
        sum_labels=_protocol,
        sums=(labelled(protocol=_PROTOCOL),),
        families=(
            Family(
                "global_consumers", "Consumers that there are", lambda one: one.state.consumer_count
            ),
        ),
    ),
    Group(
        name="queue_types",
        objects=_counted_queues,
        labels=lambda one: labelled(vhost=one.vhost, queue=one.name),
        past=_past_queues,
        sum_labels=_type,
        sums=tuple(_TYPES.values()),
        families=(
            Family(
                "global_messages_delivered_total",
                "Total number of messages delivered to consumers",
                lambda one: one.deliveries.given,
            ),
            Family(
                "global_messages_delivered_consume_manual_ack_total",
                "Total number of messages delivered to consumers that acknowledge",
                lambda one: one.deliveries.delivered,
            ),
            Family(
                "global_messages_delivered_consume_auto_ack_total",
                "Total number of messages delivered to consumers that do not acknowledge",
                lambda one: one.deliveries.delivered_no_ack,
            ),
            Family(
                "global_messages_delivered_get_manual_ack_total",
                "Total number of messages got by basic.get, to be acknowledged",
                lambda one: one.deliveries.got,
            ),
            Family(
                "global_messages_delivered_get_auto_ack_total",
                "Total number of messages got by basic.get, without acknowledgement",
                lambda one: one.deliveries.got_no_ack,
            ),
            Family(
                "global_messages_get_empty_total",
                "Total number of times that basic.get found no message",
                lambda one: one.deliveries.got_empty,
            ),
            Family(
                "global_messages_redelivered_total",
                "Total number of messages redelivered to consumers",
                lambda one: one.deliveries.redelivered,
            ),
            Family(
                "global_messages_acknowledged_total",
                "Total number of messages acknowledged by consumers",
                lambda one: one.deliveries.acked,
            ),
        ),
    ),
    Group(
        name="deaths",
        objects=_deaths,
        labels=lambda one: f"{_death(one)},{labelled(reason=one.death.reason)}",
        sum_labels=_death,
        sums=_STRATEGIES[CLASSIC] + _STRATEGIES[QUORUM],
        families=(
            Family(
                "global_messages_dead_lettered_expired_total",
                "Total number of messages that expired in a queue",
                _died(DeathReason.EXPIRED),
            ),
            Family(
                "global_messages_dead_lettered_rejected_total",
                "Total number of messages that a consumer rejected",
                _died(DeathReason.REJECTED),
            ),
            Family(
                "global_messages_dead_lettered_maxlen_total",
                "Total number of messages that were too much for their queue",
                _died(DeathReason.MAX_LENGTH),
            ),
        ),
    ),
    Group(
        name="deaths_of_quorum_queues",
        objects=_too_often,
        labels=_death,
        sum_labels=_death,
        sums=_STRATEGIES[QUORUM],
        families=(
            Family(
                "global_messages_dead_lettered_delivery_limit_total",
                "Total number of messages that came back to their queue too often",
                _died(DeathReason.DELIVERY_LIMIT),
            ),
        ),
    ),
)
"""What is reported as sums only."""

ALARMS: Final[tuple[AnyGroup, ...]] = (
    Group(
        name="alarms",
        objects=_node,
        families=(
            Family(
                "alarms_free_disk_space_watermark",
                "is 1 if publishers are held since the disk is low, or stores nothing",
                lambda one: one.is_disk_low,
            ),
            Family(
                "alarms_memory_used_watermark",
                "is 1 if publishers are held since memory is low",
                lambda one: one.is_memory_low,
            ),
        ),
    ),
)

CLUSTER: Final[tuple[AnyGroup, ...]] = (
    Group(
        name="vhost_status",
        objects=_vhosts,
        labels=lambda one: labelled(vhost=one.name),
        families=(
            Family(
                "vhost_status",
                "Whether a virtual host stores messages",
                lambda one: one.refusal is None,
            ),
        ),
    ),
    Group(
        name="exchange_bindings",
        objects=_exchanges,
        labels=_exchange,
        families=(
            Family(
                "exchange_bindings", "Number of bindings from an exchange", lambda one: one.bindings
            ),
        ),
    ),
    Group(
        name="exchange_names",
        objects=_exchanges,
        labels=_exchange,
        families=(Family("exchange_name", "Is 1 for each exchange", lambda _: 1),),
    ),
)
"""What `/metrics/detailed` reports on request about the cluster as a whole."""


def _all_bytes(kept: StorageDepth) -> int | None:
    return None if kept.transient_bytes is None else kept.durable_bytes + kept.transient_bytes


def _unacked_bytes(kept: StorageDepth) -> int | None:
    every = _all_bytes(kept)
    return None if every is None else max(every - kept.ready_bytes, 0)
