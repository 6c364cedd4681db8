"""What a client publishes: whether it may, what becomes of its properties, and which queues get it.

Source: `rabbit_channel:handle_method(#'basic.publish'{})`, `rabbit_basic`; docs/formats/amqp.md.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from sprocket.rabbitmq.broker.access import Access
from sprocket.rabbitmq.broker.channels import REPLY_TO, DirectReplies, MessageTaker, Publication
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.topology import EXPIRY_MS_MAX, Headers, VhostTopology
from sprocket.rabbitmq.codec.amqp import (
    Envelope,
    ReplyCode,
    SentMessage,
    methods,
    properties,
    tables,
)
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.counts import ExchangeCounts
from sprocket.rabbitmq.model.exchange import DEFAULT_EXCHANGE
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldKind, FieldTable
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import name_text
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.model.user import IMPERSONATOR, User

COPIES: Final = "CC"
BLIND_COPIES: Final = "BCC"
_PERSISTENT = 2
_MODES = (None, 1, _PERSISTENT)
_NUMBER = re.compile(r"([+-]?[0-9]+)(.*)", re.DOTALL)

FindQueues = Callable[[str, Sequence[str], Headers], Sequence[MessageTaker]]
"""Gives the queues for an exchange that is there, keys and headers."""
ROUTES_MAX: Final = 16_384
"""Routes that a virtual host remembers; then it begins anew. A client that never uses a key twice
costs 6 MB."""


class KnownRoute(Struct, frozen=True, gc=False, eq=False):
    """Where messages go that are published by one method.

    It is remembered unless headers have a say in it: 0.3 µs, where to check and to look takes 2 to
    5 µs (docs/decisions/0038-fast-ways.md).
    """

    keys: tuple[str, ...]
    queues: tuple[MessageTaker, ...]
    reply_key: str | None
    """Whose reply it is, if it goes to a channel."""
    queue_count: int
    """How many of those that get them are queues: what an exchange keeps goes out later."""
    is_mandatory: bool
    counts: ExchangeCounts
    """Of the exchange."""
    allowed_at: int
    """After which change of permissions it was found that this may be published."""

    def count(self, messages: int) -> None:
        """Count messages that go this way."""
        self.counts.published_in += messages
        self.counts.published_out += messages * self.queue_count


class Publisher(NamedTuple):
    """Who publishes: a user, and what they may do."""

    user: User
    access: Access


class _Group:
    """Messages that were published together, go the same way, and have the same priority."""

    __slots__ = ("messages", "positions", "priority", "route")

    def __init__(self, route: KnownRoute, priority: int) -> None:
        self.route = route
        self.priority = priority
        self.messages: list[BasicMessage] = []
        self.positions: list[int] = []

    def publication(self) -> Publication:
        route = self.route
        route.count(len(self.messages))
        return Publication(
            self.messages,
            self.positions,
            route.queues,
            self.priority,
            is_mandatory=route.is_mandatory,
            reply_key=route.reply_key,
        )


class _Groups:
    """Groups that lead to different queues, so that the order among them does not matter."""

    def __init__(self) -> None:
        self._groups: dict[tuple[KnownRoute, int], _Group] = {}
        self._taken: set[MessageTaker | None] = set()

    def of(self, route: KnownRoute, priority: int) -> _Group | None:
        """Return the group of a route; None if what there is must go before it."""
        found = self._groups.get((route, priority))
        if found is None:
            queues = route.queues or (None,)  # what comes back comes in order, too
            if not self._taken.isdisjoint(queues):
                return None
            self._taken.update(queues)
            found = self._groups[route, priority] = _Group(route, priority)
        return found

    def take(self) -> list[Publication]:
        """Return what there is, and begin anew."""
        found = [one.publication() for one in self._groups.values()]
        self._groups = {}
        self._taken = set()
        return found


class Publishing:
    """Takes what is published in one virtual host.

    Args:
        topology: Its exchanges.
        find_queues: Gives the queues that a message gets into.
        replies: The consumers that wait for replies there.
        ids: Of messages.

    Threads: event loop only.
    """

    def __init__(
        self,
        topology: VhostTopology,
        find_queues: FindQueues,
        replies: DirectReplies,
        ids: MessageIds,
    ) -> None:
        self._topology = topology
        self._find_queues = find_queues
        self._replies = replies
        self._ids = ids
        self._vhost = topology.vhost.name
        self._routes: dict[tuple[Access, methods.BasicPublish], KnownRoute] = {}
        self._routed_at = 0
        """After which change of topology that was found."""

    def publications(
        self, sent: Sequence[SentMessage], publisher: Publisher, reply_key: Callable[[], str]
    ) -> Iterator[Publication]:
        """Yield what is to be put into queues; messages that are alike are one publication.

        Each queue gets its messages in the order in which they were sent.

        Args:
            sent: What came together.
            publisher: From whom.
            reply_key: Gives what stands for their channel where replies are asked for, or raises
                RequestRefused.

        Raises:
            RequestRefused: One may not be, or something in it is wrong. Those before it were
                yielded, those after it are not.
        """
        groups = _Groups()
        vhost, ids = self._vhost, self._ids.take(len(sent))
        envelope = None
        found: dict[methods.BasicPublish, _Group] = {}
        """Of messages with this envelope."""
        is_persistent = False
        try:
            for position, one in enumerate(sent):
                method = one.method
                if one.envelope is not envelope:
                    envelope, found = one.envelope, {}
                    is_persistent = envelope.delivery_mode == _PERSISTENT
                group = found.get(method)
                if group is None:
                    if _is_special(envelope):
                        yield from groups.take()
                        found = {}
                        yield self._special(one, position, ids[position], publisher, reply_key)
                        continue
                    route = self._known(method, publisher)
                    if route is None:
                        route = self._find(method, (), envelope.headers, publisher.access)
                    priority = envelope.priority or 0
                    group = groups.of(route, priority)
                    if group is None:
                        yield from groups.take()
                        found = {}
                        group = groups.of(route, priority)
                        assert group is not None, "a group with none before it"
                    found[method] = group
                group.positions.append(position)
                group.messages.append(
                    BasicMessage(
                        ids[position],
                        vhost,
                        method.exchange,
                        group.route.keys,
                        one.properties,
                        one.fragments,
                        is_persistent,
                    )
                )
        except RequestRefused:
            yield from groups.take()
            raise
        yield from groups.take()

    def _known(self, method: methods.BasicPublish, publisher: Publisher) -> KnownRoute | None:
        """Return what is remembered of a method's route; None if it has to be found.

        Raises:
            RequestRefused: It may not be published.
        """
        access = publisher.access
        if self._routed_at != self._topology.changes:
            self._routes.clear()
            self._routed_at = self._topology.changes
        known = self._routes.get((access, method))
        if known is not None and known.allowed_at == access.changes:
            return known
        if method.immediate:
            raise RequestRefused(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        self._topology.check_publish(method.exchange, method.routing_key, access)
        return None

    def _find(
        self,
        method: methods.BasicPublish,
        copies: tuple[str, ...],
        headers: bytes | None,
        access: Access,
    ) -> KnownRoute:
        """Find where a message goes, and remember it if others with its method go the same way."""
        exchange, key = method.exchange, method.routing_key
        keys = (key, *copies)
        is_asked = False
        queues: Sequence[MessageTaker] = ()
        reply_key = None

        def look() -> FieldTable:
            nonlocal is_asked
            is_asked = True
            return NO_FIELDS if headers is None else tables.decode_table(headers, 0, len(headers))

        if exchange == DEFAULT_EXCHANGE and self._replies.is_key(key):
            reply_key = key
        else:
            queues = self._find_queues(exchange, keys, look)
        found = KnownRoute(
            keys,
            tuple(queues),
            reply_key,
            sum([isinstance(one, BrokerQueue) for one in queues]),
            method.mandatory,
            self._topology.exchange_counts(exchange),
            access.changes,
        )
        if not (is_asked or copies):
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[access, method] = found
        return found

    def _special(
        self,
        sent: SentMessage,
        position: int,
        message_id: bytes,
        publisher: Publisher,
        reply_key: Callable[[], str],
    ) -> Publication:
        """Return what is to be put into queues for one message that asks for more than that."""
        method, envelope = sent.method, sent.envelope
        route = self._known(method, publisher)
        octets: bytes | BasicProperties = sent.properties
        if envelope.reply_to == REPLY_TO:
            known = properties.decode(sent.properties)
            octets = msgspec.structs.replace(known, reply_to=reply_key())
        if envelope.user_id is not None:
            _check_user(envelope.user_id, publisher.user)
        expiration_ms = None
        if envelope.expiration is not None:
            expiration_ms = _expiration_ms(envelope.expiration)
        if envelope.delivery_mode not in _MODES:
            raise precondition_failed(
                f"invalid message: {{delivery_mode_unknown,{envelope.delivery_mode}}}"
            )
        copies: tuple[str, ...] = ()
        headers = envelope.headers
        if headers is not None and b"CC" in headers:  # and perhaps BCC
            decoded = tables.decode_table(headers, 0, len(headers))
            copies = _copies(decoded, COPIES) + _copies(decoded, BLIND_COPIES)
            if decoded.get(BLIND_COPIES) is not None:
                octets = _without_blind_copies(octets)
        if route is None or copies:
            route = self._find(method, copies, headers, publisher.access)
        route.count(1)
        message = BasicMessage(
            message_id,
            self._vhost,
            method.exchange,
            route.keys,
            octets,
            sent.fragments,
            envelope.delivery_mode == _PERSISTENT,
        )
        return Publication(
            (message,),
            (position,),
            route.queues,
            envelope.priority or 0,
            expiration_ms,
            route.is_mandatory,
            route.reply_key,
        )


def _is_special(envelope: Envelope) -> bool:
    """Whether more of a message is to be looked at than where it goes."""
    headers = envelope.headers
    return (
        envelope.expiration is not None
        or envelope.user_id is not None
        or envelope.reply_to == REPLY_TO
        or envelope.delivery_mode not in _MODES
        or (headers is not None and b"CC" in headers)  # and perhaps BCC
    )


def _check_user(named: str, user: User) -> None:
    if named != user.name and IMPERSONATOR not in user.tags:
        raise precondition_failed(
            f"user_id property set to '{named}' but authenticated user was '{user.name}'"
        )


def _expiration_ms(text: str) -> int:
    """Return what the property says, which is a number as Erlang reads one."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise _invalid_expiration(text, "no_integer")
    number, rest = int(found[1]), found[2]
    if rest:
        raise _invalid_expiration(text, f'{{leftover_string,"{rest}"}}')
    if number < 0:
        raise _invalid_expiration(text, f"{{value_negative,{number}}}")
    if number > EXPIRY_MS_MAX:
        raise _invalid_expiration(text, f"{{value_too_large,{number}}}")
    return number


def _invalid_expiration(text: str, why: str) -> Exception:
    return precondition_failed(f"invalid expiration '{text}': {why}")


def _copies(headers: FieldTable, name: str) -> tuple[str, ...]:
    """Return the keys that a header names."""
    found = headers.get(name)
    if found is None:
        return ()
    if found.kind is not FieldKind.ARRAY or not isinstance(found.value, tuple):
        raise precondition_failed(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{found.kind.word}}}'
        )
    return tuple(
        name_text(one.value)
        for one in found.value
        if one.kind is FieldKind.LONG_STRING and isinstance(one.value, bytes)
    )


def _without_blind_copies(octets: bytes | BasicProperties) -> BasicProperties:
    known = properties.decode(octets) if isinstance(octets, bytes) else octets
    headers = known.headers or NO_FIELDS
    left = FieldTable(tuple(one for one in headers if one[0] != BLIND_COPIES))
    return msgspec.structs.replace(known, headers=left)
