"""What lies behind the end of a log: remains of what was there before, or records behind damage.

Planning ends the newest file where no record begins. If something in it is damaged, intact records
follow. So may records of an earlier life of the log, since RocketMQ does not erase what it cuts
off. As in recovery, a record behind damage belongs to the log if it is not older than the last one
before it, and its queue offset is not taken yet.
"""

from collections.abc import Callable
from contextlib import closing

import numpy as np

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.columns import Mask, RecordBatch, Records
from sprocket.spark.files import Files
from sprocket.spark.rocketmq.folder.slices import resync, slices

IsTaken = Callable[[str, int, int, int], bool]
"""Given topic, queue id, queue offset and place of a record: another one has its offset."""


def records_end(
    files: Files, path: str, base: int, end: int, stored_at_ms: int, is_taken: IsTaken
) -> int:
    """Return where the last record of a log ends, looking behind the place where it seems to end.

    Args:
        files: Where.
        path: The newest file of the log.
        base: Physical offset of its first byte.
        end: Physical offset at which no record begins.
        stored_at_ms: Store time of the last record before that.
        is_taken: Tells whether a record's queue offset is taken.

    Returns:
        The physical offset; `end` itself if no record of the log follows.
    """
    found_end = end
    with closing(files.open(path)) as file:
        at, size = end - base, _written_bytes(files, path)
        while (at := resync(file, base, at + 1, size)) >= 0:
            is_first = True
            for piece in slices(file, base, at, size):
                fresh = _are_fresh(piece.records, stored_at_ms, is_taken, is_first=is_first)
                count = len(fresh) if fresh.all() else int(np.argmin(fresh))
                if count:
                    at = piece.start + int(piece.records.end[count - 1])
                    found_end = base + at
                    stored_at_ms = int(piece.records.stored_at_ms[count - 1])
                    is_first = False
                if count < len(fresh):
                    break
    return found_end


def _written_bytes(files: Files, path: str) -> int:
    """Return a position in a file behind which nothing was ever written."""
    if isinstance(files, RealDisk):
        with closing(files.open(path)) as file:
            return file.data_end()
    with closing(files.open(path)) as other:
        return other.size()


def _are_fresh(found: Records, stored_at_ms: int, is_taken: IsTaken, *, is_first: bool) -> Mask:
    """Tell which records are intact and of the log's own life.

    Of the first behind damage one sign is enough that it is not, of others it takes both.
    """
    batch = RecordBatch(found)
    fresh: Mask = ~found.bad_bodies()
    times = np.append(stored_at_ms, batch.stored_at_ms)
    older = times[1:] < times[:-1]
    doubted = older.copy()
    doubted[:1] |= is_first
    for row in np.flatnonzero(doubted).tolist():
        taken = bool(batch.queueable[row]) and is_taken(
            batch.topic_names[int(batch.topic_number[row])],
            int(batch.queue_id[row]),
            int(batch.queue_offset[row]),
            int(batch.physical_offset[row]),
        )
        fresh[row] &= not (taken or (is_first and row == 0 and older[row]))
    return fresh
