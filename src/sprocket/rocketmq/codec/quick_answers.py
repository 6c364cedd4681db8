"""The answers to stored and to found messages, which a busy broker writes by the ten thousand.

The bytes are those of `command.response`, filled into texts that are made once from the declared
headers; a test compares the two.
"""

from collections.abc import Mapping, Sequence

import msgspec

from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.frame import FRAME_BYTES_MAX, JSON, LENGTH_BYTES, PREFIX, Buffer
from sprocket.rocketmq.codec.headers import PullMessageAnswer, SendMessageAnswer

_FOUND = "FOUND"
_ONE, _TWO, _THREE, _OPAQUE = range(1_000_000_001, 1_000_000_005)
"""Stand for the numbers of a header, and for the opaque."""


def _form(header: Header, remark: str | None, marks: Mapping[bytes, bytes]) -> bytes:
    """Return the JSON of an answer, with a place to fill in for each mark."""
    frame = command.response(Command(code=0, opaque=_OPAQUE), 0, header, remark)
    text = b"".join(frame)[PREFIX.size :]
    for mark, place in marks.items():
        text = text.replace(mark, place)
    for number in (_ONE, _TWO, _THREE, _OPAQUE):
        text = text.replace(b"%d" % number, b"%d")
    return text


_STORED_FORM = _form(
    SendMessageAnswer(
        msg_id="@id@", queue_id=_ONE, queue_offset=_TWO, transaction_id="@transaction@"
    ),
    None,
    {b"@id@": b"%b%016X", b'"@transaction@"': b"%b"},
)
_FOUND_FORM = _form(
    PullMessageAnswer(next_begin_offset=_ONE, min_offset=_TWO, max_offset=_THREE), _FOUND, {}
)
_text = msgspec.json.Encoder().encode


def stored(
    opaque: int,
    host: bytes,
    physical_offset: int,
    queue_id: int,
    queue_offset: int,
    transaction_id: str,
) -> bytes:
    """Return the JSON frame that says where a message lies.

    Args:
        opaque: The request's.
        host: The broker's address in upper-case hex, as offset message ids begin; of a batch the
            ids of all but the last message and a comma come before it.
        physical_offset: Where in the log it lies, or the last one of the batch.
        queue_id: Its queue.
        queue_offset: Its place there, or the first one's.
        transaction_id: Its unique key.
    """
    header = _STORED_FORM % (
        host,
        physical_offset,
        queue_id,
        queue_offset,
        _text(transaction_id),
        opaque,
    )
    size = len(header)
    assert size <= FRAME_BYTES_MAX - PREFIX.size, f"a header of {size} bytes"
    return PREFIX.pack(size + 4, JSON << 24 | size) + header


def found(
    opaque: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    runs: Sequence[Buffer],
    size: int,
) -> list[Buffer]:
    """Return the buffers of the JSON frame that carries messages.

    Args:
        opaque: The request's.
        next_offset: Where to go on.
        min_offset: First offset of the queue that can be read.
        max_offset: Offset of the queue's next message.
        runs: Stored bytes, passed on without a copy.
        size: How many they are.
    """
    header = _FOUND_FORM % (next_offset, min_offset, max_offset, opaque)
    header_bytes = len(header)
    length = 4 + header_bytes + size
    assert length <= FRAME_BYTES_MAX - LENGTH_BYTES, f"a frame of {length} bytes"
    prefix = PREFIX.pack(length, JSON << 24 | header_bytes)
    return [prefix + header, *runs]
