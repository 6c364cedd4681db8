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

Or a client sends some fields as they are each time, of which few have another value than before.
Then the block has a form: what lies between these values, and which fields they are of. A block of
a form that is known changes no table either, and says what the first one of it did but for them.

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
FORMS_MAX: Final = 8
"""How many forms of blocks are remembered, each of another size; when there are more, none is."""
BLOCK_BYTES_PER_COST, FIELDS_PER_COST = 512, 16
"""What of a header block counts 1 against the budget; an answer earns that of 4,000 bytes. Only
smaller blocks have a form."""
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
        context: What its receiver made of it, whatever those fields say that `is_free` names.
    """

    method: str
    path: str
    authority: str
    fields: dict[str, str]
    content_length: int | None = None
    context: object = None


class _Value(Struct, frozen=True):
    """Where a value lies in a block, as it is, and of which field."""

    start: int
    end: int
    name: str


class _Form(Struct, frozen=True):
    """What blocks of one size have in common.

    Attributes:
        block: The first of them.
        head: What it said.
        values: Where values lie that are not in a table.
        others: Those of them that were not always the same, each after what comes before it.
        rest: What comes after the last one.
        is_free: Whether blocks that differ in those only are of this form.
    """

    block: bytes
    head: RequestHead
    values: Sequence[_Value]
    others: Sequence[tuple[bytes, _Value]] = ()
    rest: bytes = b""
    is_free: bool = False

    def read(self, block: bytes) -> RequestHead | None:
        """Return what a block of that size says if it is of this form, and None if not.

        It is not either if a value may be none of a field, or has anything that does not print.
        """
        at, head = 0, self.head
        fields = head.fields.copy()
        for before, value in self.others:
            if not block.startswith(before, at):
                return None
            at = value.end
            text = block[value.start : at].decode("latin-1")
            if not text.isprintable():
                return None
            fields[value.name] = text
        if not block.startswith(self.rest, at):
            return None
        return RequestHead(
            head.method, head.path, head.authority, fields, head.content_length, head.context
        )

    def widened(self, block: bytes) -> "_Form":
        """Return the form that another block has as well, whose values lie at the same places."""
        first, others, at = self.block, list[tuple[bytes, _Value]](), 0
        known = [value for _, value in self.others]
        is_free = True
        for value in self.values:
            part = slice(value.start, value.end)
            if first[part] == block[part] and value not in known:
                continue
            others.append((first[at : value.start], value))
            at = value.end
            is_free &= is_free_name(value.name) and self.head.fields[value.name] == first[
                part
            ].decode("latin-1")
        return _Form(first, self.head, self.values, others, first[at:], is_free)


class HeaderDecoder:
    """Reads the blocks of one connection, in their order; each must be read.

    Args:
        table_bytes: How large the client's table may be.
    """

    def __init__(self, table_bytes: int) -> None:
        self._table = HeaderTable()
        self._table.maxsize = self._table_bytes_max = table_bytes
        self._known: dict[bytes, RequestHead] = {}
        self._forms: dict[int, _Form] = {}
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
        known = self.remembered(block) or self.alike(block)
        if known is not None:
            return known
        fields = self.read(block)
        head = _request(fields)
        if _changes_nothing(block, len(fields)):
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[block] = head
        elif len(block) < BLOCK_BYTES_PER_COST and len(fields) < FIELDS_PER_COST:
            self._learn(block, head)
        return head

    def alike(self, block: bytes) -> RequestHead | None:
        """Return the head of a request whose block has a form that is known; None if it has not."""
        form = self._forms.get(len(block))
        return form.read(block) if form is not None and form.is_free else None

    def _learn(self, block: bytes, head: RequestHead) -> None:
        """Note the form of a block that was read, unless it changes a table."""
        before = self._forms.get(len(block))
        if before is not None and before.others and not before.is_free:
            return
        values = _values(block, self._table)
        if values is None:
            return
        if before is not None and before.values == values:
            form = before.widened(block)
            if form.read(block) is not None:
                self._forms[len(block)] = form
                return
        if before is None and len(self._forms) >= FORMS_MAX:
            self._forms.clear()
        self._forms[len(block)] = _Form(block, head, values)

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
                    self._forget()
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
        self._forget()
        return at

    def _forget(self) -> None:
        """Forget all blocks: the same bytes mean something else now."""
        self._known.clear()
        self._forms.clear()


def is_free_name(name: str) -> bool:
    """Tell whether neither HTTP/2 nor gRPC looks at fields of this name."""
    return name.startswith("x-") or name == "authorization"


def _values(block: bytes, table: HeaderTable) -> Sequence[_Value] | None:
    """Return where values lie in a block that are neither in a table nor packed.

    Args:
        block: One that can be read.
        table: As it is before that.

    Returns:
        None if it changes the table.
    """
    found: list[_Value] = []
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            _, at = _number(block, at, 7)
            continue
        if first & 0x60:
            return None
        index, at = _number(block, at, 4)
        if index:
            name = table.get_by_index(index)[0]
        else:
            name, at = _text(block, at)
        is_packed = block[at] & 0x80
        size, at = _number(block, at, 7)
        if not is_packed:
            found.append(_Value(at, at + size, name.decode("ascii")))
        at += size
    return found


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
