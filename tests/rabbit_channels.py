"""What stands in for the surroundings of RabbitMQ's channels: clients, and the disk's syncs."""

from collections.abc import Callable, Sequence

from tests.rabbit_queues import Yard

from sprocket.rabbitmq.broker.channels import (
    BrokerChannel,
    Confirmation,
    DirectReplies,
    Publication,
)
from sprocket.rabbitmq.broker.queues import QueueEntry, WindowLimits
from sprocket.rabbitmq.codec.amqp import ReplyCode, reply_text
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.message import BasicMessage


class Told:
    """The client of a channel; writes down what it is told, in order, as short texts."""

    def __init__(self) -> None:
        self.is_ready = True
        self.log: list[str] = []
        self.callbacks: list[Callable[[], None]] = []
        self.tags: list[int] = []

    def when_ready(self, callback: Callable[[], None]) -> None:
        """See `ChannelClient`."""
        self.callbacks.append(callback)

    def be_ready(self) -> None:
        """Take more from now on."""
        self.is_ready = True
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    def deliver(self, consumer_tag: str, first_tag: int, entries: Sequence[QueueEntry]) -> None:
        """See `ChannelClient`."""
        for tag, one in enumerate(entries, first_tag):
            again = " again" if one.is_delivered else ""
            self.log.append(f"{consumer_tag} {tag} {one.message.body.decode()}{again}")
            self.tags.append(tag)

    def deliver_reply(self, consumer_tag: str, tag: int, message: BasicMessage, key: str) -> None:
        """See `ChannelClient`."""
        assert key in message.routing_keys
        self.log.append(f"{consumer_tag} {tag} {message.body.decode()} reply")

    def returned(self, message: BasicMessage) -> None:
        """See `ChannelClient`."""
        self.log.append(f"returned {message.body.decode()}")

    def confirmed(self, answers: Sequence[Confirmation]) -> None:
        """See `ChannelClient`."""
        for one in answers:
            upto = " up to" if one.is_multiple else ""
            self.log.append(f"{'ack' if one.is_taken else 'nack'}{upto} {one.number}")

    def cancelled(self, consumer_tag: str) -> None:
        """See `ChannelClient`."""
        self.log.append(f"cancelled {consumer_tag}")

    def failed(self, error: RequestRefused) -> None:
        """See `ChannelClient`."""
        self.log.append(reply_text(ReplyCode(error.code), error.remark))

    def said(self) -> list[str]:
        """What it was told since this was asked for the last time."""
        log, self.log = self.log, []
        return log


def put(channel: BrokerChannel, publications: Sequence[Publication]) -> None:
    """Publish on a channel, however many turns that takes."""
    for _ in channel.publish_in_turns(publications):
        pass


def leave(channel: BrokerChannel) -> None:
    """Close a channel, however many turns that takes."""
    for _ in channel.close_in_turns():
        pass


def ack_all(channel: BrokerChannel, tag: int) -> None:
    """Acknowledge all up to a tag, however many turns that takes."""
    for _ in channel.settle_in_turns(tag, is_ack=True):
        pass


def reject_all(channel: BrokerChannel, tag: int, *, is_requeue: bool) -> None:
    """Reject all up to a tag, however many turns that takes."""
    for _ in channel.settle_in_turns(tag, is_requeue=is_requeue):
        pass


class Pier(Yard):
    """A yard with channels."""

    def __init__(self, limits: WindowLimits | None = None) -> None:
        super().__init__(limits)
        self.replies = DirectReplies()

    def channel(self) -> tuple[BrokerChannel, Told]:
        """Open a channel."""
        client = Told()
        return BrokerChannel(client, self.turns, self.commits, self.replies, self.clock), client
