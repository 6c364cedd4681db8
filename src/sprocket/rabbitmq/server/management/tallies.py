"""Sums over all queues and channels of virtual hosts, made some at a time."""

from collections.abc import Sequence

from msgspec import Struct, field

from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.model.counts import DeliveryCounts, PublishCounts
from sprocket.rabbitmq.server.management.requests import made_of_each
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.rabbitmq.server.vhost_connection import VhostConnection


class Tally(Struct):
    """What the queues of a virtual host have, and what its channels have counted.

    Channels that are closed are counted, too.
    """

    queues: int = 0
    ready: int = 0
    unacked: int = 0
    consumers: int = 0
    published: PublishCounts = field(default_factory=PublishCounts)
    deliveries: DeliveryCounts = field(default_factory=DeliveryCounts)

    def add(self, other: "Tally") -> None:
        """Add what another one has."""
        self.queues += other.queues
        self.ready += other.ready
        self.unacked += other.unacked
        self.consumers += other.consumers
        self.published.add(other.published)
        self.deliveries.add(other.deliveries)


async def tallied(services: NodeServices, vhosts: Sequence[VhostBroker]) -> dict[str, Tally]:
    """Return the sums of each of some virtual hosts, by name; 1 µs a queue or channel."""
    found = {one.name: Tally() for one in vhosts}
    for vhost in vhosts:
        tally = found[vhost.name]
        tally.published.add(vhost.past_published)
        tally.deliveries.add(vhost.past_deliveries)

        def add_queue(queue: BrokerQueue, to: Tally = tally) -> None:
            to.queues += 1
            to.ready += queue.ready_count
            to.unacked += queue.unacked_count
            to.consumers += len(queue.consumers)

        await made_of_each(vhost.queues, add_queue, services.slicer)

    def add_channels(connection: VhostConnection) -> None:
        to = found.get(connection.vhost.name)
        if to is not None:
            for one in connection.channels():
                to.published.add(one.channel.published_counts)
                to.deliveries.add(one.channel.delivery_counts)

    await made_of_each(services.authenticator.connections(), add_channels, services.slicer)
    return found


async def counted(services: NodeServices) -> tuple[PublishCounts, DeliveryCounts]:
    """Return what the node has counted since its start, with all that was deleted meanwhile."""
    published, deliveries = PublishCounts(), DeliveryCounts()
    # In one turn: what goes after that is in the lists.
    published.add(services.counts.past_published)
    for past in services.counts.past_queues.values():
        deliveries.add(past.deliveries)
    channels = services.open_channels()
    queues = [queue for vhost in services.vhosts.values() for queue in vhost.queues]
    await made_of_each(
        channels, lambda one: published.add(one.channel.published_counts), services.slicer
    )
    await made_of_each(queues, lambda one: deliveries.add(one.counts), services.slicer)
    return published, deliveries


def together(tallies: Sequence[Tally]) -> Tally:
    """Return the sum of some."""
    found = Tally()
    for one in tallies:
        found.add(one)
    return found
