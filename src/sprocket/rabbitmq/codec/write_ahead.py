"""What the write-ahead log of all queues consists of: entries, in batches that are whole or void.

A batch is what was written at once: a head with a checksum over all the rest, and its entries. Most
are about an *origin*, which is a number for the folder of a queue. The number means something only
inside its file, where its name comes first.

Source: ours; see docs/formats/rabbitmq-write-ahead.md.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

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
_PLACE = Struct(">QQ")
CHECKED_TIMES_MAX = 16
"""So often all bytes of a file may be compared with checksums while batches are searched for."""
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
    """Recovery, which may be begun again, will append this to segments."""
    RECOVERED = 7
    """The end of a file. All that came before is in segments: void is every journal.jif, too."""
    CLOSED = 8
    """The end of a file. All that came before is in the files of queues."""
    PLACE = 9
    """First in its batch: the number of the file, and which batches were durable by then."""


class WriteAheadEntry(MsgStruct, frozen=True, gc=False):
    """One entry: its kind, its origin's number, and what its kind says."""

    kind: EntryKind
    origin: int
    content: bytes


_KINDS = (EntryKind.NAME, *EntryKind)
"""By number; 0 is not a kind. To look up a member by its number takes longer than an entry."""


@dataclass(frozen=True, slots=True)
class SegmentAppend:
    """Bytes that a flush puts after what a segment has.

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
        start: Its first byte.
        end: The first byte after it.
        synced: Batches with smaller numbers were durable when it was written.
    """

    sequence: int
    entries: tuple[WriteAheadEntry, ...]
    start: int
    end: int
    synced: int = 0


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
        CorruptRecord: It is not a NAME.
    """
    if len(content) <= _POSITION.size:
        raise CorruptRecord("write-ahead log: a name that is cut")
    folder, _, queue_name = content[_POSITION.size :].partition(_LINE_FEED)
    try:
        return NamedOrigin(folder.decode(), _POSITION.unpack_from(content)[0], queue_name)
    except ValueError as error:
        raise CorruptRecord(f"write-ahead log: a name that is not text: {error}") from error


class BatchPlace(NamedTuple):
    """What a PLACE says.

    Attributes:
        file: The number of the file that it is in.
        synced: Batches with smaller numbers were durable when it was written.
    """

    file: int
    synced: int


def place(file: int, synced: int) -> bytes:
    """Return the entry that says where a batch stands."""
    return ENTRY_HEAD.pack(EntryKind.PLACE, 0, _PLACE.size) + _PLACE.pack(file, synced)


def decode_place(content: bytes) -> BatchPlace:
    """Return what a PLACE says.

    Raises:
        CorruptRecord: It is not one.
    """
    if len(content) != _PLACE.size:
        raise CorruptRecord(f"write-ahead log: a place of {len(content)} bytes")
    return BatchPlace(*_PLACE.unpack(content))


def flush_content(appends: Sequence[SegmentAppend]) -> bytes:
    """Return what a FLUSH says."""
    return b"".join([_APPEND.pack(one.number, one.position, one.size, one.crc) for one in appends])


def decode_flush(content: bytes) -> list[SegmentAppend]:
    """Return what a FLUSH says.

    Raises:
        CorruptRecord: It is not a whole number of appends.
    """
    if len(content) % _APPEND.size:
        raise CorruptRecord(f"write-ahead log: a flush of {len(content)} bytes")
    return [SegmentAppend(*values) for values in _APPEND.iter_unpack(content)]


@dataclass(frozen=True, slots=True)
class WriteAheadGap:
    """A range of a file that is not a batch, where one was to be expected.

    Attributes:
        start: Its first byte.
        end: The first byte after it: of the next batch, or of the file.
        is_end: No batch follows in this file: a crash has cut the last one, or it is damaged.
        entries: What can be made out of the batch that stood there; any of it may be wrong.
    """

    start: int
    end: int
    is_end: bool
    entries: tuple[WriteAheadEntry, ...]


def scan(
    data: Buffer, number: int, sequence: int | None
) -> Iterator[WriteAheadBatch | WriteAheadGap]:
    """Yield the batches of a file, and the gaps between them.

    A file ends where no batch follows any more. What an earlier use of the file has left does not
    count: its batches say another file's number, or have numbers that are too low.

    Args:
        data: The file.
        number: Its own.
        sequence: The number that the first batch should have; a higher one says that some are
            missing, a lower one that later ones of the file before do not count. None for
            whichever it has.
    """
    view = memoryview(data)
    at = floor = 0
    search = _Search(view, number)
    while at + HEAD_BYTES <= len(view):
        found = search.batch(at, floor, sequence)
        if found is None:
            following = search.following(at, floor, sequence)
            if following is None:
                if _looks_cut(view, at, sequence):
                    size = _HEAD.unpack_from(view, at)[3]
                    end = min(at + HEAD_BYTES + size, len(view))
                    yield WriteAheadGap(at, end, True, _made_out(view, at))
                return
            found, start = following
            yield WriteAheadGap(at, start, False, _made_out(view, at))
        yield found
        sequence = floor = found.sequence + 1
        at = found.end


class _Search:
    """Finds batches in one file; a checksum over much is not made again and again for nothing."""

    def __init__(self, view: memoryview, number: int) -> None:
        self._view = view
        self._number = number
        self._bytes_left = CHECKED_TIMES_MAX * len(view)

    def batch(self, at: int, floor: int, sequence: int | None) -> WriteAheadBatch | None:
        """Return the batch at a position.

        Args:
            at: The position.
            floor: The number that it must have at least.
            sequence: The same for one that does not say where it stands: an earlier use of the file
                may have left it.
        """
        view = self._view
        if at + HEAD_BYTES > len(view):
            return None
        magic, crc, found, size = _HEAD.unpack_from(view, at)
        end = at + HEAD_BYTES + size
        if magic != MAGIC or end > len(view) or found < floor or size > self._bytes_left:
            return None
        self._bytes_left -= size
        if crc != crc32(view[at + _CHECKED_FROM : end]):
            return None
        try:
            entries = tuple(_entries(view, at + HEAD_BYTES, end))
            place = _place(entries)
        except CorruptRecord:
            return None
        if place is None:
            is_known = found >= sequence if sequence is not None else not at
            return WriteAheadBatch(found, entries, at, end) if is_known else None
        if place.file != self._number:
            return None
        return WriteAheadBatch(found, entries, at, end, place.synced)

    def following(
        self, at: int, floor: int, sequence: int | None
    ) -> tuple[WriteAheadBatch, int] | None:
        """Return the next batch after a gap, and where it begins."""
        view = self._view
        beyond = None if sequence is None else sequence + 1
        magic, _, found, size = _HEAD.unpack_from(view, at)
        if magic == MAGIC and found >= floor:  # a whole head may come before what is not a log
            start = at + HEAD_BYTES + size
            following = self.batch(start, floor, beyond)
            if following is not None:
                return following, start
        data = view.obj
        assert isinstance(data, bytes)
        start = data.find(MAGIC, at + 1)
        while start >= 0:
            following = self.batch(start, floor, beyond)
            if following is not None:
                return following, start
            start = data.find(MAGIC, start + 1)
        return None


def _place(entries: Sequence[WriteAheadEntry]) -> BatchPlace | None:
    """Return what a batch says of itself; None if an earlier version has written it."""
    if not entries or entries[0].kind != EntryKind.PLACE:
        return None
    return decode_place(entries[0].content)


def _looks_cut(view: memoryview, at: int, sequence: int | None) -> bool:
    """Say whether something stands at a position that was to be the next batch."""
    magic, crc, found, size = _HEAD.unpack_from(view, at)
    if found == sequence:
        return True
    end = at + HEAD_BYTES + size
    if magic != MAGIC or end > len(view):
        return False
    is_whole: bool = crc == crc32(view[at + _CHECKED_FROM : end])
    return not is_whole  # else an earlier use of the file has left it


def _made_out(view: memoryview, at: int) -> tuple[WriteAheadEntry, ...]:
    """Return the entries of a batch that does not count, as far as they can be made out."""
    size = _HEAD.unpack_from(view, at)[3]
    found: list[WriteAheadEntry] = []
    with contextlib.suppress(CorruptRecord):
        for one in _entries(view, at + HEAD_BYTES, min(at + HEAD_BYTES + size, len(view))):
            found.append(one)
    return tuple(found)


def _entries(data: Buffer, at: int, end: int) -> Iterator[WriteAheadEntry]:
    """Yield the entries of a batch; CorruptRecord if they are none."""
    while at < end:
        start = at + ENTRY_HEAD.size
        if start > end:
            raise CorruptRecord("write-ahead log: an entry is cut")
        kind, origin, size = ENTRY_HEAD.unpack_from(data, at)
        at = start + size
        if at > end or not EntryKind.NAME <= kind <= EntryKind.PLACE:
            raise CorruptRecord("write-ahead log: an entry that is none")
        yield WriteAheadEntry(_KINDS[kind], origin, bytes(data[start:at]))
