"""Answers of which a busy broker gives thousands: to sends and acknowledgements that went well.

The bytes are those that protobuf makes of the same answers; a test compares the two.

    field   number · 8 + 2, its size, its bytes; of a plain number: number · 8, the number
    number  seven bits a byte, the lowest first; all but the last byte have their highest bit set

Source: Protocol Buffers, "Encoding".
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sprocket.rocketmq.codec.grpc.messages import AckMessageResponse, SendMessageResponse, Status
from sprocket.rocketmq.codec.grpc.schema import MESSAGES
from sprocket.rocketmq.codec.grpc.status import Code

_STATUS: Final = Status(code=Code.OK, message=Code.OK.name)
_SIZED, _NUMBER = 2, 0
_SMALL: Final = [bytes((value,)) for value in range(128)]
_LOW: Final = [bytes((value | 128,)) for value in range(128)]
"""The first byte of a number that has more of them."""
PLACES_REMEMBERED: Final = 1_024
"""Queues that are sent to at the same time, as it were."""
SIZES_REMEMBERED: Final = 256
"""Each client gives all its messages ids of one size."""


def _tag(message: str, field: str, kind: int) -> bytes:
    """Return what a field of a message begins with."""
    (number,) = [one.number for one in MESSAGES[message] if one.name == field]
    return _SMALL[number << 3 | kind]


def _number(value: int) -> bytes:
    """Return a number that is not negative."""
    if value < 128:
        return _SMALL[value]
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _text(tag: bytes, text: str) -> bytes:
    """Return a field; nothing if it is empty."""
    data = text.encode()
    return tag + _number(len(data)) + data if data else b""


_SENT: Final = SendMessageResponse(status=_STATUS).SerializeToString()
_ACKNOWLEDGED: Final = AckMessageResponse(status=_STATUS).SerializeToString()
_OK: Final = _number(_STATUS.ByteSize()) + _STATUS.SerializeToString()
_SENT_ENTRY: Final = _tag("SendMessageResponse", "entries", _SIZED)
_SENT_OK: Final = _tag("SendResultEntry", "status", _SIZED) + _OK
_SENT_ID: Final = _tag("SendResultEntry", "message_id", _SIZED)
_SENT_OFFSET: Final = _tag("SendResultEntry", "offset", _NUMBER)
_ACK_ENTRY: Final = _tag("AckMessageResponse", "entries", _SIZED)
_ACK_ID: Final = _tag("AckMessageResultEntry", "message_id", _SIZED)
_ACK_HANDLE: Final = _tag("AckMessageResultEntry", "receipt_handle", _SIZED)
_ACK_OK: Final = _tag("AckMessageResultEntry", "status", _SIZED) + _OK


def sent(message_id: str, offset: int) -> bytes:
    """Return the answer to a send of one message that is stored.

    Args:
        message_id: The id that its producer gave it.
        offset: Its place in its queue.
    """
    data = message_id.encode()
    if offset < 128:
        place = _SENT_OFFSET + _SMALL[offset] if offset else b""
    else:
        place = _SENT_OFFSET + _LOW[offset & 127] + _high(offset >> 7)
    return b"%b%b%b" % (_before_id(len(data), len(place)), data, place)


@lru_cache(PLACES_REMEMBERED)
def _high(value: int) -> bytes:
    """Return all of an offset but its lowest part; a hundred places in a queue share it."""
    return _number(value)


@lru_cache(SIZES_REMEMBERED)
def _before_id(id_bytes: int, place_bytes: int) -> bytes:
    """Return what comes before the id in the answer to a send, by the sizes of what follows."""
    said = _SENT_OK + (_SENT_ID + _number(id_bytes) if id_bytes else b"")
    return _SENT + _SENT_ENTRY + _number(len(said) + id_bytes + place_bytes) + said


def acknowledged(messages: Iterable[tuple[str, str]]) -> bytes:
    """Return the answer to an acknowledgement of messages, of which each is settled.

    Args:
        messages: Their ids and their handles, as the client gave them.
    """
    parts = [_ACKNOWLEDGED]
    for message_id, handle in messages:
        entry = _text(_ACK_ID, message_id) + _text(_ACK_HANDLE, handle) + _ACK_OK
        parts += (_ACK_ENTRY, _number(len(entry)), entry)
    return b"".join(parts)
