"""Takes a row of every object every five seconds, some objects at a time.

A round costs the loop some 4.5 µs an object: 45 ms for 10,000 queues, in slices of 3 ms between
which others are served.
"""

import asyncio

from sprocket.base import log
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.server.management import measures
from sprocket.rabbitmq.server.management.figures import figures_row, node_figures
from sprocket.rabbitmq.server.management.requests import made_of_each
from sprocket.rabbitmq.server.management.samples import SAMPLE_SECONDS
from sprocket.rabbitmq.server.management.services import NodeServices, OpenChannel
from sprocket.rabbitmq.server.management.tallies import Tally, counted, tallied, together

_log = log.get_limited_logger(__name__)


async def sample_for_ever(services: NodeServices) -> None:
    """Do one round after the other."""
    while True:
        try:
            await _round(services)
        except StoreError as error:
            _log.error("statistics cannot be taken; trying again", why=str(error))
        except Exception:  # the rounds after it are needed all the same
            _log.exception("statistics cannot be taken; trying again")
        await asyncio.sleep(SAMPLE_SECONDS)


async def _round(services: NodeServices) -> None:
    samples, slicer = services.samples, services.slicer
    samples.begin()
    vhosts = list(services.vhosts.values())
    queues = [queue for vhost in vhosts for queue in vhost.queues]
    exchanges = [counts for vhost in vhosts for counts in vhost.topology.counted_exchanges()]
    connections, channels = services.authenticator.connections(), services.open_channels()

    def add_channel(one: OpenChannel) -> None:
        channel = one.channel
        row = measures.channel_row(channel.published_counts, channel.delivery_counts)
        samples.record(channel, row)

    await made_of_each(queues, lambda one: samples.record(one, measures.queue_row(one)), slicer)
    await made_of_each(channels, add_channel, slicer)
    await made_of_each(
        connections, lambda one: samples.record(one, measures.connection_row(one)), slicer
    )
    await made_of_each(
        exchanges, lambda one: samples.record(one, measures.exchange_row(one)), slicer
    )
    tallies = await tallied(services, vhosts)
    for vhost in vhosts:
        tally = tallies[vhost.name]
        samples.record(vhost, tally_row(tally))
    whole = together(list(tallies.values()))
    whole.published, whole.deliveries = await counted(services)
    samples.record(services, (*tally_row(whole), *figures_row(node_figures(services))))
    samples.end()


def tally_row(tally: Tally) -> tuple[int, ...]:
    """Return what is sampled of a virtual host, or of all of them."""
    return (
        *measures.lengths(tally.ready, tally.unacked),
        *measures.channel_row(tally.published, tally.deliveries),
    )
