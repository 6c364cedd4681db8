"""One round of compaction: of all files but the last only the newest message of each key stays.

1. *Keys.* Of what is newer than the last round the newest queue offset of each key is noted, as far
   as memory goes.
2. *Copy.* A record is kept if it is the newest of its key and has a body, or newer than what was
   noted. One without a body is removed, and so is all that it deleted.
3. *Swap.* The new files take the place of the old ones; see `swap`.

Each step reads a piece, so that others go on in between. What is under way when the process ends is
removed, or finished, when the store is opened. New messages are copied behind the last file
meanwhile, which a round does not look at.

Source: RocketMQ `CompactionLog.doCompaction`. Unlike there a round that finds nothing to keep, or
more keys than memory has room for, comes to its end.
"""

from contextlib import closing
from functools import partial

import numpy as np
from msgspec import Struct

from sprocket.base.disk import Disk, Steps
from sprocket.rocketmq.store.compaction import swap as swaps
from sprocket.rocketmq.store.compaction.compacted_file import (
    CompactedFile,
    RecordPiece,
    StoredRecord,
    read_piece,
)
from sprocket.rocketmq.store.compaction.compacted_queue import CompactedQueue
from sprocket.rocketmq.store.compaction.compacted_writer import CompactedWriter
from sprocket.rocketmq.store.compaction.key_map import KEY_BYTES, KeyMap, digest
from sprocket.rocketmq.store.compaction.swap import PendingSwap

KEYS_MIN = 100
"""Keys that a round has room for at least, as in RocketMQ."""


class RoundReport(Struct):
    """What a round did; it is filled as the round goes on.

    Attributes:
        read: Records that were looked at.
        kept: Records that are left of them.
        damaged: How many times something was passed over that is not a record.
    """

    read: int = 0
    kept: int = 0
    damaged: int = 0


def is_due(queue: CompactedQueue) -> bool:
    """Say whether there is something for a round to do."""
    return queue.pending is not None or any(
        file.next_offset - 1 > queue.position for file in queue.files[:-1]
    )


def steps(disk: Disk, queue: CompactedQueue, keys_bytes_max: int, report: RoundReport) -> Steps:
    """Do one round, if one is due and there is room for it.

    Args:
        disk: Where the queue lies.
        queue: What to compact.
        keys_bytes_max: Memory for its keys.
        report: Is told what was done.

    Raises:
        DiskFull, DiskFailed: The queue is as it was; a swap that had begun is finished next time.
    """
    if queue.pending is not None:
        yield from _swap_steps(disk, queue, queue.pending)
    old = queue.files[:-1]
    if not is_due(queue):
        return
    starts = queue.free_starts()
    if len(starts) < len(old):
        queue.wants_file = True  # there is room for the next round
        return
    keys = KeyMap(max(keys_bytes_max // KEY_BYTES, KEYS_MIN))
    yield partial(swaps.prepare, disk, queue.folders)
    for file in old:
        if file.next_offset - 1 <= queue.position:
            continue
        place = file.start
        while place < file.end and not keys.is_full and not queue.is_dropped:
            place = yield partial(_note_keys, disk, queue, file, place, keys)
    writer = CompactedWriter(disk, queue.folders.compacting, None, iter(starts))
    with closing(writer):
        for file in old:
            place = file.start
            while place < file.end and not queue.is_dropped:
                place = yield partial(_copy_kept, disk, queue, file, place, keys, writer, report)
        if queue.is_dropped:
            return
        yield writer.close_file
    position = keys.last_offset if keys.is_full else old[-1].next_offset - 1
    queue.pending = PendingSwap(old, writer.files, position)
    yield from _swap_steps(disk, queue, queue.pending)


def _note_keys(
    disk: Disk, queue: CompactedQueue, file: CompactedFile, place: int, keys: KeyMap
) -> int:
    """Put the keys of a piece; return where to go on."""
    piece = read_piece(disk, queue.folders, queue.key, file, place)
    new = [
        one
        for one in piece.records
        if one.known.entry.queue_offset > queue.position and one.known.key
    ]
    keys.put([digest(one.known.key) for one in new], [one.known.entry.queue_offset for one in new])
    return piece.next_place


def _copy_kept(
    disk: Disk,
    queue: CompactedQueue,
    file: CompactedFile,
    place: int,
    keys: KeyMap,
    writer: CompactedWriter,
    report: RoundReport,
) -> int:
    """Copy what is kept of a piece; return where to go on."""
    piece = read_piece(disk, queue.folders, queue.key, file, place)
    kept = _kept(piece, keys)
    for one in kept:
        writer.add(one.stored, one.known.entry)
    report.read += len(piece.records)
    report.kept += len(kept)
    report.damaged += piece.damaged
    return piece.next_place


def _kept(piece: RecordPiece, keys: KeyMap) -> list[StoredRecord]:
    """Return the records of a piece that stay."""
    known = [one.known for one in piece.records]
    offsets = np.array([one.entry.queue_offset for one in known], np.int64)
    newest = keys.newest([digest(one.key) for one in known])
    has_body = np.array([one.has_body and bool(one.key) for one in known], np.bool_)
    keep = (offsets > keys.last_offset) | ((offsets >= newest) & has_body)
    return [one for one, stays in zip(piece.records, keep, strict=True) if stays]


def _swap_steps(disk: Disk, queue: CompactedQueue, pending: PendingSwap) -> Steps:
    """Have new files take the place of old ones; what fails is tried again by the next round."""
    folders = queue.folders
    if not pending.is_taken:
        yield partial(swaps.commit, disk, folders, pending.swap)
        yield partial(swaps.move_up, disk, folders, pending.swap)
        if queue.is_dropped:
            return
        queue.take_swapped(pending.old, pending.made)
        queue.position = pending.position
        pending.is_taken = True
    yield partial(swaps.finish, disk, folders, pending.swap)
    queue.pending = None
