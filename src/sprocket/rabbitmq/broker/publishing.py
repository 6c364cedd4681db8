"""What a client publishes: whether it may, what becomes of its properties, and which queues get it.

Source: `rabbit_channel:handle_method(#'basic.publish'{})`, `rabbit_basic`; docs/formats/amqp.md.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from sprocket.rabbitmq.broker.access import Access
from sprocket.rabbitmq.broker.channels import REPLY_TO, DirectReplies, MessageTaker, Publication
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.topology import EXPIRY_MS_MAX, Headers, VhostTopology, no_headers
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
ROUTES_MAX: Final = 1024
"""Methods whose routes are remembered for each publisher; then it begins anew."""


class KnownRoute(Struct, frozen=True, gc=False, eq=False):
    """Where messages go that are published by one method, whatever their headers are."""

    method: methods.BasicPublish
    keys: tuple[str, ...]
    queues: tuple[MessageTaker, ...]
    reply_key: str | None
    """Whose reply it is, if it goes to a channel."""
    counts: ExchangeCounts
    """Of the exchange."""


class Publisher:
    """The publisher.

    Args:
        user: Its user.
        access: What they may do.
    """

    __slots__ = ("access", "made_at", "routes", "user")

    def __init__(self, user: User, access: Access) -> None:
        self.user = user
        self.access = access
        self.routes: dict[int, KnownRoute] = {}
        """What is remembered for them, by the identity of the method that a route has."""
        self.made_at = (-1, -1)
        """After which changes of topology and permissions that was found."""


class _Group:
    """Messages that were published together, go the same way, and have the same priority."""

    __slots__ = ("messages", "positions", "priority", "route")

    def __init__(self, route: KnownRoute, priority: int) -> None:
        self.route = route
        self.priority = priority
        self.messages: list[BasicMessage] = []
        self.positions: list[int] = []

    def publication(self) -> Publication:
        route, count = self.route, len(self.messages)
        route.counts.published_in += count
        route.counts.published_out += count * len(route.queues)
        return Publication(
            self.messages,
            self.positions,
            route.queues,
            self.priority,
            is_mandatory=route.method.mandatory,
            reply_key=route.reply_key,
        )


class _Groups:
    """Groups that lead to different queues, so that the order among them does not matter."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], _Group] = {}
        self._taken: set[MessageTaker | None] = set()

    def of(self, route: KnownRoute, priority: int) -> _Group | None:
        """Return the group of a route; None if what there is must go before it."""
        found = self._groups.get((id(route), priority))
        if found is None:
            queues = route.queues or (None,)  # what comes back comes in order, too
            if not self._taken.isdisjoint(queues):
                return None
            self._taken.update(queues)
            found = self._groups[id(route), priority] = _Group(route, priority)
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
        found: dict[int, _Group] = {}
        """Of messages with this envelope, by the identity of their method."""
        is_persistent = False
        try:
            for position, one in enumerate(sent):
                method = one.method
                if one.envelope is not envelope:
                    envelope, found = one.envelope, {}
                    is_persistent = envelope.delivery_mode == _PERSISTENT
                group = found.get(id(method))
                if group is None:
                    route = self._route(method, envelope, publisher)
                    if route is None:
                        yield from groups.take()
                        found = {}
                        yield self._special(one, position, ids[position], publisher, reply_key)
                        continue
                    priority = envelope.priority or 0
                    group = groups.of(route, priority)
                    if group is None:
                        yield from groups.take()
                        found = {}
                        group = groups.of(route, priority)
                        assert group is not None, "a group with none before it"
                    found[id(method)] = group
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

    def _route(
        self, method: methods.BasicPublish, envelope: Envelope, publisher: Publisher
    ) -> KnownRoute | None:
        """Return where a message goes; None if more of it is to be looked at.

        Raises:
            RequestRefused: It may not be published.
        """
        headers = envelope.headers
        if (
            envelope.expiration is not None
            or envelope.user_id is not None
            or envelope.reply_to == REPLY_TO
            or envelope.delivery_mode not in _MODES
            or (headers is not None and b"CC" in headers)  # and perhaps BCC
        ):
            return None
        made_at = (self._topology.changes, publisher.access.changes)
        if publisher.made_at != made_at or len(publisher.routes) >= ROUTES_MAX:
            publisher.routes.clear()
            publisher.made_at = made_at
        known = publisher.routes.get(id(method))
        if known is not None:
            return known
        self._check(method, publisher)
        keys = (method.routing_key,)
        is_asked = False
        queues: tuple[MessageTaker, ...]
        reply_key: str | None

        def look() -> FieldTable:
            nonlocal is_asked
            is_asked = True
            return NO_FIELDS if headers is None else _decoded(headers)

        if self._is_reply(method):
            queues, reply_key = (), method.routing_key
        else:
            queues, reply_key = tuple(self._find_queues(method.exchange, keys, look)), None
        if is_asked:
            return None
        counts = self._topology.exchange_counts(method.exchange)
        found = KnownRoute(method, keys, queues, reply_key, counts)
        publisher.routes[id(method)] = found
        return found

    def _check(self, method: methods.BasicPublish, publisher: Publisher) -> None:
        if method.immediate:
            raise RequestRefused(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        self._topology.check_publish(method.exchange, method.routing_key, publisher.access)

    def _is_reply(self, method: methods.BasicPublish) -> bool:
        return method.exchange == DEFAULT_EXCHANGE and self._replies.is_key(method.routing_key)

    def _special(
        self,
        sent: SentMessage,
        position: int,
        message_id: bytes,
        publisher: Publisher,
        reply_key: Callable[[], str],
    ) -> Publication:
        """Return what is to be put into queues for one message, at all of which is looked."""
        method, envelope = sent.method, sent.envelope
        exchange, key = method.exchange, method.routing_key
        self._check(method, publisher)
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
        keys: tuple[str, ...] = (key,)
        headers: Headers = no_headers
        table = envelope.headers
        if table is not None:
            headers = partial(_decoded, table)
            if b"CC" in table:  # and perhaps BCC
                decoded = headers()
                keys += _copies(decoded, COPIES) + _copies(decoded, BLIND_COPIES)
                if decoded.get(BLIND_COPIES) is not None:
                    octets = _without_blind_copies(octets)
        message = BasicMessage(
            message_id,
            self._vhost,
            exchange,
            keys,
            octets,
            sent.fragments,
            envelope.delivery_mode == _PERSISTENT,
        )
        counts = self._topology.exchange_counts(exchange)
        counts.published_in += 1
        if self._is_reply(method):
            return Publication(
                (message,), (position,), is_mandatory=method.mandatory, reply_key=key
            )
        queues = self._find_queues(exchange, keys, headers)
        # An exchange that keeps it for a while is not counted, and neither is what follows.
        counts.published_out += sum([isinstance(one, BrokerQueue) for one in queues])
        return Publication(
            (message,),
            (position,),
            queues,
            envelope.priority or 0,
            expiration_ms,
            method.mandatory,
        )


def _decoded(table: bytes) -> FieldTable:
    return tables.decode_table(table, 0, len(table))


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
