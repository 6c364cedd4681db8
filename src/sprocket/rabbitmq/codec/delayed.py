"""What the store of delayed messages consists of: entries, in runs on the disk and in the log.

    run      = *block                       ; sorted by due time and number
    block    = head *sum *entry             ; earlier versions wrote no sums
    head     = "SpD2" head-crc:4 crc:4 size:4 count:4 first last      ; "SpD1" without sums
    sum      = size:4 crc:4                 ; of the entry in the same place
    first, last = due:8 number:8            ; of its first and its last entry
    entry    = due:8 number:8 length:1 size:4 exchange term

    manifest = "SpM1" crc:4 JSON            ; which runs there are, and what came before the log;
                                            ; see checked_json

    record   = kind:1 number:8 at:8 body    ; in the write-ahead log

All integers are big-endian without a sign. Times are microseconds since 1970 on the clock of
delays, which no step of the wall clock moves.

Source: ours; see docs/formats/rabbitmq-delayed.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import IntEnum
from struct import Struct, error
from typing import Final, NamedTuple

import msgspec

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.checked_json import CheckedJson
from sprocket.rabbitmq.model.names import name_bytes, name_text

MAGIC: Final = b"SpD2"
_MAGIC_WITHOUT_SUMS: Final = b"SpD1"
MAGIC_START: Final = b"SpD"
"""How a block of any version begins."""

_HEAD = Struct(">4sIIIIQQQQ")
HEAD_BYTES: Final = _HEAD.size
_HEAD_CHECKED = Struct(">IIIQQQQ")
_HEAD_CHECKED_FROM = HEAD_BYTES - _HEAD_CHECKED.size
_ENTRY = Struct(">QQBI")
_RECORD = Struct(">BQQ")
_KEY = Struct(">QQ")
_OFFSET = Struct(">q")
_COUNT = Struct(">I")
_LENGTH = Struct(">B")
_CRC_BYTES = 4
_SUM = Struct(">II")


class DelayedRecordKind(IntEnum):
    """What a record in the log says."""

    ADDED = 1
    """A message waits: an entry."""
    DONE = 2
    """What is due up to here was routed: a key, then the exchanges and how many of each."""
    DROPPED = 3
    """An exchange is gone, and what waited for it."""
    CLOCK = 4
    """The wall clock was set: how far the clock of delays is ahead of it."""


class DelayedKey(NamedTuple):
    """The order of delayed messages; each has one of its own."""

    due_us: int
    number: int


class DelayedEntry(msgspec.Struct, frozen=True, gc=False):
    """A message that waits.

    Attributes:
        due_us: When it is to be routed.
        number: Of the record that added it; larger than all before.
        exchange: Which one keeps it.
        term: The message, as queues store it.
    """

    due_us: int
    number: int
    exchange: str
    term: bytes

    @property
    def key(self) -> DelayedKey:
        """Its place among the others."""
        return DelayedKey(self.due_us, self.number)


class Added(NamedTuple):
    """See `DelayedRecordKind`; `at_us` is when, as in the others."""

    number: int
    at_us: int
    entry: DelayedEntry


class Done(NamedTuple):
    """See `DelayedRecordKind`."""

    number: int
    at_us: int
    upto: DelayedKey
    counts: dict[str, int]


class Dropped(NamedTuple):
    """See `DelayedRecordKind`."""

    number: int
    at_us: int
    exchange: str


class ClockSet(NamedTuple):
    """See `DelayedRecordKind`."""

    number: int
    at_us: int
    ahead_us: int


DelayedRecord = Added | Done | Dropped | ClockSet


class BlockHead(NamedTuple):
    """What stands before the entries of a block.

    Attributes:
        has_sums: Whether each entry has a checksum, too.
        crc: CRC-32 of sums and entries.
        size: Their bytes.
        entry_count: How many.
        first: The key of the first.
        last: The key of the last.
    """

    has_sums: bool
    crc: int
    size: int
    entry_count: int
    first: DelayedKey
    last: DelayedKey


class RunFile(msgspec.Struct, frozen=True, array_like=True):
    """A run that a manifest names."""

    number: int
    file_bytes: int
    """Of its file."""
    position: int
    """Blocks before it are obsolete."""


class DelayedManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was kept when the log's first record that counts had the number `next_number`.

    Attributes:
        next_number: Records in the log with smaller ones are in it already.
        done_us: Messages that were due by then were routed,
        done_number: up to this one.
        at_us: The time then, on the clock of delays.
        ahead_us: How far that was ahead of the wall clock.
        counts: Messages that wait, by exchange.
        dropped: Messages of an exchange with smaller numbers than this are void.
        runs: Where the messages are.
    """

    next_number: int = 1
    done_us: int = 0
    done_number: int = 0
    at_us: int = 0
    ahead_us: int = 0
    counts: dict[str, int] = {}
    dropped: dict[str, int] = {}
    runs: tuple[RunFile, ...] = ()


def encode_entry(one: DelayedEntry) -> bytes:
    """Return an entry's bytes."""
    name = name_bytes(one.exchange)
    return _ENTRY.pack(one.due_us, one.number, len(name), len(one.term)) + name + one.term


def decode_entries(data: Buffer) -> Iterator[DelayedEntry]:
    """Give the entries of a block.

    Raises:
        CorruptRecord: They are none.
    """
    at, end = 0, len(data)
    while at < end:
        try:
            due_us, number, length, size = _ENTRY.unpack_from(data, at)
        except error as caught:
            raise CorruptRecord("delayed messages: an entry is cut") from caught
        start = at + _ENTRY.size
        at = start + length + size
        if at > end:
            raise CorruptRecord("delayed messages: an entry is cut")
        name = name_text(bytes(data[start : start + length]))
        yield DelayedEntry(due_us, number, name, bytes(data[start + length : at]))


def block(entries: Sequence[DelayedEntry]) -> list[bytes]:
    """Return a block of some entries, in their order, as buffers."""
    parts = [encode_entry(one) for one in entries]
    payload = b"".join([*(_SUM.pack(len(one), crc32(one)) for one in parts), *parts])
    checked = _HEAD_CHECKED.pack(
        crc32(payload), len(payload), len(entries), *entries[0].key, *entries[-1].key
    )
    return [MAGIC + crc32(checked).to_bytes(_CRC_BYTES, "big") + checked, payload]


def decode_head(data: Buffer) -> BlockHead:
    """Return what a head says.

    Raises:
        CorruptRecord: It is not a head.
    """
    if len(data) < HEAD_BYTES:
        raise CorruptRecord("delayed messages: a block is cut")
    magic, head_crc, crc, size, count, *keys = _HEAD.unpack_from(data)
    if magic not in (MAGIC, _MAGIC_WITHOUT_SUMS) or head_crc != crc32(
        memoryview(data)[_HEAD_CHECKED_FROM:HEAD_BYTES]
    ):
        raise CorruptRecord("delayed messages: the head of a block is damaged")
    first, last = DelayedKey(*keys[:2]), DelayedKey(*keys[2:])
    return BlockHead(magic == MAGIC, crc, size, count, first, last)


class DecodedBlock(NamedTuple):
    """The entries of a block that are whole, and why others are not; empty if all are."""

    entries: list[DelayedEntry]
    fault: str


def decode_block(head: BlockHead, data: Buffer) -> DecodedBlock:
    """Return the entries after a head; of a damaged block those that have sums and are whole."""
    why = "a block has another checksum"
    body = memoryview(data)[head.entry_count * _SUM.size if head.has_sums else 0 :]
    if len(data) == head.size and crc32(data) == head.crc:
        try:
            return DecodedBlock(list(decode_entries(body)), "")
        except CorruptRecord as error:
            why = str(error)
    entries = _whole_entries(head, data, body) if head.has_sums else []
    return DecodedBlock(
        entries, f"{head.entry_count - len(entries)} messages cannot be read: {why}"
    )


def _whole_entries(head: BlockHead, data: Buffer, body: memoryview) -> list[DelayedEntry]:
    """Return the entries whose sums are right.

    An entry says how long it is, and its sum does so once more: one of the two is right.
    """
    table = memoryview(data)[: head.entry_count * _SUM.size]
    sums = list(_SUM.iter_unpack(table[: len(table) - len(table) % _SUM.size]))
    is_table_whole = sum([size for size, _ in sums]) == len(body)
    found: list[DelayedEntry] = []
    at = 0
    for size, crc in sums:
        ends = [at + size, at + _own_size(body, at)]
        if not is_table_whole:
            ends.reverse()
        end = next((one for one in ends if crc32(body[at:one]) == crc), None)
        if end is not None:
            with suppress(CorruptRecord):
                found += decode_entries(body[at:end])
        at = ends[0] if end is None else end
    return found


def _own_size(body: Buffer, at: int) -> int:
    """Return how long an entry says that it is; 0 if it cannot."""
    if at + _ENTRY.size > len(body):
        return 0
    _, _, length, size = _ENTRY.unpack_from(body, at)
    return int(_ENTRY.size + length + size)


def added(at_us: int, one: DelayedEntry) -> bytes:
    """Return the record of a message that waits."""
    return _RECORD.pack(DelayedRecordKind.ADDED, one.number, at_us) + encode_entry(one)


def done(number: int, at_us: int, upto: DelayedKey, counts: dict[str, int]) -> bytes:
    """Return the record that says what was routed."""
    parts = [_RECORD.pack(DelayedRecordKind.DONE, number, at_us), _KEY.pack(*upto)]
    parts.append(_COUNT.pack(len(counts)))
    for exchange, count in counts.items():
        name = name_bytes(exchange)
        parts += (_LENGTH.pack(len(name)), name, _COUNT.pack(count))
    return b"".join(parts)


def dropped(number: int, at_us: int, exchange: str) -> bytes:
    """Return the record that says that an exchange is gone."""
    name = name_bytes(exchange)
    return _RECORD.pack(DelayedRecordKind.DROPPED, number, at_us) + _LENGTH.pack(len(name)) + name


def clock_set(number: int, at_us: int, ahead_us: int) -> bytes:
    """Return the record that says how far the clock of delays is ahead of the wall's."""
    return _RECORD.pack(DelayedRecordKind.CLOCK, number, at_us) + _OFFSET.pack(ahead_us)


def encode_record(one: DelayedRecord) -> bytes:
    """Return the bytes of a record."""
    match one:
        case Added(_, at_us, entry):
            return added(at_us, entry)
        case Done():
            return done(*one)
        case Dropped():
            return dropped(*one)
        case ClockSet(number, at_us, ahead_us):
            return clock_set(number, at_us, ahead_us)


def decode_records(data: Buffer) -> Iterator[DelayedRecord]:
    """Give the records that the log has.

    Raises:
        CorruptRecord: They are none; those before were given.
    """
    at = 0
    try:
        while at < len(data):
            kind, number, at_us = _RECORD.unpack_from(data, at)
            at += _RECORD.size
            match kind:
                case DelayedRecordKind.ADDED:
                    _, _, length, size = _ENTRY.unpack_from(data, at)
                    end = at + _ENTRY.size + length + size
                    (entry,) = decode_entries(memoryview(data)[at:end])
                    at = end
                    yield Added(number, at_us, entry)
                case DelayedRecordKind.DONE:
                    upto = DelayedKey(*_KEY.unpack_from(data, at))
                    (names,) = _COUNT.unpack_from(data, at + _KEY.size)
                    at += _KEY.size + _COUNT.size
                    counts = {}
                    for _ in range(names):
                        name, at = _name(data, at)
                        (counts[name],) = _COUNT.unpack_from(data, at)
                        at += _COUNT.size
                    yield Done(number, at_us, upto, counts)
                case DelayedRecordKind.DROPPED:
                    name, at = _name(data, at)
                    yield Dropped(number, at_us, name)
                case DelayedRecordKind.CLOCK:
                    (ahead_us,) = _OFFSET.unpack_from(data, at)
                    at += _OFFSET.size
                    yield ClockSet(number, at_us, ahead_us)
                case _:
                    raise CorruptRecord(f"delayed messages: a record of kind {kind}")
    except error as caught:
        raise CorruptRecord("delayed messages: a record is cut") from caught


def _name(data: Buffer, at: int) -> tuple[str, int]:
    """Return a name and where it ends."""
    (length,) = _LENGTH.unpack_from(data, at)
    start = at + _LENGTH.size
    if start + length > len(data):
        raise CorruptRecord("delayed messages: a name is cut")
    return name_text(bytes(data[start : start + length])), start + length


_MANIFEST = CheckedJson(b"SpM1", DelayedManifest)
encode_manifest = _MANIFEST.encode
decode_manifest = _MANIFEST.decode
