"""The frames of HTTP/2: their head, types, flags, settings and error codes.

    0 size of what follows the head (u24) · 3 type (u8) · 4 flags (u8) · 5 stream (u31) · 9 payload

Source: RFC 9113, chapters 4, 6 and 7.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first."""
HEAD_BYTES: Final = 9
FRAME_BYTES_DEFAULT: Final = 16_384
"""The largest payload that either side takes unless it says otherwise; also the least limit."""
FRAME_BYTES_LIMIT: Final = (1 << 24) - 1
WINDOW_DEFAULT: Final = 65_535
WINDOW_MAX: Final = (1 << 31) - 1
STREAM_MAX: Final = (1 << 31) - 1
"""The largest stream number; also the mask of the reserved bit beside it."""


class FrameType(IntEnum):
    """What a frame is; any other type is passed over."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


END_STREAM: Final = 0x01
ACK: Final = 0x01
END_HEADERS: Final = 0x04
PADDED: Final = 0x08
PRIORITY: Final = 0x20


class Setting(IntEnum):
    """What a side says of itself; any other is passed over."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


_HEAD = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
U32: Final = struct.Struct(">I")
_GOAWAY = struct.Struct(">II")


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """Return the head of a frame.

    Args:
        size: Of its payload, less than 2^24.
        kind: Its `FrameType`.
        flags: Their sum.
        stream: Whose it is; 0 for the connection.
    """
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream)


unpack_head: Final[Callable[[bytes, int], tuple[int, int, int, int, int]]] = _HEAD.unpack_from
"""Gives what `read_head` does, but the size in two parts and the stream with a reserved bit."""

pack_head: Final[Callable[[int, int, int, int, int], bytes]] = _HEAD.pack
"""Makes a head of the same."""


def read_head(data: bytes | bytearray, at: int) -> tuple[int, int, int, int]:
    """Return size, type, flags and stream of the frame whose head lies at `at`."""
    high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
    return high << 8 | low, kind, flags, stream & STREAM_MAX


def settings(values: Mapping[Setting, int]) -> bytes:
    """Return a SETTINGS frame."""
    payload = b"".join(_SETTING.pack(name, value) for name, value in values.items())
    return head(len(payload), FrameType.SETTINGS, 0, 0) + payload


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return names and values, in their order; the payload is whole (a multiple of 6 bytes)."""
    return [*_SETTING.iter_unpack(payload)]


SETTINGS_ACK: Final = head(0, FrameType.SETTINGS, ACK, 0)


def ping_ack(opaque: bytes) -> bytes:
    """Return the answer to a PING of 8 bytes."""
    return head(8, FrameType.PING, ACK, 0) + opaque


def window_update(stream: int, increment: int) -> bytes:
    """Return a frame that lets the other side send so many bytes more; stream 0: in all."""
    return head(4, FrameType.WINDOW_UPDATE, 0, stream) + U32.pack(increment)


def reset(stream: int, code: ErrorCode) -> bytes:
    """Return a frame that ends a stream at once."""
    return head(4, FrameType.RST_STREAM, 0, stream) + U32.pack(code)


def go_away(last: int, code: ErrorCode, why: str = "") -> bytes:
    """Return a frame that says that no stream after `last` will be served."""
    text = why.encode("utf-8", "replace")
    return head(8 + len(text), FrameType.GOAWAY, 0, 0) + _GOAWAY.pack(last, code) + text
