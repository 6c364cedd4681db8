"""Compression of message bodies, and the bits of the system flag that describe it.

The producer compresses, the broker stores what it got, the consumer decompresses.
"""

from sprocket.base import compression
from sprocket.base.compression import DECOMPRESSED_BYTES_MAX, Method
from sprocket.base.disk import Buffer
from sprocket.rocketmq.model.message import compression_flag, compression_method


def decompress(
    stored_body: Buffer, sys_flag: int, *, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Return the body as the producer was given it.

    Raises:
        WireError: The packed bytes are damaged, of an unknown method, or too large unpacked.
    """
    method = compression_method(sys_flag)
    if method is None:
        return bytes(stored_body)
    return compression.decompress(method, stored_body, bytes_max=bytes_max)


def compress(body: Buffer, *, method: Method = Method.ZLIB, level: int = 5) -> tuple[bytes, int]:
    """Pack a body; return it with the bits to set in the system flag (0x301 for zlib)."""
    return compression.compress(method, body, level=level), compression_flag(method)
