"""A channel's client: what it is told, as frames."""

from collections.abc import Callable, Sequence
from typing import Final

from sprocket.rabbitmq.broker.channels import Confirmation, Got
from sprocket.rabbitmq.broker.queues import QueueEntry, message_of
from sprocket.rabbitmq.codec.amqp import ReplyCode, frames, methods, properties, tables
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.server.session import Replies

CANCEL_NOTIFY: Final = "consumer_cancel_notify"


class ChannelWriter:
    """See `broker.channels.ChannelClient`.

    Args:
        replies: Takes what is said to it.
        understands: The capabilities that it has.
        fail: Closes the channel or the connection.

    Threads: event loop only.
    """

    def __init__(
        self, replies: Replies, understands: frozenset[str], fail: Callable[[RequestRefused], None]
    ) -> None:
        self._replies = replies
        self._understands = understands
        self._held: list[str] | None = None
        """Consumers that no longer exist, if this must not be said yet."""
        self.failed = fail
        """Closes the channel or the connection."""

    @property
    def is_ready(self) -> bool:
        """Whether it takes what it is told."""
        return self._replies.is_ready

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back once when that holds again."""
        self._replies.when_ready(callback)

    def deliver(self, consumer_tag: str, first_tag: int, entries: Sequence[QueueEntry]) -> None:
        """Deliver messages with the tags from `first_tag` on."""
        deliveries: list[frames.Delivery] = []
        exchange = keys = None
        origin = b""
        for entry in entries:
            message = message_of(entry) if entry.return_count else entry.message
            if message.routing_keys is not keys or message.exchange is not exchange:
                exchange, keys = message.exchange, message.routing_keys
                origin = _origin(exchange, _key(message))
            held = message.properties
            deliveries.append(
                (
                    entry.is_delivered,
                    origin,
                    held if isinstance(held, bytes) else properties.encode(held),
                    message.fragments,
                )
            )
        self._replies.deliver(tables.encode_short_string(consumer_tag), first_tag, deliveries)

    def deliver_reply(self, consumer_tag: str, tag: int, message: BasicMessage, key: str) -> None:
        """Deliver a reply."""
        short = tables.encode_short_string
        payload = frames.delivery_payload(short(consumer_tag), tag, False, short("") + short(key))
        self._replies.send_content(payload, _octets(message), message.fragments)

    def returned(self, message: BasicMessage) -> None:
        """Give back a message that no queue gets."""
        method = methods.BasicReturn(
            int(ReplyCode.NO_ROUTE), ReplyCode.NO_ROUTE.name, message.exchange, _key(message)
        )
        self._replies.send_content(methods.encode(method), _octets(message), message.fragments)

    def confirmed(self, answers: Sequence[Confirmation]) -> None:
        """Answer what was published."""
        send = self._replies.send
        for one in answers:
            if one.is_taken:
                send(methods.BasicAck(one.number, one.is_multiple))
            else:
                send(methods.BasicNack(one.number, one.is_multiple, False))

    def cancelled(self, consumer_tag: str) -> None:
        """Say that a consumer no longer exists, to a client that understands it."""
        if self._held is not None:
            self._held.append(consumer_tag)
        elif CANCEL_NOTIFY in self._understands:
            self._replies.send(methods.BasicCancel(consumer_tag, True))

    def hold_cancellations(self) -> None:
        """Say nothing of consumers that no longer exist until `release_cancellations`.

        A client that deletes a queue gets the answer before the notices of its own consumers: some
        clients raise as soon as they read a notice, inside the call that waits for the answer.
        """
        self._held = []

    def release_cancellations(self) -> None:
        """Say what was held."""
        held, self._held = self._held, None
        for consumer_tag in held or ():
            self.cancelled(consumer_tag)

    def got(self, found: Got | None) -> None:
        """Answer a get."""
        if found is None:
            self._replies.send(methods.BasicGetEmpty())
            return
        entry = found.entry
        message = message_of(entry)
        method = methods.BasicGetOk(
            found.tag, entry.is_delivered, message.exchange, _key(message), found.left_count
        )
        self._replies.send_content(methods.encode(method), _octets(message), message.fragments)


def _key(message: BasicMessage) -> str:
    """Return the key that a message was published with."""
    return message.routing_keys[0] if message.routing_keys else ""


def _origin(exchange: str, key: str) -> bytes:
    """Return exchange and key, as they stand in a delivery."""
    short = tables.encode_short_string
    return short(exchange) + short(key)


def _octets(message: BasicMessage) -> bytes:
    """Return the properties, as they go on the wire."""
    held = message.properties
    return held if isinstance(held, bytes) else properties.encode(held)
