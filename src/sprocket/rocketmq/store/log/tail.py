"""The end of the log for dispatch: what was written lately is still in memory.

It is read from its file only when it is no longer here. A read from the file has a price: the
system reads ahead, and in a log that is being written it would make pages of what is not written
yet, up to 30 ms at a time.
"""

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from sprocket.base.disk import Buffer, SegmentFiles
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.record_layout import MAGIC_AT

KEPT_BYTES_MAX = 16 * MIB
"""Kept of what nobody has asked to drop."""

READ_BYTES = 4 * MIB
"""Read from a file at once."""

Run: TypeAlias = tuple[int, int, Sequence[Buffer]]
"""Where bytes that were written together begin and end in the log, and they."""


class Tail:
    """Gives bytes of the log.

    Args:
        files: The log's.
    """

    def __init__(self, files: SegmentFiles) -> None:
        self.files = files
        self._runs: deque[Run] = deque()
        self._kept_bytes = 0

    def add(self, run: Run) -> None:
        """Keep what was written to one file."""
        self._runs.append(run)
        self._kept_bytes += run[1] - run[0]
        while self._kept_bytes > KEPT_BYTES_MAX:
            self._forget()

    def drop(self, end: int) -> None:
        """Keep nothing that lies before a place."""
        while self._runs and self._runs[0][1] <= end:
            self._forget()

    def _forget(self) -> None:
        start, end, _ = self._runs.popleft()
        self._kept_bytes -= end - start

    def read(self, place: int, end: int) -> bytes | memoryview:
        """Return what lies from a place on in its file: some MiB, but a whole record.

        Args:
            place: Where a record, a blank or a file begins.
            end: Where to stop: where a record ended that was written, or the file.
        """
        found: list[Buffer] = []
        behind = place
        for run_start, run_end, buffers in self._runs:
            if run_end <= place:
                continue
            if run_start > behind or behind >= min(end, place + READ_BYTES):
                break
            found += _from(buffers, behind - run_start) if run_start < behind else buffers
            behind = run_end
        if not found:
            return self._read_file(place, end)
        data = memoryview(found[0]) if len(found) == 1 else b"".join(found)
        return data if behind <= end else memoryview(data)[: end - place]

    def _read_file(self, place: int, end: int) -> bytes:
        segment = self.files.segment(place)
        first = place - segment.start
        data = segment.file.read(first, min(end - place, READ_BYTES))
        size = int.from_bytes(data[:MAGIC_AT], "big")
        return segment.file.read(first, size) if len(data) < size <= end - place else data


def _from(buffers: Sequence[Buffer], at: int) -> list[Buffer]:
    """Return what some buffers have from a position on, nothing of it copied."""
    for number, buffer in enumerate(buffers):
        if at < len(buffer):
            return [memoryview(buffer)[at:], *buffers[number + 1 :]]
        at -= len(buffer)
    return []
