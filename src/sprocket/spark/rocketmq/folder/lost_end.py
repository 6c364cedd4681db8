"""Whether a closed log ends before the place that it had reached when it was closed.

If its newest file is cut short, or missing, what is left is a log that looks whole. What else there
is in the folder tells how far it went; all of it is written before a store counts as closed:

1. The note of a clean stop of ours says it exactly, and nothing else counts if the log ends there.
   A RocketMQ that ran on the folder later leaves it as it is; its checkpoint is younger then.
2. The newest unit of each queue names a record, which was in the log. Queues elsewhere than on the
   local disk are not asked, since each takes some requests; nor are those in RocksDB.
3. The checkpoint has the store time of the last message.

A store that is open, or was not closed, promised nothing of its last moments. All of this is read
before the end of the log is looked for: a broker that opens the store meanwhile only adds to it.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from sprocket.base.disk import RealDisk
from sprocket.base.errors import FileMissing
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, HEAD, MAGIC_BLANK
from sprocket.rocketmq.store import clean_note
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.spark.files import Files, read_whole
from sprocket.spark.rocketmq.folder.queue_files import queue_files
from sprocket.spark.rocketmq.rows.damage import DamagedRange

_CLOCK_STEP_MS = 3_600_000
"""A store time that is later than its checkpoint by more was not written by a broker."""


@dataclass(frozen=True, slots=True)
class ClosedLog:
    """How far a log went when it was closed, as far as its folder says.

    Args:
        end: Physical offset of its end, or one up to which it went at least; 0 if none is known.
        told_by: The file or folder that says so.
        is_exact: It was the end.
        at_ms: Store time of its last message; 0 if it is not known.
        checkpoint: The file that says so.
    """

    end: int
    told_by: str
    is_exact: bool
    at_ms: int
    checkpoint: str

    def lost(
        self,
        files: Files,
        path: str,
        end: int,
        stored_at_ms: Callable[[], int],
    ) -> DamagedRange | None:
        """Return what the log has lost of its end; None if nothing says that it has.

        Args:
            files: Where.
            path: Its newest file, or its folder if there is none.
            end: Physical offset after its last record.
            stored_at_ms: Returns the store time of that record, 0 if there is none.
        """
        behind = _behind_blank(files, path, end) if self.end > end else end
        if self.end > behind:
            least = "" if self.is_exact else "at least "
            why = (
                f"the log ends here, and went to {least}{self.end} when it was closed, as"
                f" {self.told_by} says: {self.end - end} bytes are lost"
            )
            return DamagedRange(path, end, self.end - end, why)
        if self.is_exact and end <= self.end:
            return None
        last_ms = stored_at_ms() if self.at_ms else 0
        if 0 < last_ms < self.at_ms:
            why = (
                f"the log ends here with a message that was stored at {last_ms}, and had one of"
                f" {self.at_ms} when it was closed, as {self.checkpoint} says (ms since 1970):"
                " messages are lost"
            )
            return DamagedRange(path, end, 0, why)
        return None


def closed_log(files: Files, layout: StoreLayout, *, asks_queues: bool = True) -> ClosedLog | None:
    """Return how far a log went; None if its store is open, or was not closed.

    Args:
        files: Where.
        layout: The store's.
        asks_queues: The queues may be believed.
    """
    if files.exists(layout.abort):
        return None
    at_ms = durable_at_ms(files, layout) or 0
    try:
        note = clean_note.decode(read_whole(files, layout.clean))
    except FileMissing:
        note = None
    is_last = note is not None and not _is_older(files, layout.clean, layout.checkpoint)
    end, told_by = 0, ""
    if asks_queues and not is_last and isinstance(files, RealDisk):
        end, told_by = _end_by_queues(files, layout)
    if note is not None and note.log_end >= end:
        end, told_by = note.log_end, layout.clean
    return ClosedLog(end, told_by, is_last, at_ms, layout.checkpoint)


def _is_older(files: Files, path: str, other: str) -> bool:
    """Tell whether a file was written before another one, which may not be there."""
    try:
        return files.modified_at_ms(path) < files.modified_at_ms(other)
    except FileMissing:
        return False


def _behind_blank(files: Files, path: str, end: int) -> int:
    """Return where the log ends if what stands after its last record is a blank one."""
    name = path.rpartition("/")[2]
    if not name.isdecimal():
        return end
    with closing(files.open(path)) as file:
        head = file.read(end - int(name), BLANK_BYTES)
        if len(head) < BLANK_BYTES or HEAD.unpack(head)[1] != MAGIC_BLANK:
            return end
        return int(name) + file.size()


def _end_by_queues(files: Files, layout: StoreLayout) -> tuple[int, str]:
    """Return the end of the last record that a queue has a unit of, and the queue's folder."""
    end, told_by = 0, ""
    for topic in files.folders(layout.consumequeue):
        for queue_id in files.folders(f"{layout.consumequeue}/{topic}"):
            if not queue_id.isdecimal():
                continue
            queue = queue_files(files, layout, topic, int(queue_id))
            bounds = queue.offsets(0)
            unit = queue.unit(bounds.end - 1) if bounds is not None else None
            if unit is not None and unit.size != FILLER_SIZE and unit.start + unit.size > end:
                end, told_by = unit.start + unit.size, layout.queue(topic, int(queue_id))
    return end, told_by


def durable_at_ms(files: Files, layout: StoreLayout) -> int | None:
    """Return the store time of the last message that a broker made durable, None if unknown."""
    from sprocket.rocketmq.store.recovery import checkpoint  # most plans do without

    try:
        found = checkpoint.decode(read_whole(files, layout.checkpoint)).log_at_ms
    except FileMissing:
        return None
    written_at_ms = files.modified_at_ms(layout.checkpoint)
    return found if found <= written_at_ms + _CLOCK_STEP_MS else None
