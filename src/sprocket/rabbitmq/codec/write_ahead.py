"""What the write-ahead log of all queues consists of: entries, in batches that are whole or void.

A batch is what was written at once: a head with a checksum over all the rest, and its entries. Most
are about an *origin*, which is a number for the folder of a queue. The number means something only
inside its file, where its name comes first.

Source: ours; see docs/formats/rabbitmq-write-ahead.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from msgspec import Struct as MsgStruct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord

MAGIC = b"SpW1"
_HEAD = Struct(">4sIQI")
HEAD_BYTES = _HEAD.size
_CHECKED_FROM = 8
_CHECKED = Struct(">QI")
ENTRY_HEAD = Struct(">BII")
_APPEND = Struct(">QQII")
_POSITION = Struct(">Q")
_LINE_FEED = b"\n"


class EntryKind(IntEnum):
    """What an entry says."""

    NAME = 1
    """The origin's number stands for this queue's folder; so long is its journal.jif."""
    RECORDS = 2
    """Records of the origin's journal, as in a journal.jif."""
    FLUSH = 3
    """What came before, will be in the segments: what will be appended to which."""
    FLUSHED = 4
    """What came before the origin's last FLUSH is in the segments, durably."""
    GONE = 5
    """What came before is void: the queue was deleted or purged."""
    APPENDS = 6
    """Recovery, which may be begun anew, will append this to segments."""
    RECOVERED = 7
    """The end of a file. All that came before is in segments: void is every journal.jif, too."""
    CLOSED = 8
    """The end of a file. All that came before is in the files of queues."""


class WriteAheadEntry(MsgStruct, frozen=True, gc=False):
    """One entry: its kind, its origin's number, and what its kind says."""

    kind: EntryKind
    origin: int
    content: bytes


_KINDS = (EntryKind.NAME, *EntryKind)
"""By number, of which 0 is none: to make a member of its number takes longer than an entry."""


@dataclass(frozen=True, slots=True)
class SegmentAppend:
    """Bytes that a flush puts behind what a segment has.

    Attributes:
        number: Of the segment.
        position: Bytes that it had before.
        size: Bytes that are appended.
        crc: CRC-32 of these.
    """

    number: int
    position: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class WriteAheadBatch:
    """A batch that was read.

    Attributes:
        sequence: Its number; each is one more than the one before.
        entries: In order.
        end: The first byte behind it.
    """

    sequence: int
    entries: tuple[WriteAheadEntry, ...]
    end: int


def batch_head(sequence: int, payload: Buffer) -> bytes:
    """Return what stands before the entries of a batch."""
    size = len(payload)
    crc = crc32(payload, crc32(_CHECKED.pack(sequence, size)))
    return _HEAD.pack(MAGIC, crc, sequence, size)


@dataclass(frozen=True, slots=True)
class NamedOrigin:
    """What a NAME says.

    Attributes:
        folder: What the queue's folder is called.
        journal_bytes: How long its journal.jif is.
        queue_name: What its .queue_name holds, or will hold; empty if that is not known.
    """

    folder: str
    journal_bytes: int = 0
    queue_name: bytes = b""


def name(origin: int, named: NamedOrigin) -> bytes:
    """Return the entry that gives a number to a folder."""
    content = _POSITION.pack(named.journal_bytes) + named.folder.encode()
    if named.queue_name:
        content += _LINE_FEED + named.queue_name
    return ENTRY_HEAD.pack(EntryKind.NAME, origin, len(content)) + content


def decode_name(content: bytes) -> NamedOrigin:
    """Return what a NAME says.

    Raises:
        CorruptRecord: It is none.
    """
    if len(content) <= _POSITION.size:
        raise CorruptRecord("write-ahead log: a name that is cut")
    folder, _, queue_name = content[_POSITION.size :].partition(_LINE_FEED)
    try:
        return NamedOrigin(folder.decode(), _POSITION.unpack_from(content)[0], queue_name)
    except ValueError as error:
        raise CorruptRecord(f"write-ahead log: a name that is no text: {error}") from error


def flush_content(appends: Sequence[SegmentAppend]) -> bytes:
    """Return what a FLUSH says."""
    return b"".join([_APPEND.pack(one.number, one.position, one.size, one.crc) for one in appends])


def decode_flush(content: bytes) -> list[SegmentAppend]:
    """Return what a FLUSH says.

    Raises:
        CorruptRecord: Its length is none of a whole number of appends.
    """
    if len(content) % _APPEND.size:
        raise CorruptRecord(f"write-ahead log: a flush of {len(content)} bytes")
    return [SegmentAppend(*values) for values in _APPEND.iter_unpack(content)]


def batches(data: Buffer, sequence: int | None) -> Iterator[WriteAheadBatch]:
    """Yield the batches of a file, from its beginning up to the first that is not whole.

    What was left in the file by an earlier use of it does not count: its numbers are too low.

    Args:
        data: The file.
        sequence: The number that the first must have; None for whichever it has.
    """
    at = 0
    while at + HEAD_BYTES <= len(data):
        magic, crc, found, size = _HEAD.unpack_from(data, at)
        end = at + HEAD_BYTES + size
        if magic != MAGIC or end > len(data) or (sequence is not None and found != sequence):
            return
        if crc != crc32(memoryview(data)[at + _CHECKED_FROM : end]):
            return
        try:
            entries = tuple(_entries(data, at + HEAD_BYTES, end))
        except CorruptRecord:
            return
        yield WriteAheadBatch(found, entries, end)
        sequence, at = found + 1, end


def _entries(data: Buffer, at: int, end: int) -> Iterator[WriteAheadEntry]:
    """Yield the entries of a batch; CorruptRecord if they are none."""
    while at < end:
        start = at + ENTRY_HEAD.size
        if start > end:
            raise CorruptRecord("write-ahead log: an entry is cut")
        kind, origin, size = ENTRY_HEAD.unpack_from(data, at)
        at = start + size
        if at > end or not EntryKind.NAME <= kind <= EntryKind.CLOSED:
            raise CorruptRecord("write-ahead log: an entry that is none")
        yield WriteAheadEntry(_KINDS[kind], origin, bytes(data[start:at]))
