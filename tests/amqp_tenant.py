"""A vhost in memory that does just enough for a client to connect, declare, send and receive.

It stands in for a broker where the connection is tested: there are the default exchange, queues
that have no arguments, confirms, and nothing else.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count

from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, SentMessage, methods, tables
from sprocket.rabbitmq.codec.amqp.frames import delivery_payload
from sprocket.rabbitmq.codec.amqp.methods import AmqpMethod
from sprocket.rabbitmq.server.login import Credentials, distinguished_name
from sprocket.rabbitmq.server.session import ChannelService, LoginRefused, Replies, Session

Stored = tuple[str, str, bytes, tuple[bytes, ...]]
"""Exchange, key, properties and body."""

_OK: dict[type[AmqpMethod], AmqpMethod] = {
    methods.ExchangeDeclare: methods.ExchangeDeclareOk(),
    methods.ExchangeBind: methods.ExchangeBindOk(),
    methods.QueueBind: methods.QueueBindOk(),
    methods.QueueUnbind: methods.QueueUnbindOk(),
    methods.BasicQos: methods.BasicQosOk(),
    methods.TxSelect: methods.TxSelectOk(),
    methods.AccessRequest: methods.AccessRequestOk(),
}


class Door:
    """Lets `guest` in with that password, and whose certificate is `CN=client`; into vhost `/`."""

    def __init__(self) -> None:
        self.queues: dict[str, deque[Stored]] = {}
        self.consumers: dict[str, tuple[Desk, str, bool]] = {}
        self.inside: list[str] = []
        """Users that are in; one that leaves is taken out."""
        self.acked: list[int] = []
        self.published_count = 0
        self.closed_count = 0
        """Channels that have ended."""
        self.fails_at_flow = False
        self.secrets: list[bytes | None] = []
        self.replies: list[Replies] = []
        """Of each channel that was opened."""
        self.desk: type[Desk] = Desk
        """What serves each channel."""

    certified_user = staticmethod(distinguished_name)

    def log_in(self, given: Credentials, session: Session) -> None:  # noqa: ARG002
        """See `Authenticator`."""
        self.secrets.append(given.password)
        if (given.user, given.password) not in {("guest", b"guest"), ("CN=client", None)}:
            raise LoginRefused(f"{given.user} is unknown, or the password is wrong")

    def enter(self, vhost: str, session: Session) -> "Flat":
        """See `Authenticator`."""
        if vhost != "/":
            raise AmqpError(ReplyCode.NOT_ALLOWED, f"vhost {vhost} not found")
        self.inside.append(session.user)
        return Flat(self, session.user)


class Flat:
    """See `ConnectionService`."""

    def __init__(self, door: Door, user: str) -> None:
        self._door = door
        self._user = user

    def open_channel(self, replies: Replies) -> ChannelService:
        """See `ConnectionService`."""
        self._door.replies.append(replies)
        return self._door.desk(self._door, replies)

    def leave_in_turns(self) -> Iterator[None]:
        """See `ConnectionService`."""
        self._door.inside.remove(self._user)
        yield from ()


class Desk:
    """See `ChannelService`."""

    def __init__(self, door: Door, replies: Replies) -> None:
        self._door = door
        self._replies = replies
        self._tags = count(1)
        self._published: count[int] | None = None
        self.is_closed = False

    def published(self, messages: Sequence[SentMessage]) -> None:
        """Put messages into their queues, or send them back."""
        for one in messages:
            self._publish(one)

    def acknowledged(self, tags: Sequence[int], *, is_multiple: bool) -> None:  # noqa: ARG002
        """Remember acknowledgements."""
        self._door.acked += tags

    def _publish(self, event: SentMessage) -> None:
        method = event.method
        self._door.published_count += 1
        queue = self._door.queues.get(method.routing_key)
        if queue is not None:
            queue.append((method.exchange, method.routing_key, event.properties, event.fragments))
        elif method.mandatory:
            gone = methods.BasicReturn(312, "NO_ROUTE", method.exchange, method.routing_key)
            self._replies.send_content(methods.encode(gone), event.properties, event.fragments)
        if self._published is not None:
            self._replies.send(methods.BasicAck(next(self._published), False))
        self._deliver(method.routing_key)

    def called(self, method: AmqpMethod) -> None:
        """Answer."""
        queues = self._door.queues
        match method:
            case methods.QueueDeclare():
                name = method.queue or "amq.gen-1"
                if method.passive and name not in queues:
                    raise AmqpError(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '/'")
                found = queues.setdefault(name, deque())
                if not method.nowait:
                    self._replies.send(methods.QueueDeclareOk(name, len(found), 0))
            case methods.QueueDelete():
                gone = queues.pop(method.queue, deque())
                self._replies.send(methods.QueueDeleteOk(len(gone)))
            case methods.ConfirmSelect():
                self._published = count(1)
                self._replies.send(methods.ConfirmSelectOk())
            case methods.BasicConsume():
                self._door.consumers[method.queue] = (self, method.consumer_tag, method.no_ack)
                self._replies.send(methods.BasicConsumeOk(method.consumer_tag))
                self._deliver(method.queue)
            case methods.BasicCancel():
                self._replies.send(methods.BasicCancelOk(method.consumer_tag))
            case methods.BasicGet():
                self._get(method.queue)
            case methods.ChannelFlow() if self._door.fails_at_flow:
                raise RuntimeError("planted")
            case _ if type(method) in _OK:
                self._replies.send(_OK[type(method)])
            case _:
                raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method")

    def close_in_turns(self) -> Iterator[None]:
        """End."""
        assert not self.is_closed
        self.is_closed = True
        self._door.closed_count += 1
        for name, (desk, _, _) in list(self._door.consumers.items()):
            if desk is self:
                del self._door.consumers[name]
        return iter(())

    def send(self, tag: str, found: Stored) -> None:
        """Deliver a message."""
        exchange, key, properties, fragments = found
        short = tables.encode_short_string
        payload = delivery_payload(
            short(tag), next(self._tags), False, short(exchange) + short(key)
        )
        self._replies.send_content(payload, properties, fragments)

    def feed(self, name: str, tag: str) -> None:
        """Deliver what there is, as long as the client takes it."""
        queue = self._door.queues[name]
        while queue and self._replies.is_ready:
            self.send(tag, queue.popleft())
        if queue:
            self._replies.when_ready(lambda: self._deliver(name))

    def _deliver(self, name: str) -> None:
        if name in self._door.consumers and name in self._door.queues:
            desk, tag, _ = self._door.consumers[name]
            desk.feed(name, tag)

    def _get(self, name: str) -> None:
        queue = self._door.queues.get(name)
        if not queue:
            self._replies.send(methods.BasicGetEmpty())
            return
        exchange, key, properties, fragments = queue.popleft()
        got = methods.BasicGetOk(next(self._tags), False, exchange, key, len(queue))
        self._replies.send_content(methods.encode(got), properties, fragments)
