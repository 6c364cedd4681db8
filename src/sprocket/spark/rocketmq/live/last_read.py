"""Whether a queue is still the one that was read: the message at an offset is looked at again.

A topic that was deleted and made again, or whose broker lost its disk, has queues of the same names
with other messages, at offsets that a stream believes to have read.
"""

from collections.abc import Mapping

from sprocket.base.errors import WireError
from sprocket.rocketmq.client.network import PullResult, PullStatus
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.offsets import LastRead, Offsets

_ASKED_AT_ONCE = 64
"""Queues whose answers are held at a time: each is a whole message, of 4 MiB at most by default."""


def messages_at(live: Live, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, LastRead]:
    """Return which messages are at some offsets; one that cannot be determined is left out.

    That is one which was cleaned away, erased, or is damaged.

    Raises:
        ClientError: The cluster did not answer in time.
    """
    queues = sorted(places)
    found: dict[MessageQueue, LastRead] = {}
    for first in range(0, len(queues), _ASKED_AT_ONCE):
        wanted = {queue: places[queue] for queue in queues[first : first + _ASKED_AT_ONCE]}
        for queue, result in _asked(live, wanted).items():
            message = _message(result, wanted[queue])
            if message is not None:
                found[queue] = message
    return found


def others(
    live: Live, known: Mapping[MessageQueue, LastRead], ends: Offsets
) -> dict[MessageQueue, LastRead]:
    """Return the queues that are not the ones of which a message is known, with what is there.

    Args:
        live: The cluster.
        known: The last message that was read of each queue.
        ends: Where the queues end now. A message after that cannot be looked at: the last one is.

    Raises:
        ClientError: The cluster did not answer in time.
    """
    places = {
        queue: min(message.queue_offset, ends[queue] - 1)
        for queue, message in known.items()
        if ends[queue] > 0
    }
    found = messages_at(live, places)
    return {queue: one for queue, one in found.items() if known[queue].is_other(one)}


def _asked(live: Live, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, PullResult]:
    return live.ask(lambda cluster: cluster.pull_each(places))


def _message(result: PullResult, offset: int) -> LastRead | None:
    """Return the message that a pull at an offset brought, None if it is not known to be there."""
    if result.status is not PullStatus.FOUND:
        return None
    try:
        message = record.decode(result.body)
    except WireError:
        return None
    if message.queue_offset > offset:  # what was asked for is lost, and the next one came
        return None
    return LastRead(offset, message.physical_offset, message.stored_at_ms)
