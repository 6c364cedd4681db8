"""The figures of the node as a whole."""

from typing import NamedTuple

from sprocket.rabbitmq.model.counts import ClientChurn, QueueChurn
from sprocket.rabbitmq.server.management import measures
from sprocket.rabbitmq.server.management.process import descriptors, memory_bytes
from sprocket.rabbitmq.server.management.services import NodeServices


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


def node_figures(services: NodeServices) -> NodeFigures:
    """Return the figures of the node."""
    facts, authenticator, low = services.facts, services.authenticator, services.low
    used, limit = descriptors()
    return NodeFigures(
        open_fds=used,
        max_fds=limit,
        sockets=authenticator.connection_count,
        memory_bytes=memory_bytes(),
        memory_bytes_max=facts.memory_bytes_max,
        disk_free_bytes=services.place.disk.free_bytes(services.place.folder),
        disk_free_bytes_min=facts.disk_free_bytes_min,
        syncs=services.syncs.count,
        sync_seconds=services.syncs.seconds,
        uptime_seconds=services.clock.monotonic() - facts.started_at,
        connections=authenticator.connection_count,
        channels=authenticator.channel_count,
        queues=sum([one.topology.queue_count for one in services.vhosts.values()]),
        clients=authenticator.churn,
        churn=services.counts.queues,
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
