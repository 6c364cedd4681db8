"""The end of the log for dispatch: what was written lately is still in memory.

It is read from its file only when it is no longer here. A read from the file has a price: the
system reads ahead, and in a log that is being written it would make pages of what is not written
yet, up to 30 ms at a time.

What came from another log was looked at before it was written, many records at a time as columns.
These are kept beside the bytes, for queues and index.
"""

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from sprocket.base.disk import Buffer, SegmentFiles
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record_layout import MAGIC_AT

KEPT_BYTES_MAX = 16 * MIB
"""Kept of what nobody has asked to drop."""

FOLLOWED_BYTES_MAX = 96 * MIB
"""The same where another log is followed: with sync flush, queues get what is on the disk, and that
may be so far behind what came (`replication.log_intake`)."""

READ_BYTES = 4 * MIB
"""Read from a file at once."""

Run: TypeAlias = tuple[int, int, Sequence[Buffer]]
"""Where bytes that were written together begin and end in the log, and they."""


class Tail:
    """Gives bytes of the log.

    Args:
        files: The log's.

    Attributes:
        kept_bytes_max: Kept of what nobody has asked to drop.
    """

    def __init__(self, files: SegmentFiles) -> None:
        self.files = files
        self.kept_bytes_max = KEPT_BYTES_MAX
        self._runs: deque[Run] = deque()
        self._kept_bytes = 0
        self._batches: deque[RecordBatch] = deque()

    def add(self, run: Run) -> None:
        """Keep what was written to one file."""
        self._runs.append(run)
        self._kept_bytes += run[1] - run[0]
        while self._kept_bytes > self.kept_bytes_max:
            self._forget()

    def add_batch(self, batch: RecordBatch) -> None:
        """Keep records behind those that are kept, for as long as the bytes that are added next."""
        self._batches.append(batch)

    def drop(self, end: int) -> None:
        """Keep nothing that lies before a place."""
        while self._runs and self._runs[0][1] <= end:
            self._forget()

    def _forget(self) -> None:
        start, end, _ = self._runs.popleft()
        self._kept_bytes -= end - start
        while self._batches and self._batches[0].end <= end:
            self._batches.popleft()

    def batch(self, place: int, end: int, count_max: int) -> RecordBatch | None:
        """Return the records from a place on, if they are kept, at most so many; else None.

        The same ones are the same object, so that queues and index share what it has computed.

        Args:
            place: Where a record begins.
            end: Where the last of them ends at most.
            count_max: At least 1.
        """
        for batch in self._batches:
            if batch.end <= place:
                continue
            if batch.start > place:
                return None
            first = int(np.searchsorted(batch.physical_offset, place))
            stop = min(len(batch), first + count_max)
            if batch.end > end:
                ends = batch.physical_offset[first:stop] + batch.size[first:stop]
                stop = first + int(np.searchsorted(ends, end, side="right"))
            if first == stop or batch.physical_offset[first] != place:
                return None
            return batch if stop - first == len(batch) else batch.part(first, stop)
        return None

    def read(self, place: int, end: int) -> bytes | memoryview:
        """Return what lies from a place on in its file: some MiB, but a whole record.

        Nothing of what `batch` has is among it, unless it begins there.

        Args:
            place: Where a record, a blank or a file begins.
            end: Where to stop: where a record ended that was written, or the file.
        """
        end = min(end, next((one.start for one in self._batches if one.start > place), end))
        found: list[Buffer] = []
        behind = place
        for run_start, run_end, buffers in self._runs:
            if run_end <= place:
                continue
            if run_start > behind or behind >= min(end, place + READ_BYTES):
                break
            if place <= run_start and run_end <= end:
                found += buffers
            else:
                found += _part(buffers, place - run_start, end - run_start)
            behind = run_end
        if not found:
            return self._read_file(place, end)
        return memoryview(found[0]) if len(found) == 1 else b"".join(found)

    def _read_file(self, place: int, end: int) -> bytes:
        segment = self.files.segment(place)
        first = place - segment.start
        data = segment.file.read(first, min(end - place, READ_BYTES))
        size = int.from_bytes(data[:MAGIC_AT], "big")
        return segment.file.read(first, size) if len(data) < size <= end - place else data


def _part(buffers: Sequence[Buffer], start: int, stop: int) -> Sequence[Buffer]:
    """Return what some buffers have between two positions, nothing of it copied."""
    found: list[Buffer] = []
    at = 0
    for buffer in buffers:
        behind = at + len(buffer)
        if start <= at and behind <= stop:
            found.append(buffer)
        elif start < behind and at < stop:
            found.append(memoryview(buffer)[max(start - at, 0) : stop - at])
        at = behind
    return found
