"""Checksums."""

from collections.abc import Callable

try:
    from zlib_ng.zlib_ng import crc32 as _crc32
except ImportError:  # there is no wheel for this machine; zlib computes the same, more slowly
    from zlib import crc32 as _crc32

crc32: Callable[..., int] = _crc32
"""CRC-32 (IEEE, reflected) of bytes, the library's own function without a call in between."""


def crc31(data: bytes | bytearray | memoryview) -> int:
    """Return CRC-32 (IEEE, reflected) without its top bit, never negative; 0 for no data."""
    return crc32(data) & 0x7FFFFFFF
