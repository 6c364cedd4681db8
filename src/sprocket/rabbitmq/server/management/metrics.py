"""Metrics for Prometheus, under the names of rabbitmq_prometheus; sums over all objects.

Source: `prometheus_rabbitmq_core_metrics_collector`, with aggregated metrics.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from sprocket.rabbitmq.broker.node_folder import LIKE_VERSION
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.server.management.process import descriptors, memory_bytes
from sprocket.rabbitmq.server.management.requests import Callers, made_of_each
from sprocket.rabbitmq.server.management.served import Served
from sprocket.rabbitmq.server.management.tallies import Tally, tallied, together
from sprocket.rabbitmq.server.tenancy import VhostTenancy
from sprocket.runtime.http import HttpResponse

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
GAUGE: Final = "gauge"
COUNTER: Final = "counter"


class Metric(NamedTuple):
    """One number."""

    name: str
    kind: str
    help: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


class _QueueSum(NamedTuple):
    """What is summed over queues beside their `Tally`."""

    ready_bytes: int
    persistent: int
    published: int


class _ClientSum(Struct):
    """What is summed over connections and their channels."""

    connections: int = 0
    channels: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    consumers: int = 0
    unacked: int = 0
    unconfirmed: int = 0
    uncommitted: int = 0
    uncommitted_acks: int = 0

    def add(self, tenancy: VhostTenancy) -> None:
        """Add a connection."""
        peer = tenancy.session.peer
        self.connections += 1
        self.read_bytes += peer.read_bytes
        self.written_bytes += peer.written_bytes
        for one in tenancy.channels():
            state = one.channel.state()
            self.channels += 1
            self.consumers += state.consumer_count
            self.unacked += state.unacked_count
            self.unconfirmed += state.unconfirmed_count
            self.uncommitted += state.uncommitted_count
            self.uncommitted_acks += state.uncommitted_ack_count


class Metrics:
    """See the head of the module.

    Args:
        served: What is told of.
        callers: Knows the logins of the API.

    Threads: event loop only.
    """

    def __init__(self, served: Served, callers: Callers) -> None:
        self._served = served
        self._callers = callers

    async def response(self) -> HttpResponse:
        """Return all metrics as text."""
        served = self._served
        vhosts = list(served.vhosts.values())
        tally = together(list((await tallied(served, vhosts)).values()))
        sums, clients = [0] * len(_QueueSum._fields), _ClientSum()

        def add(queue: BrokerQueue) -> None:
            for at, value in enumerate(_of_queue(queue)):
                sums[at] += value

        for vhost in vhosts:
            await made_of_each(vhost.queues, add, served.clock)
        await made_of_each(served.entrance.tenancies(), clients.add, served.clock)
        text = "".join(_lines(self._every(_QueueSum(*sums), tally, clients)))
        body = [text.encode()]
        return HttpResponse(status=200, headers={"content-type": CONTENT_TYPE}, body=body)

    def _every(self, sums: _QueueSum, tally: Tally, clients: _ClientSum) -> Iterator[Metric]:
        yield from self._of_node()
        yield from self._of_clients(tally, clients)
        for name, text, value in (
            ("messages_ready", "Messages ready to be delivered to consumers", tally.ready),
            (
                "messages_unacked",
                "Messages delivered to consumers but not yet acknowledged",
                tally.unacked,
            ),
            (
                "messages",
                "Sum of ready and unacknowledged messages - total queue depth",
                tally.ready + tally.unacked,
            ),
            ("consumers", "Consumers on a queue", tally.consumers),
            ("messages_ready_bytes", "Size in bytes of ready messages", sums.ready_bytes),
            ("messages_persistent", "Persistent messages", sums.persistent),
        ):
            yield Metric(f"rabbitmq_queue_{name}", GAUGE, text, value)
        yield Metric(
            "rabbitmq_queue_messages_published_total",
            COUNTER,
            "Total number of messages published to queues",
            sums.published,
        )
        yield Metric("rabbitmq_queues", GAUGE, "Queues available", tally.queues)
        yield Metric("rabbitmq_consumers", GAUGE, "Consumers currently connected", tally.consumers)

    def _of_node(self) -> Iterator[Metric]:
        served, facts = self._served, self._served.facts
        place, low = served.place, served.low
        used, limit = descriptors()
        yield Metric(
            "rabbitmq_identity_info",
            GAUGE,
            "RabbitMQ node & cluster identity info",
            1,
            (("rabbitmq_node", facts.name), ("rabbitmq_cluster", str(facts.cluster))),
        )
        yield Metric(
            "rabbitmq_build_info",
            GAUGE,
            "RabbitMQ & Erlang/OTP version info",
            1,
            (("rabbitmq_version", LIKE_VERSION),),
        )
        churn = [one.churn for one in served.vhosts.values()]
        for name, kind, text, value in (
            (
                "alarms_free_disk_space_watermark",
                GAUGE,
                "is 1 if free disk space watermark alarm is in effect",
                int("disk" in low),
            ),
            (
                "alarms_memory_used_watermark",
                GAUGE,
                "is 1 if VM memory watermark alarm is in effect",
                int("memory" in low),
            ),
            ("process_open_fds", GAUGE, "Open file descriptors", used),
            ("process_max_fds", GAUGE, "Open file descriptors limit", limit),
            ("process_resident_memory_bytes", GAUGE, "Memory used in bytes", memory_bytes()),
            (
                "disk_space_available_bytes",
                GAUGE,
                "Disk space available in bytes",
                place.disk.free_bytes(place.folder),
            ),
            (
                "disk_space_available_limit_bytes",
                GAUGE,
                "Free disk space low watermark in bytes",
                facts.disk_free_bytes_min,
            ),
            (
                "queues_declared_total",
                COUNTER,
                "Total number of queues declared",
                sum(one.declared for one in churn),
            ),
            (
                "queues_created_total",
                COUNTER,
                "Total number of queues created",
                sum(one.created for one in churn),
            ),
            (
                "queues_deleted_total",
                COUNTER,
                "Total number of queues deleted",
                sum(one.deleted for one in churn),
            ),
        ):
            yield Metric(f"rabbitmq_{name}", kind, text, value)

    def _of_clients(self, tally: Tally, sums: _ClientSum) -> Iterator[Metric]:
        entrance = self._served.entrance
        churn = entrance.churn
        published, delivered = tally.published, tally.deliveries
        for name, kind, text, value in (
            ("connections", GAUGE, "Connections currently open", sums.connections),
            ("channels", GAUGE, "Channels currently open", sums.channels),
            (
                "connections_opened_total",
                COUNTER,
                "Total number of connections opened",
                churn.connections_opened,
            ),
            (
                "connections_closed_total",
                COUNTER,
                "Total number of connections closed or terminated",
                churn.connections_closed,
            ),
            (
                "channels_opened_total",
                COUNTER,
                "Total number of channels opened",
                churn.channels_opened,
            ),
            (
                "channels_closed_total",
                COUNTER,
                "Total number of channels closed",
                churn.channels_closed,
            ),
            (
                "connection_incoming_bytes_total",
                COUNTER,
                "Total number of bytes received on a connection",
                sums.read_bytes,
            ),
            (
                "connection_outgoing_bytes_total",
                COUNTER,
                "Total number of bytes sent on a connection",
                sums.written_bytes,
            ),
            ("connection_channels", GAUGE, "Channels on a connection", sums.channels),
            (
                "channel_consumers",
                GAUGE,
                "Consumers on a channel",
                sums.consumers,
            ),
            (
                "channel_messages_unacked",
                GAUGE,
                "Delivered but not yet acknowledged messages",
                sums.unacked,
            ),
            (
                "channel_messages_unconfirmed",
                GAUGE,
                "Published but not yet confirmed messages",
                sums.unconfirmed,
            ),
            (
                "channel_messages_uncommitted",
                GAUGE,
                "Messages received in a transaction but not yet committed",
                sums.uncommitted,
            ),
            (
                "channel_acks_uncommitted",
                GAUGE,
                "Message acknowledgements in a transaction not yet committed",
                sums.uncommitted_acks,
            ),
            (
                "channel_messages_published_total",
                COUNTER,
                "Total number of messages published into an exchange on a channel",
                published.published,
            ),
            (
                "channel_messages_confirmed_total",
                COUNTER,
                "Total number of messages published into an exchange and confirmed on the channel",
                published.confirmed,
            ),
            (
                "channel_messages_unroutable_returned_total",
                COUNTER,
                "Total number of mandatory messages returned to the publisher as unroutable",
                published.returned,
            ),
            (
                "channel_messages_unroutable_dropped_total",
                COUNTER,
                "Total number of messages published as non-mandatory and dropped as unroutable",
                published.dropped,
            ),
            (
                "channel_messages_delivered_ack_total",
                COUNTER,
                "Total number of messages delivered to consumers in manual acknowledgement mode",
                delivered.delivered,
            ),
            (
                "channel_messages_delivered_total",
                COUNTER,
                "Total number of messages delivered to consumers in automatic acknowledgement mode",
                delivered.delivered_no_ack,
            ),
            (
                "channel_messages_redelivered_total",
                COUNTER,
                "Total number of messages redelivered to consumers",
                delivered.redelivered,
            ),
            (
                "channel_messages_acked_total",
                COUNTER,
                "Total number of messages acknowledged by consumers",
                delivered.acked,
            ),
            (
                "channel_get_ack_total",
                COUNTER,
                "Total number of messages fetched with basic.get in manual acknowledgement mode",
                delivered.got,
            ),
            (
                "channel_get_total",
                COUNTER,
                "Total number of messages fetched with basic.get in automatic acknowledgement mode",
                delivered.got_no_ack,
            ),
            (
                "channel_get_empty_total",
                COUNTER,
                "Total number of times basic.get operations fetched no message",
                delivered.got_empty,
            ),
        ):
            yield Metric(f"rabbitmq_{name}", kind, text, value)
        logins = {
            "amqp091": (entrance.logins[True], entrance.logins[False]),
            "http": (self._callers.succeeded_count, self._callers.failed_count),
        }
        for at, what in enumerate(("succeeded", "failed")):
            for protocol, counts in logins.items():
                yield Metric(
                    f"rabbitmq_auth_attempts_{what}_total",
                    COUNTER,
                    f"Total number of {what} authentication attempts",
                    counts[at],
                    (("protocol", protocol),),
                )


def _of_queue(queue: BrokerQueue) -> _QueueSum:
    kept = queue.storage_depth()
    return _QueueSum(
        kept.ready_bytes,
        kept.durable_count,
        kept.published_count,
    )


def _lines(metrics: Iterator[Metric]) -> Iterator[str]:
    told = ""
    for one in metrics:
        if one.name != told:
            told = one.name
            yield f"# TYPE {one.name} {one.kind}\n# HELP {one.name} {one.help}\n"
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in one.labels)
        yield f"{one.name}{{{labels}}} {one.value}\n" if labels else f"{one.name} {one.value}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
