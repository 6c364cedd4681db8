"""What a client publishes: whether it may, what becomes of its properties, and which queues get it.

Source: `rabbit_channel:handle_method(#'basic.publish'{})`, `rabbit_basic`; docs/formats/amqp.md.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from sprocket.rabbitmq.broker.access import Access
from sprocket.rabbitmq.broker.channels import REPLY_TO, DirectReplies, Publication
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.topology import EXPIRY_MS_MAX, Headers, VhostTopology, no_headers
from sprocket.rabbitmq.codec.amqp import Envelope, properties, tables
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

FindQueues = Callable[[str, Sequence[str], Headers], Sequence[BrokerQueue]]
"""Gives the queues for an exchange that is there, keys and headers."""


class Publisher(Struct, frozen=True):
    """Who publishes."""

    user: User
    access: Access


class Submission(Struct, frozen=True):
    """What they publish, as it came."""

    exchange: str
    routing_key: str
    is_mandatory: bool
    properties: bytes
    envelope: Envelope
    fragments: tuple[bytes, ...]


class Publishing:
    """Takes submissions to one virtual host.

    Args:
        topology: Its exchanges.
        find_queues: Gives the queues that a message gets into.
        replies: Who waits for replies there.
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
        self._new_id = ids.next
        self._vhost = topology.vhost.name

    def publication(
        self, given: Submission, publisher: Publisher, reply_key: Callable[[], str]
    ) -> Publication:
        """Return what is to be put into queues.

        Args:
            given: What came.
            publisher: From whom.
            reply_key: Gives what stands for their channel where replies are asked for, or raises
                RequestRefused.

        Raises:
            RequestRefused: It may not be, or something in it is wrong.
        """
        exchange, key, envelope = given.exchange, given.routing_key, given.envelope
        self._topology.check_publish(exchange, key, publisher.access)
        octets: bytes | BasicProperties = given.properties
        if envelope.reply_to == REPLY_TO:
            known = properties.decode(given.properties)
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
            self._new_id(),
            self._vhost,
            exchange,
            keys,
            octets,
            given.fragments,
            envelope.delivery_mode == _PERSISTENT,
        )
        if exchange == DEFAULT_EXCHANGE and self._replies.is_key(key):
            return Publication(message, (), is_mandatory=given.is_mandatory, reply_key=key)
        return Publication(
            message,
            self._find_queues(exchange, keys, headers),
            envelope.priority or 0,
            expiration_ms,
            given.is_mandatory,
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
