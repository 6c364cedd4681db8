"""The figures of the node as a whole."""

from typing import NamedTuple

from sprocket.rabbitmq.model.counts import ClientChurn, QueueChurn
from sprocket.rabbitmq.server.management import measures
from sprocket.rabbitmq.server.management.process import descriptors, memory_bytes
from sprocket.rabbitmq.server.management.served import Served


class NodeFigures(NamedTuple):
    """What is shown of the node, at one moment."""

    open_fds: int
    max_fds: int
    sockets: int
    memory_bytes: int
    memory_bytes_max: int
    disk_free_bytes: int
    disk_free_bytes_min: int
    syncs: int
    sync_seconds: float
    uptime_seconds: float
    connections: int
    channels: int
    queues: int
    clients: ClientChurn
    churn: QueueChurn
    is_memory_low: bool
    is_disk_low: bool


def node_figures(served: Served) -> NodeFigures:
    """Return them."""
    facts, place, authenticator, low = served.facts, served.place, served.authenticator, served.low
    used, limit = descriptors()
    return NodeFigures(
        open_fds=used,
        max_fds=limit,
        sockets=authenticator.connection_count,
        memory_bytes=memory_bytes(),
        memory_bytes_max=facts.memory_bytes_max,
        disk_free_bytes=place.disk.free_bytes(place.folder),
        disk_free_bytes_min=facts.disk_free_bytes_min,
        syncs=served.syncs.count,
        sync_seconds=served.syncs.seconds,
        uptime_seconds=served.clock.monotonic() - facts.started_at,
        connections=authenticator.connection_count,
        channels=authenticator.channel_count,
        queues=sum([one.topology.queue_count for one in served.vhosts.values()]),
        clients=authenticator.churn,
        churn=served.counts.queues,
        is_memory_low="memory" in low,
        is_disk_low="disk" in low,
    )


def figures_row(node: NodeFigures) -> tuple[int, ...]:
    """Return what is sampled of the node; see `measures.NODE_FIGURES`."""
    return (
        node.memory_bytes,
        node.open_fds,
        node.sockets,
        node.disk_free_bytes,
        node.syncs,
        *measures.churn(node.clients, node.churn),
    )
