"""Copies the new messages of a queue into its compacted queue, a part at a time.

Copying continues after the last queue offset that was copied; nothing else is noted. So after a
crash at any step only the torn end has to be cut off, and a part that failed is copied again, to
the same places.

A message without KEYS is not copied, as in RocketMQ; brokers take none. Nor is one that is damaged.
One that the disk does not read now is not passed over: the part ends before it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from msgspec import Struct

from sprocket.base.disk import Disk, File, Segment, SegmentFiles
from sprocket.base.errors import (
    DiskFailed,
    DiskRefused,
    FileMissing,
    OffsetTooLarge,
    OffsetTooSmall,
    WireError,
)
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.record import keyed
from sprocket.rocketmq.codec.record_layout import RECORD_BYTES_MIN
from sprocket.rocketmq.store.compaction.compacted_file import CompactedFile
from sprocket.rocketmq.store.compaction.compacted_queue import CompactedQueue
from sprocket.rocketmq.store.compaction.compacted_writer import CompactedWriter, following_starts
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.queue import FILLER_SIZE, Queue, QueueKey

PART_BYTES = MIB
"""Records that are copied by one step, about 20 ms of a core; syncs of the log wait for it."""
PART_UNITS = 4096
"""Units that one step looks at."""
BLOCK_GAP_BYTES = 16 * KIB
BLOCK_BYTES = 256 * KIB
"""Records with no more than this between them are read together, up to so much."""


class WantedMessage(Struct, frozen=True, gc=False):
    """Where a message is: the file of the log, where in it, its size, and its queue offset."""

    segment: Segment
    position: int
    size: int
    offset: int


class CopyPart(Struct, frozen=True):
    """What one step copies.

    Attributes:
        folders: Of the compacted queue.
        key: The queue.
        last: The file that is continued.
        count: How many files there are.
        wants_file: Whether the first record goes into a new one.
        wanted: The messages.
        followed_to: So far the queue was looked at for them.
    """

    folders: QueueFolders
    key: QueueKey
    last: CompactedFile | None
    count: int
    wants_file: bool
    wanted: Sequence[WantedMessage]
    followed_to: int


class Copied(Struct, frozen=True):
    """What came of a part.

    Attributes:
        files: Files that were written to, in order.
        left_out: Messages that were damaged, or have no key.
        followed_to: So far all is copied that is to be.
        unread: The message at which it ended, as the disk did not read it.
    """

    files: Sequence[CompactedFile]
    left_out: int
    followed_to: int
    unread: WantedMessage | None = None


def next_part(
    target: CompactedQueue, source: Queue, log: SegmentFiles, synced: int
) -> CopyPart | None:
    """Return the next messages to copy, None if all are copied.

    Args:
        target: Where to.
        source: The queue.
        log: The files of the log.
        synced: Up to where the disk has it; the rest may not survive, and waits.
    """
    offset = first = max(target.followed_to, source.min_offset)
    wanted: list[WantedMessage] = []
    size_left = PART_BYTES
    while size_left > 0 and len(wanted) < PART_UNITS and offset < source.max_offset:
        try:
            units = source.units(offset, PART_UNITS)
        except OffsetTooSmall:
            offset = source.after_unreadable(offset)
            continue
        for unit_first, place, size, _code, messages in units:
            if size != FILLER_SIZE and place + size > synced:
                return _part(target, wanted, offset, first)
            offset = unit_first + messages
            if size != FILLER_SIZE and size >= RECORD_BYTES_MIN:
                try:
                    segment = log.segment(place)
                except (OffsetTooSmall, OffsetTooLarge):
                    continue
                wanted.append(WantedMessage(segment, place - segment.start, size, unit_first))
                size_left -= size
            if size_left <= 0 or len(wanted) >= PART_UNITS:
                break
    return _part(target, wanted, offset, first)


def _part(
    target: CompactedQueue, wanted: list[WantedMessage], offset: int, first: int
) -> CopyPart | None:
    if offset == first and first <= target.followed_to:
        return None
    return CopyPart(
        target.folders,
        target.key,
        target.files[-1] if target.files else None,
        len(target.files),
        target.wants_file,
        wanted,
        offset,
    )


def copy(disk: Disk, part: CopyPart) -> Copied:
    """Copy a part.

    Raises:
        MessageTooLarge: No file has room for a record.
        DiskFull, DiskFailed: Nothing of it counts.
    Durability: on the disk on return.
    Threads: any.
    """
    if not part.wanted:
        return Copied((), 0, part.followed_to)
    folders = part.folders
    if part.last is None:
        for folder in (folders.units, folders.log):
            disk.make_folder(folder)
    starts = following_starts(part.last, part.count, folders.log_bytes)
    writer = CompactedWriter(disk, folders, part.last, starts)
    looked_at = copied = 0
    unread = None
    with ExitStack() as at_the_end:
        at_the_end.callback(writer.close)
        if part.wants_file:
            writer.begin_anew()
        for wanted, stored in _stored(disk, part.wanted, at_the_end):
            if stored is None:
                unread = wanted
                break
            looked_at += 1
            known = _meant(stored, wanted, part.key)
            if known is not None:
                writer.add(stored, known.entry)
                copied += 1
        writer.flush()
    followed_to = part.followed_to if unread is None else unread.offset
    return Copied(writer.files, looked_at - copied, followed_to, unread)


def _stored(
    disk: Disk, wanted: Sequence[WantedMessage], at_the_end: ExitStack
) -> Iterator[tuple[WantedMessage, memoryview | None]]:
    """Give each message with what is stored at its place, None where that cannot be read."""
    open_files: dict[str, File] = {}
    number = 0
    while number < len(wanted):
        first = wanted[number]
        block = list(_block(wanted, number))
        file = open_files.get(first.segment.path)
        if file is None:
            file = open_files[first.segment.path] = disk.open(first.segment.path)
            at_the_end.callback(file.close)
        end = block[-1].position + block[-1].size
        data: memoryview | None
        try:
            data = memoryview(file.read(first.position, end - first.position))
        except (FileMissing, DiskRefused):
            raise
        except DiskFailed:
            if len(block) > 1:  # one by one, then
                block, data = block[:1], _read_alone(file, first)
            else:
                data = None
        for one in block:
            at = one.position - first.position
            yield one, None if data is None else data[at : at + one.size]
        number += len(block)


def _read_alone(file: File, wanted: WantedMessage) -> memoryview | None:
    try:
        return memoryview(file.read(wanted.position, wanted.size))
    except (FileMissing, DiskRefused):
        raise
    except DiskFailed:
        return None


def _block(wanted: Sequence[WantedMessage], number: int) -> Iterator[WantedMessage]:
    """Give the messages from one on that are read together."""
    first = wanted[number]
    yield first
    end = first.position + first.size
    for one in islice(wanted, number + 1, None):
        is_near = one.segment is first.segment and end <= one.position <= end + BLOCK_GAP_BYTES
        if not is_near or one.position + one.size - first.position > BLOCK_BYTES:
            return
        yield one
        end = one.position + one.size


def _meant(stored: memoryview, wanted: WantedMessage, key: QueueKey) -> keyed.KeyedRecord | None:
    """Return what compaction needs of a record, None if it is another record or has no key.

    One with a wrong body is copied: readers are told of that by its checksum.
    """
    try:
        known = keyed.read(stored)
    except WireError:
        return None
    entry = known.entry
    place = wanted.segment.start + wanted.position
    if (entry.topic, entry.queue_id) != key or entry.physical_offset != place:
        return None
    return known if known.key and entry.queue_offset == wanted.offset else None
