"""The tables that a message store leaves at a clean stop: file_summary.ets, msg_store_index.ets.

    file = 01 02 03 04, status, *item
    item = size:4 "bWLA" term            ; a header, one for each row, a footer with their count

Both are derived from the .rdq files. Source: RabbitMQ 3.10.8 `rabbit_msg_store`,
`rabbit_msg_store_ets_index`; Erlang/OTP `ets:tab2file`, `disk_log`; docs/formats.
"""

import struct
from collections.abc import Iterable, Sequence

from msgspec import Struct

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import terms
from sprocket.rabbitmq.codec.terms import Atom, Pid, Reference, Term
from sprocket.rabbitmq.model.message import ID_BYTES

_START = bytes((1, 2, 3, 4))
_CLOSED = bytes((99, 88, 77, 11))
_ITEM = struct.Struct(">I4s")
_ITEM_MARK = b"bWLA"
_UNDEFINED, _FALSE, _NONE = Atom("undefined"), Atom("false"), Atom("none")
_SUMMARY, _LOCATION = Atom("file_summary"), Atom("msg_location")
_END = Atom("$end_of_table")

_NODE = Atom("sprocket@localhost")
"""Whose table it was; nobody asks when it is read."""


class FileSummary(Struct, frozen=True):
    """How full a file of a message store is."""

    file: int
    valid_bytes: int
    """Of entries that some queue needs."""
    left: int | None
    """The file with the next lower number; None for the first."""
    right: int | None
    file_bytes: int


class MessageLocation(Struct, frozen=True):
    """Where a message lies in a message store."""

    id: bytes
    ref_count: int
    """Queues that need it; 0 is not removed until its file is compacted."""
    file: int
    position: int
    size: int
    """Bytes of the whole entry."""


def decode_summary(data: bytes) -> list[FileSummary]:
    """Return the rows of a file_summary.ets.

    Raises:
        CorruptRecord: It is not such a file, or was not written whole.
    """
    found = []
    for row in _rows(data):
        match row:
            case ("file_summary", int(file), int(valid), left, right, int(size), _, _):
                found.append(FileSummary(file, valid, _neighbour(left), _neighbour(right), size))
            case _:
                raise CorruptRecord(f"expected a row of file_summary, found {row!r:.80}")
    return found


def _neighbour(term: Term) -> int | None:
    if term == _UNDEFINED:
        return None
    if not isinstance(term, int):
        raise CorruptRecord(f"expected the number of a file, found {term!r:.40}")
    return term


def decode_locations(data: bytes) -> list[MessageLocation]:
    """Return the rows of a msg_store_index.ets, in no order.

    Raises:
        CorruptRecord: It is not such a file, or was not written whole.
    """
    found = []
    for row in _rows(data):
        match row:
            case (
                "msg_location",
                bytes(message_id),
                int(count),
                int(file),
                int(position),
                int(size),
            ) if len(message_id) == ID_BYTES:
                found.append(MessageLocation(message_id, count, file, position, size))
            case _:
                raise CorruptRecord(f"expected a row of msg_location, found {row!r:.80}")
    return found


def _rows(data: bytes) -> Sequence[Term]:
    """Return the terms between header and footer."""
    if data[:8] != _START + _CLOSED:
        raise CorruptRecord(f"expected a table that was closed, found {data[:8].hex()}")
    items: list[Term] = []
    at = len(_START) + len(_CLOSED)
    while at < len(data):
        if at + _ITEM.size > len(data):
            raise CorruptRecord(f"a table ends inside an item, at {at}")
        size, mark = _ITEM.unpack_from(data, at)
        at += _ITEM.size
        if mark != _ITEM_MARK or at + size > len(data):
            raise CorruptRecord(f"expected an item of a table at {at - _ITEM.size}")
        items.append(terms.decode(data[at : at + size]))
        at += size
    if len(items) < 2 or items[-1] != _footer(len(items) - 2):
        raise CorruptRecord(f"a table of {len(items)} items does not end with their count")
    return items[1:-1]


def _footer(count: int) -> Term:
    return [_END, [(Atom("count"), count)]]


def encode_summary(rows: Iterable[FileSummary]) -> bytes:
    """Return the content of a file_summary.ets, whose rows are in the order of their files."""
    items: list[Term] = [
        (
            *(_SUMMARY, row.file, row.valid_bytes),
            *(_UNDEFINED if one is None else one for one in (row.left, row.right)),
            *(row.file_bytes, _FALSE, 0),
        )
        for row in rows
    ]
    return _table("rabbit_msg_store_file_summary", "ordered_set", items)


def encode_locations(rows: Iterable[MessageLocation]) -> bytes:
    """Return the content of a msg_store_index.ets."""
    items: list[Term] = [
        (_LOCATION, row.id, row.ref_count, row.file, row.position, row.size) for row in rows
    ]
    return _table("rabbit_msg_store_ets_index", "set", items)


def _table(name: str, kind: str, rows: list[Term]) -> bytes:
    header: Term = (
        (Atom("id"), Reference(_NODE, 0, bytes(12))),
        (Atom("decentralized_counters"), _FALSE),
        (Atom("read_concurrency"), _FALSE),
        (Atom("write_concurrency"), _FALSE),
        (Atom("compressed"), _FALSE),
        (Atom("memory"), 0),
        (Atom("owner"), Pid(_NODE, bytes(12))),
        (Atom("heir"), _NONE),
        (Atom("name"), Atom(name)),
        (Atom("size"), len(rows)),
        (Atom("node"), _NODE),
        (Atom("named_table"), _FALSE),
        (Atom("type"), Atom(kind)),
        (Atom("keypos"), 2),
        (Atom("protection"), Atom("public")),
        (Atom("major_version"), 1),
        (Atom("minor_version"), 0),
        (Atom("extended_info"), [Atom("object_count")]),
    )
    parts = [_START, _CLOSED]
    for term in (header, *rows, _footer(len(rows))):
        data = terms.encode(term)
        parts += (_ITEM.pack(len(data), _ITEM_MARK), data)
    return b"".join(parts)
