"""Every method of AMQP 0-9-1, declared once: what reads and what writes it follows from that.

    method = class method *argument   ; uint16 each, then the arguments as declared

A class below is a method, its fields are the arguments in the order of the wire. Bits that follow
each other share an octet, the first one lowest.

Source: `rabbit_framing_amqp_0_9_1`; docs/formats/amqp.md.
"""

import struct
from collections.abc import Callable, Iterator
from itertools import groupby
from struct import Struct
from typing import Annotated, Final, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from sprocket.rabbitmq.codec.amqp.reply_codes import AmqpError, ReplyCode, numbers_text
from sprocket.rabbitmq.codec.amqp.tables import (
    UINT32,
    UINT64,
    decode_table,
    encode_short_string,
    encode_table,
)
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable

Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
Bit = Annotated[bool, "bit"]
ShortString = Annotated[str, "shortstr"]
LongString = Annotated[bytes, "longstr"]
Table = Annotated[FieldTable, "table"]

CLIENT: Final = 1
SERVER: Final = 2
"""Who may send a method; `CLIENT | SERVER` is both."""

Argument = int | bool | str | bytes | FieldTable


class AmqpMethod(msgspec.Struct, frozen=True):
    """What every method is derived from."""


M = TypeVar("M", bound=AmqpMethod)


class MethodLayout(msgspec.Struct, frozen=True):
    """What is known of a method beside its arguments."""

    kind: type[AmqpMethod]
    class_id: int
    method_id: int
    senders: int
    has_content: bool
    """Whether a content header and perhaps a body follow it."""
    name: str
    """As in errors, `queue.declare`."""
    decode_arguments: Callable[[bytes, int, int], AmqpMethod]
    encode_arguments: Callable[[AmqpMethod], bytes]
    head: bytes
    """Class and method, as on the wire."""

    @property
    def id(self) -> tuple[int, int]:
        """Class and method."""
        return self.class_id, self.method_id


_HEAD = Struct(">HH")
_BY_HEAD: dict[bytes, MethodLayout] = {}
_BY_KIND: dict[type[AmqpMethod], MethodLayout] = {}


def layouts() -> list[MethodLayout]:
    """Return every method that there is."""
    return list(_BY_KIND.values())


def layout_of(method: AmqpMethod) -> MethodLayout:
    """Return what is known of a method."""
    return _BY_KIND[type(method)]


def head_of(kind: type[AmqpMethod]) -> bytes:
    """Return class and method, as they stand at the head of a payload."""
    return _BY_KIND[kind].head


def find(payload: bytes, start: int) -> MethodLayout | None:
    """Return the method that begins at a position, None if there is no such one."""
    return _BY_HEAD.get(payload[start : start + _HEAD.size])


def decode(payload: bytes, start: int, end: int) -> AmqpMethod:
    """Return the method that a frame's payload, `payload[start:end]`, is.

    Raises:
        AmqpError: It is not a method, or its arguments cannot be.
    """
    layout = find(payload, start)
    if layout is None:
        raise AmqpError(
            ReplyCode.COMMAND_INVALID, "unimplemented method", _HEAD.unpack_from(payload, start)
        )
    start += _HEAD.size
    try:
        return layout.decode_arguments(payload, start, end)
    except (struct.error, IndexError, _Uneven):
        why = f"cannot decode {numbers_text(payload[start:end][:128])}"
        raise AmqpError(ReplyCode.FRAME_ERROR, why, layout.id) from None
    except UnicodeDecodeError:
        raise AmqpError(ReplyCode.FRAME_ERROR, "Malformed UTF-8 in shortstr") from None
    except AmqpError as error:
        raise AmqpError(error.code, error.explanation, layout.id) from None


def encode(method: AmqpMethod) -> bytes:
    """Return a method as a frame's payload."""
    layout = _BY_KIND[type(method)]
    return layout.head + layout.encode_arguments(method)


class _Uneven(Exception):
    """Arguments end before or after their frame."""


Read = Callable[[bytes, int, int], tuple[Argument, int]]
Write = Callable[[Argument], bytes]


def _fixed(form: Struct) -> tuple[Read, Write]:
    def read(data: bytes, at: int, _end: int) -> tuple[Argument, int]:
        return form.unpack_from(data, at)[0], at + form.size

    return read, form.pack


def _read_short_string(data: bytes, at: int, end: int) -> tuple[Argument, int]:
    start = at + 1
    final = start + data[at]
    if final > end:
        raise _Uneven
    return data[start:final].decode(), final


def _write_short_string(value: Argument) -> bytes:
    assert isinstance(value, str)
    return encode_short_string(value)


def _read_long_string(data: bytes, at: int, end: int) -> tuple[Argument, int]:
    start, final = _extent(data, at, end)
    return data[start:final], final


def _write_long_string(value: Argument) -> bytes:
    assert isinstance(value, bytes)
    return UINT32.pack(len(value)) + value


def _read_table(data: bytes, at: int, end: int) -> tuple[Argument, int]:
    start, final = _extent(data, at, end)
    return (decode_table(data, start, final) if start < final else NO_FIELDS), final


def _write_table(value: Argument) -> bytes:
    assert isinstance(value, FieldTable)
    return encode_table(value)


def _extent(data: bytes, at: int, end: int) -> tuple[int, int]:
    start = at + UINT32.size
    final = start + int(UINT32.unpack_from(data, at)[0])
    if final > end:
        raise _Uneven
    return start, final


_FORMS: dict[str, tuple[Read, Write]] = {
    "octet": _fixed(Struct(">B")),
    "short": _fixed(Struct(">H")),
    "long": _fixed(UINT32),
    "longlong": _fixed(UINT64),
    "shortstr": (_read_short_string, _write_short_string),
    "longstr": (_read_long_string, _write_long_string),
    "table": (_read_table, _write_table),
}


def _method(
    class_id: int, method_id: int, senders: int, *, has_content: bool = False
) -> Callable[[type[M]], type[M]]:
    """Enter a declaration into the tables."""

    def enter(kind: type[M]) -> type[M]:
        parts = list(_parts(kind))
        head = _HEAD.pack(class_id, method_id)
        layout = MethodLayout(
            kind=kind,
            class_id=class_id,
            method_id=method_id,
            senders=senders,
            has_content=has_content,
            name=_name(kind.__name__),
            decode_arguments=_decoder(kind, parts),
            encode_arguments=_encoder(parts),
            head=head,
        )
        assert head not in _BY_HEAD, f"two methods are {class_id}.{method_id}"
        _BY_HEAD[head] = _BY_KIND[kind] = layout
        return kind

    return enter


def _name(kind: str) -> str:
    """Return `queue.declare-ok` for `QueueDeclareOk`."""
    words = "".join(f" {sign.lower()}" if sign.isupper() else sign for sign in kind).split()
    return f"{words[0]}.{'-'.join(words[1:])}"


_Part = tuple[str, tuple[str, ...]]
"""A form, and the arguments that it is for: one, or several bits."""


def _parts(kind: type[AmqpMethod]) -> Iterator[_Part]:
    hints = get_type_hints(kind, include_extras=True)
    declared = [(name, _form(hint)) for name, hint in hints.items()]
    for form, members in groupby(declared, key=lambda one: one[1]):
        names = tuple(name for name, _ in members)
        if form == "bit":
            yield form, names
        else:
            yield from ((form, (name,)) for name in names)


def _form(hint: object) -> str:
    assert get_origin(hint) is Annotated, f"{hint} is not a type of the wire"
    return str(get_args(hint)[1])


def _decoder(kind: type[M], parts: list[_Part]) -> Callable[[bytes, int, int], M]:
    steps = [(_FORMS[form][0] if form != "bit" else None, len(names)) for form, names in parts]

    def decode_arguments(data: bytes, at: int, end: int) -> M:
        values: list[Argument] = []
        for read, count in steps:
            if read is None:
                octet = data[at]
                at += 1
                values += [octet & 1 << place != 0 for place in range(count)]
            else:
                value, at = read(data, at, end)
                values.append(value)
        if at != end:
            raise _Uneven
        return kind(*values)

    return decode_arguments


def _encoder(parts: list[_Part]) -> Callable[[AmqpMethod], bytes]:
    steps = [(_FORMS[form][1] if form != "bit" else None, names) for form, names in parts]

    def encode_arguments(method: AmqpMethod) -> bytes:
        octets = []
        for write, names in steps:
            if write is None:
                bits = sum(getattr(method, name) << place for place, name in enumerate(names))
                octets.append(bytes((bits,)))
            else:
                octets.append(write(getattr(method, names[0])))
        return b"".join(octets)

    return encode_arguments


@_method(10, 10, SERVER)
class ConnectionStart(AmqpMethod, frozen=True):
    """The server says who it is and how one may log in."""

    version_major: Octet
    version_minor: Octet
    server_properties: Table
    mechanisms: LongString
    """Names, with a space between them."""
    locales: LongString


@_method(10, 11, CLIENT)
class ConnectionStartOk(AmqpMethod, frozen=True):
    """The client says who it is, and logs in."""

    client_properties: Table
    mechanism: ShortString
    response: LongString
    locale: ShortString


@_method(10, 20, SERVER)
class ConnectionSecure(AmqpMethod, frozen=True):
    """A mechanism asks the client for more."""

    challenge: LongString


@_method(10, 21, CLIENT)
class ConnectionSecureOk(AmqpMethod, frozen=True):
    """The client's answer to the mechanism."""

    response: LongString


@_method(10, 30, SERVER)
class ConnectionTune(AmqpMethod, frozen=True):
    """What the server allows; 0 means no limit."""

    channel_max: Short
    frame_max: Long
    """Octets of a frame, all of it."""
    heartbeat: Short
    """Seconds."""


@_method(10, 31, CLIENT)
class ConnectionTuneOk(AmqpMethod, frozen=True):
    """What the client has chosen."""

    channel_max: Short
    frame_max: Long
    heartbeat: Short


@_method(10, 40, CLIENT)
class ConnectionOpen(AmqpMethod, frozen=True):
    """The client enters a virtual host."""

    virtual_host: ShortString
    capabilities: ShortString = ""
    insist: Bit = False


@_method(10, 41, SERVER)
class ConnectionOpenOk(AmqpMethod, frozen=True):
    """The client has entered it."""

    known_hosts: ShortString = ""


@_method(10, 50, CLIENT | SERVER)
class ConnectionClose(AmqpMethod, frozen=True):
    """Either side ends the connection; after this it takes nothing but the answer."""

    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


@_method(10, 51, CLIENT | SERVER)
class ConnectionCloseOk(AmqpMethod, frozen=True):
    """The connection is closed."""


@_method(10, 60, SERVER)
class ConnectionBlocked(AmqpMethod, frozen=True):
    """The server does not read from the client for now."""

    reason: ShortString


@_method(10, 61, SERVER)
class ConnectionUnblocked(AmqpMethod, frozen=True):
    """The server reads from the client again."""


@_method(10, 70, CLIENT)
class ConnectionUpdateSecret(AmqpMethod, frozen=True):
    """The client logs in again, with a token that is valid for longer."""

    new_secret: LongString
    reason: ShortString


@_method(10, 71, SERVER)
class ConnectionUpdateSecretOk(AmqpMethod, frozen=True):
    """The token is accepted."""


@_method(20, 10, CLIENT)
class ChannelOpen(AmqpMethod, frozen=True):
    """The client opens a channel."""

    out_of_band: ShortString = ""


@_method(20, 11, SERVER)
class ChannelOpenOk(AmqpMethod, frozen=True):
    """The channel is open."""

    channel_id: LongString = b""


@_method(20, 20, CLIENT | SERVER)
class ChannelFlow(AmqpMethod, frozen=True):
    """Says whether one side wants content."""

    active: Bit


@_method(20, 21, CLIENT | SERVER)
class ChannelFlowOk(AmqpMethod, frozen=True):
    """The other side has noted it."""

    active: Bit


@_method(20, 40, CLIENT | SERVER)
class ChannelClose(AmqpMethod, frozen=True):
    """Either side closes a channel; after this it takes nothing there but the answer."""

    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


@_method(20, 41, CLIENT | SERVER)
class ChannelCloseOk(AmqpMethod, frozen=True):
    """The channel is closed."""


@_method(30, 10, CLIENT)
class AccessRequest(AmqpMethod, frozen=True):
    """Ask for a ticket; tickets are obsolete."""

    realm: ShortString = ""
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


@_method(30, 11, SERVER)
class AccessRequestOk(AmqpMethod, frozen=True):
    """The ticket."""

    ticket: Short = 1


@_method(40, 10, CLIENT)
class ExchangeDeclare(AmqpMethod, frozen=True):
    """Declare an exchange, or ask whether there is one (`passive`)."""

    ticket: Short
    exchange: ShortString
    type: ShortString
    passive: Bit
    durable: Bit
    auto_delete: Bit
    internal: Bit
    nowait: Bit
    arguments: Table


@_method(40, 11, SERVER)
class ExchangeDeclareOk(AmqpMethod, frozen=True):
    """The exchange is there."""


@_method(40, 20, CLIENT)
class ExchangeDelete(AmqpMethod, frozen=True):
    """Remove an exchange."""

    ticket: Short
    exchange: ShortString
    if_unused: Bit
    nowait: Bit


@_method(40, 21, SERVER)
class ExchangeDeleteOk(AmqpMethod, frozen=True):
    """The exchange is removed."""


@_method(40, 30, CLIENT)
class ExchangeBind(AmqpMethod, frozen=True):
    """Bind an exchange to another, so that messages go from that to the first."""

    ticket: Short
    destination: ShortString
    source: ShortString
    routing_key: ShortString
    nowait: Bit
    arguments: Table


@_method(40, 31, SERVER)
class ExchangeBindOk(AmqpMethod, frozen=True):
    """The exchanges are bound."""


@_method(40, 40, CLIENT)
class ExchangeUnbind(AmqpMethod, frozen=True):
    """Remove a binding between exchanges."""

    ticket: Short
    destination: ShortString
    source: ShortString
    routing_key: ShortString
    nowait: Bit
    arguments: Table


@_method(40, 51, SERVER)
class ExchangeUnbindOk(AmqpMethod, frozen=True):
    """The binding is removed. Only here the number does not follow that of the question."""


@_method(50, 10, CLIENT)
class QueueDeclare(AmqpMethod, frozen=True):
    """Declare a queue, or ask whether there is one (`passive`)."""

    ticket: Short
    queue: ShortString
    passive: Bit
    durable: Bit
    exclusive: Bit
    auto_delete: Bit
    nowait: Bit
    arguments: Table


@_method(50, 11, SERVER)
class QueueDeclareOk(AmqpMethod, frozen=True):
    """The queue is there."""

    queue: ShortString
    message_count: Long
    consumer_count: Long


@_method(50, 20, CLIENT)
class QueueBind(AmqpMethod, frozen=True):
    """Bind a queue to an exchange, so that messages go from that to the queue."""

    ticket: Short
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString
    nowait: Bit
    arguments: Table


@_method(50, 21, SERVER)
class QueueBindOk(AmqpMethod, frozen=True):
    """The queue is bound."""


@_method(50, 30, CLIENT)
class QueuePurge(AmqpMethod, frozen=True):
    """Drop what is ready in a queue."""

    ticket: Short
    queue: ShortString
    nowait: Bit


@_method(50, 31, SERVER)
class QueuePurgeOk(AmqpMethod, frozen=True):
    """How many messages were dropped."""

    message_count: Long


@_method(50, 40, CLIENT)
class QueueDelete(AmqpMethod, frozen=True):
    """Remove a queue."""

    ticket: Short
    queue: ShortString
    if_unused: Bit
    if_empty: Bit
    nowait: Bit


@_method(50, 41, SERVER)
class QueueDeleteOk(AmqpMethod, frozen=True):
    """The queue is removed, with this many messages."""

    message_count: Long


@_method(50, 50, CLIENT)
class QueueUnbind(AmqpMethod, frozen=True):
    """Remove a binding of a queue; there is always an answer."""

    ticket: Short
    queue: ShortString
    exchange: ShortString
    routing_key: ShortString
    arguments: Table


@_method(50, 51, SERVER)
class QueueUnbindOk(AmqpMethod, frozen=True):
    """The binding is removed."""


@_method(60, 10, CLIENT)
class BasicQos(AmqpMethod, frozen=True):
    """Limit what is delivered and not acknowledged."""

    prefetch_size: Long
    prefetch_count: Short
    is_global: Bit


@_method(60, 11, SERVER)
class BasicQosOk(AmqpMethod, frozen=True):
    """The limit holds."""


@_method(60, 20, CLIENT)
class BasicConsume(AmqpMethod, frozen=True):
    """Ask for the messages of a queue to be delivered."""

    ticket: Short
    queue: ShortString
    consumer_tag: ShortString
    no_local: Bit
    no_ack: Bit
    exclusive: Bit
    nowait: Bit
    arguments: Table


@_method(60, 21, SERVER)
class BasicConsumeOk(AmqpMethod, frozen=True):
    """The consumer is there."""

    consumer_tag: ShortString


@_method(60, 30, CLIENT | SERVER)
class BasicCancel(AmqpMethod, frozen=True):
    """End a consumer: its client asks for that, or its queue was removed."""

    consumer_tag: ShortString
    nowait: Bit


@_method(60, 31, CLIENT | SERVER)
class BasicCancelOk(AmqpMethod, frozen=True):
    """The consumer has ended."""

    consumer_tag: ShortString


@_method(60, 40, CLIENT, has_content=True)
class BasicPublish(AmqpMethod, frozen=True):
    """A message for an exchange."""

    ticket: Short
    exchange: ShortString
    routing_key: ShortString
    mandatory: Bit
    immediate: Bit


@_method(60, 50, SERVER, has_content=True)
class BasicReturn(AmqpMethod, frozen=True):
    """A message that no queue got, for its publisher."""

    reply_code: Short
    reply_text: ShortString
    exchange: ShortString
    routing_key: ShortString


@_method(60, 60, SERVER, has_content=True)
class BasicDeliver(AmqpMethod, frozen=True):
    """A message for a consumer."""

    consumer_tag: ShortString
    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString


@_method(60, 70, CLIENT)
class BasicGet(AmqpMethod, frozen=True):
    """Ask a queue for one message."""

    ticket: Short
    queue: ShortString
    no_ack: Bit


@_method(60, 71, SERVER, has_content=True)
class BasicGetOk(AmqpMethod, frozen=True):
    """The message that was asked for."""

    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString
    message_count: Long
    """How many are ready after it."""


@_method(60, 72, SERVER)
class BasicGetEmpty(AmqpMethod, frozen=True):
    """The queue has no message that is ready."""

    cluster_id: ShortString = ""


@_method(60, 80, CLIENT | SERVER)
class BasicAck(AmqpMethod, frozen=True):
    """Acknowledge: a consumer what was delivered, or the server what was published."""

    delivery_tag: LongLong
    multiple: Bit


@_method(60, 90, CLIENT)
class BasicReject(AmqpMethod, frozen=True):
    """Do not acknowledge one message."""

    delivery_tag: LongLong
    requeue: Bit


@_method(60, 100, CLIENT)
class BasicRecoverAsync(AmqpMethod, frozen=True):
    """Ask for all that is not acknowledged to be delivered again; there is no answer."""

    requeue: Bit


@_method(60, 110, CLIENT)
class BasicRecover(AmqpMethod, frozen=True):
    """Ask for all that is not acknowledged to be delivered again."""

    requeue: Bit


@_method(60, 111, SERVER)
class BasicRecoverOk(AmqpMethod, frozen=True):
    """They will be delivered again."""


@_method(60, 120, CLIENT | SERVER)
class BasicNack(AmqpMethod, frozen=True):
    """Do not acknowledge one message or many."""

    delivery_tag: LongLong
    multiple: Bit
    requeue: Bit


@_method(85, 10, CLIENT)
class ConfirmSelect(AmqpMethod, frozen=True):
    """Ask for a confirm of each message that is published."""

    nowait: Bit


@_method(85, 11, SERVER)
class ConfirmSelectOk(AmqpMethod, frozen=True):
    """There will be confirms."""


@_method(90, 10, CLIENT)
class TxSelect(AmqpMethod, frozen=True):
    """Begin a transaction."""


@_method(90, 11, SERVER)
class TxSelectOk(AmqpMethod, frozen=True):
    """The transaction has begun."""


@_method(90, 20, CLIENT)
class TxCommit(AmqpMethod, frozen=True):
    """Commit the transaction, and begin another."""


@_method(90, 21, SERVER)
class TxCommitOk(AmqpMethod, frozen=True):
    """The transaction is committed, and durable."""


@_method(90, 30, CLIENT)
class TxRollback(AmqpMethod, frozen=True):
    """Roll the transaction back, and begin another."""


@_method(90, 31, SERVER)
class TxRollbackOk(AmqpMethod, frozen=True):
    """The transaction is rolled back."""
