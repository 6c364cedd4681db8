"""The binary form of a command's header (serialize type 1, `RocketMQSerializable`).

    code: int16, language: uint8, version: int16, opaque: int32, flag: int32,
    remark: int32 size + UTF-8 (size 0: none),
    ext: int32 size + entries of (key: int16 size + UTF-8, value: int32 size + UTF-8)

Only 16 bits are left for a code, so the POP codes cannot be told apart in this form.
"""

from collections.abc import Mapping
from struct import Struct, error
from typing import NamedTuple

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.codes import LANGUAGE, LANGUAGES, OTHER_LANGUAGE, VERSION

_FIXED = Struct(">hBhii")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OUR_LANGUAGE = LANGUAGES.index(LANGUAGE)


class BinaryHeader(NamedTuple):
    """What a binary header says; empty texts count as absent, as in Java."""

    code: int
    language: str
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext: dict[str, str] | None


def decode(header: bytes) -> BinaryHeader:
    """Read a binary header; bytes after the ext map are ignored.

    As in RocketMQ an ext map of negative size is empty, and its last entry may go beyond its size.

    Raises:
        WireError: The size of a text is negative, or one goes beyond the bytes there are.
    """
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, position = _text(header, _FIXED.size, _INT32, len(header))
        (ext_bytes,) = _INT32.unpack_from(header, position)
        position += 4
        end = position + ext_bytes
        if end > len(header):
            raise WireError(f"an ext map of {ext_bytes} bytes, {len(header) - position} are left")
        ext: dict[str, str] = {}
        while position < end:
            key, position = _text(header, position, _INT16, len(header))
            value, position = _text(header, position, _INT32, len(header))
            if key and value:
                ext[key] = value
    except error as short:
        raise WireError(f"a binary header of {len(header)} bytes ends early") from short
    name = LANGUAGES[language] if language < len(LANGUAGES) else OTHER_LANGUAGE
    return BinaryHeader(code, name, version, opaque, flag, remark or None, ext or None)


def encode(code: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]) -> bytes:
    """Write a binary header of ours; the code must fit 16 bits with sign.

    Empty texts among the ext fields are left out: read back they would be none.
    """
    text = remark.encode() if remark else b""
    entries = bytearray()
    for name, value in ext.items():
        key_bytes, value_bytes = name.encode(), value.encode()
        if key_bytes and value_bytes:
            entries += _INT16.pack(len(key_bytes)) + key_bytes
            entries += _INT32.pack(len(value_bytes)) + value_bytes
    return b"".join(
        (
            _FIXED.pack(code, _OUR_LANGUAGE, VERSION, opaque, flag),
            _INT32.pack(len(text)),
            text,
            _INT32.pack(len(entries)),
            entries,
        )
    )


def _text(header: bytes, position: int, width: Struct, end: int) -> tuple[str, int]:
    """Read a size and that many bytes of text before `end`; say where the next field begins."""
    (size,) = width.unpack_from(header, position)
    start = position + width.size
    stop = start + size
    if size < 0 or stop > end:
        raise WireError(f"a text of {size} bytes in a binary header, {end - start} are left")
    return header[start:stop].decode("utf-8", "replace"), stop
