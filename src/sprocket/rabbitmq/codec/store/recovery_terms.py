"""What each queue left at a clean stop: `recovery.dets`, one file for a virtual host.

    file       = header, slots, *collection, free lists
    collection = size:4 12345678 *(size:4 term), zeros up to a power of two

It is a DETS table of Erlang. The slots tell where to find a key; they are not read, because each
collection has a mark, and Erlang makes them again if the header says that the file was not closed.

Source: Erlang/OTP `dets_v9`, RabbitMQ 3.10.8 `rabbit_recovery_terms`;
docs/formats/rabbitmq-recovery-terms.md.
"""

import struct
from collections.abc import Iterable, Mapping

from msgspec import Struct

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import terms
from sprocket.rabbitmq.codec.terms import Atom, Term, TermMap

_COOKIE = 0x00ABCDEF
_HEADER = struct.Struct(">13I")
_SLOTS = 256
_SLOTS_MAX = 0x02000000
_BASE = 0x1538
"""Where data begins."""
_COLLECTION = struct.Struct(">II")
_ACTIVE = 0x12345678
_MARK = struct.pack(">I", _ACTIVE)
_OBJECT = struct.Struct(">I")
_UNDEFINED = Atom("undefined")
_CLOSED_AT, _FREE_LISTS_AT, _DIGEST = 8, 0, slice(0xA8, 0xB8)
"""What we leave zero in the header, and Erlang does not."""
_UNIT = 16
"""Blocks begin at multiples of it."""


class QueueTerms(Struct, frozen=True, kw_only=True):
    """What one queue, or one of its priorities, left."""

    next_seq_id: int
    next_deliver_seq_id: int | None = None
    """A message with a smaller one was delivered before; before 3.10 no queue knew."""
    persistent_ref: bytes | None
    """The queue's id in the message store: 16 bytes; None if it never had a persistent message.
    """
    persistent_count: int
    """Persistent messages that it has, delivered or not."""
    persistent_bytes: int
    """Of their bodies."""
    segments: dict[int, int]
    """How many messages of each known segment are not acknowledged."""
    is_v2: bool = False
    """Whether its index is of version 2."""


class TermsFile(Struct, frozen=True):
    """The content of a `recovery.dets`."""

    queues: dict[str, QueueTerms]
    """By the names of the queues' folders; none after a crash."""
    faults: list[str]
    """What could not be read, a sentence each."""


def is_ours(data: bytes) -> bool:
    """Say whether a file is one that `encode` has made, though a bit of it may be wrong.

    Erlang puts three things into the header of a table that it closes which we leave out.
    """
    left_out = (
        not any(data[_FREE_LISTS_AT : _FREE_LISTS_AT + 4]),
        not any(data[_CLOSED_AT : _CLOSED_AT + 4]),
        not any(data[_DIGEST]),
    )
    return sum(left_out) >= 2


def decode(data: bytes) -> TermsFile:
    """Return what the queues left; what cannot be read is reported and skipped.

    Raises:
        CorruptRecord: It is not a table of the kind.
    """
    if len(data) < _HEADER.size:
        raise CorruptRecord(f"a table begins with {_HEADER.size} bytes, found {len(data)}")
    head = _HEADER.unpack_from(data)
    if head[1] != _COOKIE or head[4] != 9:
        raise CorruptRecord(f"expected a DETS table of version 9, found {data[:20].hex()}")
    queues: dict[str, QueueTerms] = {}
    faults: list[str] = []
    at = data.find(_MARK, _BASE)
    while at >= 0:
        start = at - _OBJECT.size
        end = at + len(_MARK)
        if start >= _BASE and (start - _BASE) % _UNIT == 0:
            size = _OBJECT.unpack_from(data, start)[0]
            end = _take(data, start, size, queues, faults)
        at = data.find(_MARK, end)
    count = head[8]
    if len(queues) != count:
        faults.append(f"the table counts {count} queues, {len(queues)} can be read")
    return TermsFile(queues, faults)


def _take(
    data: bytes, start: int, size: int, queues: dict[str, QueueTerms], faults: list[str]
) -> int:
    """Read one collection; return where to look for the next."""
    at = start + _COLLECTION.size
    end = start + size
    if size < _COLLECTION.size or end > len(data):
        faults.append(f"at {start}: a collection of {size} bytes does not fit the file")
        return at
    while at < end:
        length = _OBJECT.unpack_from(data, at)[0] if at + _OBJECT.size <= end else 0
        if length <= _OBJECT.size or at + length > end:
            faults.append(f"at {at}: an object of {length} bytes does not fit its collection")
            return at
        try:
            folder, found = _queue(terms.decode(data[at + _OBJECT.size : at + length]))
            queues[folder] = found
        except CorruptRecord as error:
            faults.append(f"at {at}: {error}")
        at += length
    return end


def _queue(term: Term) -> tuple[str, QueueTerms]:
    match term:
        case (list(letters), list(pairs)):
            folder = _folder(letters)
            values = dict(_pair(pair) for pair in pairs)
        case _:
            raise CorruptRecord(f"expected a queue's folder and terms, found {term!r:.60}")
    state = values.get("v2_index_state")
    counts: Term = values.get("segments", [])
    if state is not None:
        match state:
            case (2, TermMap() as counted):
                counts = [*counted.pairs]
            case _:
                raise CorruptRecord(f"expected the state of an index, found {state!r:.60}")
    reference = values.get("persistent_ref")
    if not isinstance(reference, bytes) and reference != _UNDEFINED:
        raise CorruptRecord(f"expected a persistent_ref, found {reference!r:.60}")
    return folder, QueueTerms(
        next_seq_id=_number(values, "next_seq_id"),
        next_deliver_seq_id=(
            _number(values, "next_deliver_seq_id") if "next_deliver_seq_id" in values else None
        ),
        persistent_ref=reference if isinstance(reference, bytes) else None,
        persistent_count=_number(values, "persistent_count"),
        persistent_bytes=_number(values, "persistent_bytes"),
        segments=_segments(counts),
        is_v2=state is not None,
    )


def _folder(letters: list[Term]) -> str:
    numbers = [one for one in letters if isinstance(one, int) and 0 < one < 128]
    if len(numbers) != len(letters):
        raise CorruptRecord("the name of a folder is not ASCII")
    return bytes(numbers).decode()


def _pair(term: Term) -> tuple[str, Term]:
    match term:
        case (Atom() as name, value):
            return str(name), value
    raise CorruptRecord(f"expected a name and a value, found {term!r:.60}")


def _number(values: Mapping[str, Term], name: str) -> int:
    found = values.get(name)
    if not isinstance(found, int) or found < 0:
        raise CorruptRecord(f"expected a number as {name}, found {found!r:.60}")
    return found


def _segments(term: Term) -> dict[int, int]:
    found = {}
    for one in term if isinstance(term, list) else [term]:
        match one:
            case (int(number), int(count)):
                found[number] = count
            case _:
                raise CorruptRecord(f"expected a segment and a count, found {one!r:.60}")
    return found


def encode(queues: Mapping[str, QueueTerms]) -> bytes:
    """Return a `recovery.dets` that says it was not closed: Erlang then makes its slots.

    Args:
        queues: By the names of their folders.
    """
    count = len(queues)
    header = _HEADER.pack(
        *(0, _COOKIE, 0, 1, 9, _SLOTS, _SLOTS, 1),
        *(count, count, _SLOTS, _SLOTS_MAX, 1),
    )
    return b"".join((header.ljust(_BASE, b"\0"), *_collections(queues)))


def _collections(queues: Mapping[str, QueueTerms]) -> Iterable[bytes]:
    for folder, found in queues.items():
        stored = terms.encode((list(folder.encode()), _terms(found)))
        one = _OBJECT.pack(_OBJECT.size + len(stored)) + stored
        size = _COLLECTION.size + len(one)
        block = max(_UNIT, 1 << (size - 1).bit_length())
        yield (_COLLECTION.pack(size, _ACTIVE) + one).ljust(block, b"\0")


def _terms(found: QueueTerms) -> list[Term]:
    counts = tuple(sorted(found.segments.items()))
    first: Term = (Atom("segments"), [*counts])
    if found.is_v2:
        first = (Atom("v2_index_state"), (2, TermMap(counts)))
    delivered: list[Term] = []
    if found.next_deliver_seq_id is not None:
        delivered = [(Atom("next_deliver_seq_id"), found.next_deliver_seq_id)]
    return [
        first,
        (Atom("next_seq_id"), found.next_seq_id),
        *delivered,
        (
            Atom("persistent_ref"),
            _UNDEFINED if found.persistent_ref is None else found.persistent_ref,
        ),
        (Atom("persistent_count"), found.persistent_count),
        (Atom("persistent_bytes"), found.persistent_bytes),
    ]
