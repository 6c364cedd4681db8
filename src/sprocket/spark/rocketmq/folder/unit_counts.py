"""How many messages of each queue a part of the log holds, from the units of the queues alone.

A unit has 20 bytes, a record some hundred. So where a query only counts messages, of all or by
topic and queue, most of the log need not be read.

Units are believed where they cover the part: each record that a unit names begins where another one
ends, from the first byte to the last. A record without a unit, one with two, and a unit that was
left behind when the log was cut show as a gap or an overlap. Then nothing is known of the part, and
its records have to be read.
"""

import contextlib
from contextlib import closing

import numpy as np

from sprocket.base.disk import RealDisk
from sprocket.base.errors import StoreError
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, HEAD, MAGIC_BLANK, RECORD_BYTES_MIN
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.spark.files import Files
from sprocket.spark.rocketmq.folder.plan import Span
from sprocket.spark.rocketmq.folder.queue_files import QueueFilesRead, queue_files
from sprocket.spark.rocketmq.rows.selection import QueueCount

QUEUES_MAX = 1000
"""Of a store. To find the units of a part in each of more takes as long as to read its records."""


class UnitCounts:
    """Counts by the units of a store.

    Args:
        files: Where; elsewhere than on the local disk nothing is known, as to find the units of a
            part takes many small reads.
        layout: The store.
    """

    def __init__(self, files: Files, layout: StoreLayout) -> None:
        self._files = files
        self._queues: list[tuple[str, int, QueueFilesRead]] = []
        if isinstance(files, RealDisk):
            with contextlib.suppress(StoreError):  # as in `of`
                self._queues = _queues(files, layout)

    def of(self, span: Span) -> list[QueueCount] | None:
        """Return what the queues have in a part of the log; None if that is not known.

        Files that were cleaned away or cannot be read make no query fail: who reads the log then
        tells what is wrong with that.
        """
        with contextlib.suppress(StoreError):
            return self._counted(span)
        return None

    def _counted(self, span: Span) -> list[QueueCount] | None:
        counts, starts, ends = [], [], []
        for topic, queue_id, queue in self._queues:
            units = queue.between(span.start, span.end)
            units = units[units["size"] != FILLER_SIZE]
            if (units["size"] < RECORD_BYTES_MIN).any():
                return None
            if len(units):
                counts.append(QueueCount(topic, queue_id, len(units)))
                starts.append(units["physical_offset"].astype(np.int64))
                ends.append(starts[-1] + units["size"])
        if not counts:
            return None
        # Each queue is in order already, which the stable sort makes use of.
        start = np.sort(np.concatenate(starts), kind="stable")
        end = np.sort(np.concatenate(ends), kind="stable")
        covers = start[0] == span.start and np.array_equal(start[1:], end[:-1])
        return counts if covers and self._is_end(span, int(end[-1])) else None

    def _is_end(self, span: Span, reached: int) -> bool:
        """Tell whether the records of a part end here: at its end, or before the padding."""
        if reached == span.end or not span.may_pad:
            return reached == span.end
        with closing(self._files.open(span.path)) as file:
            head = file.read(reached - span.base, BLANK_BYTES)
        return len(head) == BLANK_BYTES and HEAD.unpack(head)[1] == MAGIC_BLANK


def _queues(files: Files, layout: StoreLayout) -> list[tuple[str, int, QueueFilesRead]]:
    """Return the queues of a store; none if their units do not tell which messages there are.

    Where messages were erased their units are left, and the unit of a batch queue is of many.
    """
    if files.exists(layout.erased) or files.is_folder(layout.batch_queues):
        return []
    found: list[tuple[str, int, QueueFilesRead]] = []
    for topic in files.folders(layout.consumequeue) if files.is_folder(layout.consumequeue) else ():
        for name in files.folders(f"{layout.consumequeue}/{topic}"):
            if len(found) == QUEUES_MAX:
                return []
            if name.isdecimal():
                found.append((topic, int(name), queue_files(files, layout, topic, int(name))))
    return found
