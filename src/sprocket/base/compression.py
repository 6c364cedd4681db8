"""Compression methods that message bodies use, each with a bound on what comes out."""

import zlib
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from sprocket.base.disk import Buffer
from sprocket.base.errors import MethodMissing, WireError
from sprocket.base.units import MIB

DECOMPRESSED_BYTES_MAX = 64 * MIB
"""Largest body that is unpacked: sixteen times the 4 MiB that a client may send by default."""


class Method(Enum):
    """How a body was packed."""

    ZLIB = "ZLIB"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: Any, max_length: int, /) -> bytes: ...


def _lz4() -> Any:
    try:
        from lz4 import frame
    except ImportError:
        raise MethodMissing(
            "LZ4 needs a package that is not installed: pip install 'sprocketmq[lz4]'"
        ) from None
    return frame


def _zstd() -> Any:
    try:
        from compression import zstd  # Python 3.14 and later
    except ImportError:
        from backports import zstd
    return zstd


_DECOMPRESSORS: dict[Method, Callable[[], _Decompressor]] = {
    Method.ZLIB: zlib.decompressobj,
    Method.LZ4: lambda: _lz4().LZ4FrameDecompressor(),
    Method.ZSTD: lambda: _zstd().ZstdDecompressor(),
}


def require(method: Method) -> None:
    """Check that bodies can be packed so. Raises MethodMissing: its library is not installed."""
    _DECOMPRESSORS[method]()


def decompress(method: Method, data: Buffer, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Unpack one zlib stream, LZ4 frame or zstd frame.

    Args:
        method: How `data` was packed.
        data: The packed bytes, whole; bytes after the end of the stream are ignored.
        bytes_max: The most bytes that may come out.

    Raises:
        WireError: `data` is not such a stream, ends too early, or unpacks to more than `bytes_max`.
        MethodMissing: The library for the method is not installed.
    """
    decompressor = _DECOMPRESSORS[method]()
    try:
        result = decompressor.decompress(data, bytes_max + 1)
    except Exception as error:  # each library has its own root; all mean the same here
        raise WireError(f"body is not valid {method.value}: {error}") from error
    if len(result) > bytes_max:
        raise WireError(f"body unpacks to more than {bytes_max} bytes")
    if not decompressor.eof:
        raise WireError(f"{method.value} body of {len(data)} bytes ends too early")
    return bytes(result)


def compress(method: Method, data: Buffer, *, level: int = 5) -> bytes:
    """Pack `data` as one zlib stream, LZ4 frame or zstd frame.

    Raises:
        MethodMissing: The library for the method is not installed.
    """
    if method is Method.ZLIB:
        return zlib.compress(data, level)
    if method is Method.LZ4:
        return bytes(_lz4().compress(data, compression_level=level))
    return bytes(_zstd().compress(data, level))
