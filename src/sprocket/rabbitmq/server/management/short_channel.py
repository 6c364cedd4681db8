"""A channel that lives for one request of the API: it publishes a message, or gets some.

Source: `rabbit_mgmt_util:with_channel`.
"""

import asyncio
from collections.abc import Callable, Sequence

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rabbitmq.broker.channels import BrokerChannel, Confirmation, Got
from sprocket.rabbitmq.broker.publishing import Publisher
from sprocket.rabbitmq.broker.queues import BrokerQueue, QueueEntry
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.codec.amqp import ReplyCode, SentMessage
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.message import BasicMessage

_log = log.get_limited_logger(__name__)


class ShortChannel:
    """See the head of the module; a `broker.channels.ChannelClient` for itself.

    Args:
        vhost: Where it is.
        clock: Of the machine.

    Threads: event loop only.
    """

    def __init__(self, vhost: VhostBroker, clock: Clock) -> None:
        self._vhost = vhost
        self._is_returned = False
        self._ended: asyncio.Future[Got | None] = asyncio.get_running_loop().create_future()
        self._channel = BrokerChannel(self, vhost.turns, vhost.commits, vhost.replies, clock)

    async def publish(self, sent: SentMessage, publisher: Publisher) -> bool:
        """Publish a message, wait for its confirm, and say whether a queue has got it.

        Raises:
            RequestRefused: It may not be, or the queue refuses it.
        """
        self._channel.confirm_select()
        found = self._vhost.publishing.publications([sent], publisher, _no_reply_key)
        await self._vhost.turns.finish(self._channel.publish_in_turns(found))
        self._vhost.note_write()
        await self._ended
        return not self._is_returned

    async def get(self, queue: BrokerQueue, *, no_ack: bool) -> Got | None:
        """Return the next message of a queue, None if there is none. Raises RequestRefused."""
        self._ended = asyncio.get_running_loop().create_future()
        self._channel.get(queue, self._end, no_ack=no_ack)
        self._vhost.note_write()
        return await self._ended

    async def reject_all(self, last: Got, *, is_requeue: bool) -> None:
        """Give back every message, or make dead letters of them."""
        work = self._channel.settle_in_turns(last.tag, is_requeue=is_requeue)
        await self._vhost.turns.finish(work)
        self._vhost.note_write()

    def close(self) -> None:
        """Give back what it still has."""
        for _ in self._channel.close_in_turns():
            pass  # it has but few messages
        self._vhost.count_closed(self._channel)
        self._vhost.note_write()

    def _end(self, got: Got | None) -> None:
        if not self._ended.done():
            self._ended.set_result(got)

    # Called by the channel.

    @property
    def is_ready(self) -> bool:
        """Whether it accepts what it is sent."""
        return True

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back at once: it is always ready."""
        callback()

    def deliver(self, consumer_tag: str, first_tag: int, entries: Sequence[QueueEntry]) -> None:
        """Refuse what is for a consumer: it has none."""
        raise AssertionError(f"{consumer_tag} gets {len(entries)} messages from {first_tag} on")

    def deliver_reply(self, consumer_tag: str, tag: int, message: BasicMessage, key: str) -> None:
        """Refuse what is for a consumer: it has none."""
        raise AssertionError(f"{consumer_tag} gets the reply {tag}, {message.id!r} for {key}")

    def returned(self, message: BasicMessage) -> None:
        """Note that no queue gets the message."""
        _log.debug("published by the API, and no queue gets it", exchange=message.exchange)
        self._is_returned = True

    def confirmed(self, answers: Sequence[Confirmation]) -> None:
        """Note how it went."""
        if answers[-1].is_taken:
            self._end(None)
        else:
            self.failed(RequestRefused(ReplyCode.INTERNAL_ERROR, "the message was refused"))

    def cancelled(self, consumer_tag: str) -> None:
        """Refuse what is about a consumer: it has none."""
        raise AssertionError(f"{consumer_tag} is cancelled")

    def failed(self, error: RequestRefused) -> None:
        """End whatever is waited for."""
        if not self._ended.done():
            self._ended.set_exception(error)


def _no_reply_key() -> str:
    raise precondition_failed("fast reply consumer does not exist")
