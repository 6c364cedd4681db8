"""The answer to a stored message, which a busy broker writes some ten thousand times a second.

The bytes are those of `command.response` for a `headers.SendMessageAnswer`, filled into a text that
is made once from that declaration; a test compares the two.
"""

import msgspec

from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import JSON, PREFIX
from sprocket.rocketmq.codec.headers import SendMessageAnswer

_QUEUE_ID, _QUEUE_OFFSET, _OPAQUE = 1_000_000_001, 1_000_000_002, 1_000_000_003
_FORM = (
    b"".join(
        command.response(
            Command(code=0, opaque=_OPAQUE),
            0,
            SendMessageAnswer(
                msg_id="@id@",
                queue_id=_QUEUE_ID,
                queue_offset=_QUEUE_OFFSET,
                transaction_id="@transaction@",
            ),
        )
    )[PREFIX.size :]
    .replace(b"@id@", b"%b%016X")
    .replace(b"%d" % _QUEUE_ID, b"%d")
    .replace(b"%d" % _QUEUE_OFFSET, b"%d")
    .replace(b'"@transaction@"', b"%b")
    .replace(b"%d" % _OPAQUE, b"%d")
)
_text = msgspec.json.Encoder().encode


def encode(
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
        host: The broker's address in upper-case hex, as offset message ids begin.
        physical_offset: Where in the log it lies.
        queue_id: Its queue.
        queue_offset: Its place there.
        transaction_id: Its unique key.
    """
    header = _FORM % (host, physical_offset, queue_id, queue_offset, _text(transaction_id), opaque)
    size = len(header)
    return PREFIX.pack(size + 4, JSON << 24 | size) + header
