"""Header blocks: HPACK, and the rules for a request's fields.

    block   fields, one after the other; each is one of
    indexed 1 · index (7 bits and more)
    literal 01 and kept in the table, or 0000 or 0001 · index of its name, or 0 and the name · value
    resized 001 · how large the table may be; at the beginning only
    text    whether it is packed by Huffman (1 bit) · its size (7 bits and more) · its bytes

Tables and Huffman codes are those of the `hpack` package; its decoder takes twice as long as this.

A client that asks for the same thing again may send a block whose fields are all in the tables that
both sides keep. Such a block changes no table, so that as long as no other one does either it means
the same each time: it is remembered.

What is sent is written without tables: a few constant bytes, the same for each connection.

Source: RFC 7541; RFC 9113, 8.2 and 8.3.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import hpack
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable
from msgspec import Struct

from sprocket.base.units import KIB

BLOCK_BYTES_MAX: Final = 16 * KIB
"""The largest block as it comes, all its CONTINUATION frames together. What it says is longer,
or it is made to cost much."""
LIST_BYTES_MAX: Final = 16 * KIB
"""The largest block when it is read; a field counts 32 bytes beside name and value."""
RESIZINGS_MAX: Final = 2
"""How often a block may change the size of the table: to the least and to the last since the one
before (RFC 7541, 4.2)."""
REMEMBERED_MAX: Final = 32
"""How many blocks are remembered; when there are more, all are forgotten."""
FIELDS_REMEMBERED: Final = 512
"""How many fields are remembered as they were read, of all clients."""
_LONG: Final = 0x7F
"""A size that needs more than its first byte."""
_FIELD_BYTES: Final = 32
"""What a field counts beside its name and its value."""
_SHIFT_MAX: Final = 28
"""Of the last byte of a number; larger ones are not sent for anything."""

_PSEUDO: Final = frozenset([":method", ":scheme", ":path", ":authority"])
_OF_CONNECTIONS: Final = frozenset(
    [b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"]
)
_NOT_IN_NAMES: Final = bytes((*range(0x21), *range(0x41, 0x5B), *range(0x7F, 0x100)))


Field = tuple[str, str]
"""Name and value."""


class MalformedHeaders(Exception):
    """A block that was read, so that the tables are right, but is not a request's."""


class UnreadableBlock(Exception):
    """A block that cannot be read, so that nothing after it can be either."""


class OversizedHeaders(UnreadableBlock):
    """A block that is larger than what was said to be taken."""


class RequestHead(Struct):
    """What begins a request; that of requests with the same block is the same.

    Attributes:
        fields: The others, by name; values of one name are joined by a comma, as RFC 9110 has it.
        content_length: What it says of its body; None if it does not.
        context: What its receiver made of it.
    """

    method: str
    path: str
    authority: str
    fields: dict[str, str]
    content_length: int | None = None
    context: object = None


class HeaderDecoder:
    """Reads the blocks of one connection, in their order; each must be read.

    Args:
        table_bytes: How large the client's table may be.
    """

    def __init__(self, table_bytes: int) -> None:
        self._table = HeaderTable()
        self._table.maxsize = self._table_bytes_max = table_bytes
        self._known: dict[bytes, RequestHead] = {}
        self.field_count = 0
        """How many fields the block had that was read last; not one that was remembered."""
        self.remembered = self._known.get
        """Gives the head of a request whose block was read before and means the same; or None."""

    def request(self, block: bytes) -> RequestHead:
        """Return the head of a request.

        Raises:
            MalformedHeaders: It is not one.
            UnreadableBlock: It cannot be read.
        """
        known = self.remembered(block)
        if known is not None:
            return known
        fields = self.read(block)
        head = _request(fields)
        if _changes_nothing(block, len(fields)):
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[block] = head
        return head

    def trailers(self, block: bytes) -> dict[str, str]:
        """Return the fields that come after a body. Raises like `request`."""
        fields = self.read(block)
        found: dict[str, str] = {}
        for name, text in fields:
            if name[0] == ":":
                raise MalformedHeaders("a pseudo-header after the body")
            _add(found, name, text)
        return found

    def read(self, block: bytes) -> Sequence[Field]:
        """Return the fields of a block as they come.

        Raises:
            MalformedHeaders: One may not be sent.
            UnreadableBlock: It cannot be read.
        """
        found = self.skip(block)
        fields = [one for one in found if one is not None]
        if len(fields) < len(found):
            raise MalformedHeaders("a header that may not be sent, or not over HTTP/2")
        return fields

    def skip(self, block: bytes) -> Sequence[Field | None]:
        """Read a block whatever its fields are; None stands for one that is malformed.

        Raises:
            UnreadableBlock: It cannot be read.
        """
        try:
            return self._fields(block)
        except hpack.HPACKError as error:
            raise UnreadableBlock(str(error) or type(error).__name__) from error
        except IndexError as error:
            raise UnreadableBlock("a header block that ends too soon") from error

    def _fields(self, block: bytes) -> Sequence[Field | None]:
        """Return the fields of a block, None for one that is malformed.

        Raises:
            UnreadableBlock, HPACKError, IndexError: It cannot be read.
        """
        table = self._table
        found: list[Field | None] = []
        at = size = resizings = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _number(block, at, 7)
                field = _known_field(*table.get_by_index(index))
            elif first & 0xEF == 0 and (end := _short_end(block, at + 1)):
                field, at = _literal(block[at + 1 : end]), end
            elif first & 0xE0 == 0x20:
                resizings += 1
                at = self._resize(block, at, may_be=resizings <= RESIZINGS_MAX and not found)
                continue
            else:
                index, at = _number(block, at, 6 if first & 0x40 else 4)
                if index:
                    name = table.get_by_index(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                field = _checked(name, value)
                if first & 0x40:
                    table.add(name, value)
                    self._known.clear()
            size += _FIELD_BYTES if field is None else _FIELD_BYTES + len(field[0]) + len(field[1])
            if size > LIST_BYTES_MAX:
                raise OversizedHeaders(f"headers of more than {LIST_BYTES_MAX} bytes")
            found.append(field)
        self.field_count = len(found)
        return found

    def _resize(self, block: bytes, at: int, *, may_be: bool) -> int:
        """Change the size of the table; return where the block goes on."""
        size, at = _number(block, at, 5)
        if not may_be or size > self._table_bytes_max:
            raise UnreadableBlock(f"a table of {size} bytes, {self._table_bytes_max} may be")
        self._table.maxsize = size
        self._known.clear()
        return at


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return the number of which the first byte has some bits, and where it ends."""
    most = (1 << bits) - 1
    number, at = block[at] & most, at + 1
    if number < most:
        return number, at
    shift = 0
    while shift <= _SHIFT_MAX:
        byte, at = block[at], at + 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise UnreadableBlock("a number that does not end")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    """Return a text, and where it ends."""
    is_packed = block[at] & 0x80
    size, at = _number(block, at, 7)
    end = at + size
    if end > len(block):
        raise UnreadableBlock("a header block that ends within a text")
    text = block[at:end]
    return decode_huffman(text) if is_packed else text, end


def _short_end(block: bytes, at: int) -> int:
    """Return where a literal with its name ends, 0 if name or value is long. Raises IndexError."""
    name_bytes = block[at] & _LONG
    value_bytes = block[at + 1 + name_bytes] & _LONG
    end = at + 2 + name_bytes + value_bytes
    return 0 if name_bytes == _LONG or value_bytes == _LONG or end > len(block) else end


@lru_cache(FIELDS_REMEMBERED)
def _literal(data: bytes) -> Field | None:
    """Return the field of a literal with its name, None if it is malformed.

    Some libraries send most fields so, the same in each call: remembered, one takes 0.5 µs.
    """
    name, at = _text(data, 0)
    value, _ = _text(data, at)
    return _checked(name, value)


def _changes_nothing(block: bytes, count: int) -> bool:
    """Say whether a block is nothing but `count` indexed fields of one byte each."""
    return len(block) == count and min(block, default=0) >= 0x80


def _request(fields: Sequence[Field]) -> RequestHead:
    pseudo: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, text in fields:
        if name[0] != ":":
            _add(found, name, text)
        elif name not in _PSEUDO or name in pseudo or found:
            raise MalformedHeaders(f"the pseudo-header {name!r} is unknown, or out of its place")
        else:
            pseudo[name] = text
    method, path = pseudo.get(":method", ""), pseudo.get(":path", "")
    if not method or not path or not pseudo.get(":scheme"):
        raise MalformedHeaders("a request without method, scheme or path")
    said = found.get("content-length")
    if said is not None and not (said.isascii() and said.isdecimal() and len(said) < 20):
        raise MalformedHeaders(f"content-length is {said!r}")
    authority = pseudo.get(":authority") or found.get("host", "")
    return RequestHead(method, path, authority, found, None if said is None else int(said))


def _checked(name: bytes, value: bytes) -> Field | None:
    """Return a field as text; None if it is malformed."""
    if not name or name.translate(None, _NOT_IN_NAMES) != name:
        return None
    if b"\0" in value or b"\r" in value or b"\n" in value:
        return None
    if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
        return None
    return name.decode("ascii"), value.decode("latin-1")


_known_field = lru_cache(FIELDS_REMEMBERED)(_checked)
"""The same of fields in a table, for 0.2 µs and not 1.8."""


def _add(found: dict[str, str], name: str, text: str) -> None:
    before = found.get(name)
    found[name] = text if before is None else f"{before},{text}"


def response_block(status: int, fields: Sequence[tuple[str, str]]) -> bytes:
    """Return the block that begins a response; see `trailers_block`."""
    begun = _STATUS_200 if status == 200 else _STATUS + _string(str(status).encode("ascii"))
    return begun + trailers_block(fields)


def trailers_block(fields: Sequence[tuple[str, str]]) -> bytes:
    """Return a block of literals, which neither reads a table nor changes one.

    Args:
        fields: Names in small letters, and values of Latin-1.
    """
    parts: list[bytes] = []
    for name, value in fields:
        parts += (_LITERAL, _string(name.encode("ascii")), _string(value.encode("latin-1")))
    return b"".join(parts)


_STATUS_200: Final = b"\x88"
_STATUS: Final = b"\x08"
_LITERAL: Final = b"\0"


def _string(octets: bytes) -> bytes:
    """Return a string as it is, after its length."""
    size = len(octets)
    if size < 127:
        return bytes((size,)) + octets
    rest, size = bytearray((127,)), size - 127
    while size >= 128:
        rest.append(size & 127 | 128)
        size >>= 7
    rest.append(size)
    return bytes(rest) + octets
