"""The frame around every command: four fields, all integers big-endian.

    length: int32         bytes that follow = 4 + size of header + size of body
    mark: int32           serialize type << 24 | size of header
    header                JSON text or a binary header, by the type
    body                  bytes that the frame does not look into

Source: `NettyDecoder`, `RemotingCommand.encodeHeader`; docs/formats/remoting-frame.md.
"""

from collections.abc import Sequence
from struct import Struct

from sprocket.base.errors import WireError
from sprocket.base.units import MIB

Buffer = bytes | bytearray | memoryview

JSON = 0
BINARY = 1
FRAME_BYTES_MAX = 16 * MIB
"""Largest frame, its length field included (`com.rocketmq.remoting.frameMaxLength`)."""
FIRST_BYTES_MIN = 12
"""The server sees nothing of a new connection before these (protocol detection)."""
HEADER_BYTES_MAX = (1 << 24) - 1
LENGTH_BYTES = 4
PREFIX_BYTES = 8
LENGTH_MIN = PREFIX_BYTES - LENGTH_BYTES
"""Of a frame whose header and body are empty; only an empty header cannot be read."""

PREFIX = Struct(">II")
"""`length` and `mark`, at the head of a frame."""


def bad_prefix(length: int, mark: int, frame_bytes_max: int) -> WireError:
    """Return the error that says why a frame with this prefix cannot be."""
    if not LENGTH_MIN <= length <= frame_bytes_max - LENGTH_BYTES:
        return WireError(
            f"a frame says {length} bytes follow, expected {LENGTH_MIN} to "
            f"{frame_bytes_max - LENGTH_BYTES}"
        )
    return WireError(f"a header of {mark & HEADER_BYTES_MAX} bytes in a frame of {length}")


def checked_length(data: Buffer, frame_bytes_max: int) -> int:
    """Return the length at the head of `data`; raise WireError if it can begin no frame."""
    length = int.from_bytes(data[:LENGTH_BYTES], "big")
    if not LENGTH_MIN <= length <= frame_bytes_max - LENGTH_BYTES:
        raise bad_prefix(length, 0, frame_bytes_max)
    return length


def join(serialize: int, header: bytes, body: Sequence[Buffer]) -> list[Buffer]:
    """Put the length fields before a header; the buffers of the body are passed on as they are."""
    header_bytes = len(header)
    length = 4 + header_bytes + (sum(map(len, body)) if body else 0)
    assert header_bytes <= HEADER_BYTES_MAX, f"a header of {header_bytes} bytes"
    assert length <= FRAME_BYTES_MAX - LENGTH_BYTES, f"a frame of {length} bytes"
    return [PREFIX.pack(length, serialize << 24 | header_bytes) + header, *body]
