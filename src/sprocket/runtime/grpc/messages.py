"""Messages of gRPC in the data of a stream: each behind five bytes.

    0 whether it is compressed (u8) · 1 its size (u32) · 5 its bytes

Source: gRPC over HTTP2, "Length-Prefixed-Message".
"""

import gzip
import struct
import zlib
from typing import Final

from sprocket.runtime.grpc.status import CallFailed, StatusCode

_HEAD: Final = struct.Struct(">BI")
HEAD_BYTES: Final = _HEAD.size
IDENTITY, GZIP = "identity", "gzip"
ENCODINGS: Final = f"{IDENTITY},{GZIP}"
"""What is taken, as `grpc-accept-encoding` says it."""
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS


def message_head(size: int) -> bytes:
    """Return what comes before a message of `size` bytes that is not compressed."""
    return _HEAD.pack(0, size)


def only_message(data: bytes, bytes_max: int) -> bytes | None:
    """Return the message that is all of a stream's data; None if that has to be looked at closely.

    Nearly all calls come so. It takes a third of what a `MessageReader` does.
    """
    if len(data) < HEAD_BYTES:
        return None
    flag, size = _HEAD.unpack_from(data)
    return None if flag or size != len(data) - HEAD_BYTES or size > bytes_max else data[HEAD_BYTES:]


class MessageReader:
    """Takes the data of one stream apart, however it is cut.

    Args:
        encoding: What the client says of its compressed messages.
        bytes_max: The largest message, as it came and as it is.
    """

    def __init__(self, encoding: str, bytes_max: int) -> None:
        self._encoding = encoding
        self._bytes_max = bytes_max
        self._rest = bytearray()
        self._wanted_bytes = HEAD_BYTES
        """How long the message is that the rest begins, as far as that is known."""

    @property
    def rest_bytes(self) -> int:
        """How much there is of a message that is not whole."""
        return len(self._rest)

    def receive(self, data: bytes) -> list[bytes]:
        """Return the messages that bytes complete.

        Parts of a message are appended to one buffer, so many small ones stay cheap.

        Raises:
            CallFailed: One is too large, or not compressed as the client says; then `rest_bytes` is
                what it was.
        """
        rest = self._rest
        before = len(rest)
        found: list[bytes] = []
        if not before:
            rest += data[self._take_whole(data, found) :]
            return found
        rest += data
        if len(rest) < self._wanted_bytes:
            return []
        try:
            with memoryview(rest) as view:
                end = self._take_whole(view, found)
        except CallFailed:
            del rest[before:]
            raise
        del rest[:end]
        return found

    def _take_whole(self, data: bytes | memoryview, found: list[bytes]) -> int:
        """Add the messages that are whole to others; return where they end. Raises CallFailed."""
        at, end = 0, len(data)
        self._wanted_bytes = HEAD_BYTES
        while end - at >= HEAD_BYTES:
            flag, size = _HEAD.unpack_from(data, at)
            if size > self._bytes_max:
                raise self._too_large(size)
            start = at + HEAD_BYTES
            if end - start < size:
                self._wanted_bytes = HEAD_BYTES + size
                break
            at = start + size
            message = bytes(data[start:at])
            found.append(message if flag == 0 else self._decompressed(flag, message))
        return at

    def _decompressed(self, flag: int, message: bytes) -> bytes:
        if flag != 1 or self._encoding == IDENTITY:
            raise CallFailed(
                StatusCode.INTERNAL, f"a message says {flag} of its compression, which is none"
            )
        unpacker = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            found = unpacker.decompress(message, self._bytes_max + 1)
        except zlib.error as error:
            raise CallFailed(StatusCode.INTERNAL, f"a message is not gzip: {error}") from error
        if len(found) > self._bytes_max:
            raise self._too_large(len(found))
        if not unpacker.eof:
            raise CallFailed(StatusCode.INTERNAL, "a message of gzip ends too soon")
        return found

    def _too_large(self, size: int) -> CallFailed:
        return CallFailed(
            StatusCode.RESOURCE_EXHAUSTED,
            f"a message of {size} bytes or more, {self._bytes_max} may be",
        )


def compressed(message: bytes) -> bytes:
    """Return a message compressed by gzip, behind its head."""
    packed = gzip.compress(message, mtime=0)
    return _HEAD.pack(1, len(packed)) + packed
