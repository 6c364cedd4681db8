"""A file of JSON that says itself whether it is whole.

    file = magic:4 crc:4 json

`crc` is the CRC-32 of the JSON, without a sign, big-endian.
"""

from typing import Generic, TypeVar

import msgspec

from sprocket.base.checksum import crc32
from sprocket.base.errors import CorruptRecord

S = TypeVar("S", bound=msgspec.Struct)
_CRC_BYTES = 4


class CheckedJson(Generic[S]):
    """See the head of the module.

    Args:
        magic: How the file begins.
        kind: What its JSON is.
    """

    def __init__(self, magic: bytes, kind: type[S]) -> None:
        self._magic = magic
        self._kind = kind

    def encode(self, found: S) -> bytes:
        """Return the content of the file."""
        content = msgspec.json.encode(found)
        return self._head(content) + content

    def decode(self, data: bytes) -> S:
        """Return what a file says.

        Raises:
            CorruptRecord: It is not such a file, or not whole.
        """
        start = len(self._magic) + _CRC_BYTES
        content = data[start:]
        if data[:start] != self._head(content):
            raise CorruptRecord(
                f"expected {self._magic.decode()} and a checksum, found {data[:start].hex()}"
            )
        try:
            return msgspec.json.decode(content, type=self._kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptRecord(f"no such file: {error}") from error

    def _head(self, content: bytes) -> bytes:
        return self._magic + crc32(content).to_bytes(_CRC_BYTES, "big")
