"""What the queue files of a store's folder say, read by ranges: where a queue begins and ends.

They are there where queues are kept in files; of queues in RocksDB, of batch queues, and in a
folder that holds a log alone, nothing is known.
"""

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import cache, partial
from typing import Any

import numpy as np

from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import FILLER_SIZE, QUEUE_UNIT, UNIT_BYTES, UNIT_TYPE
from sprocket.spark.files import Files, ReadableFile

_NAME_DIGITS = 20
UNITS_READ = 1 << 16
"""How many units are read at once, 1.3 MB of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnitPlace:
    """Where a unit says that its record lies: physical offset and size."""

    start: int
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class QueueBounds:
    """The offset of the first message that a queue still has, and the one after its last."""

    first: int
    end: int


class QueueFilesRead:
    """The files of one queue, as a reader of the folder finds them.

    Args:
        files: Where.
        folder: The queue's folder.
    """

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._sizes = {
            int(name): size
            for name, size in files.sizes(folder).items()
            if len(name) == _NAME_DIGITS and name.isdecimal()
        }

    def unit(self, offset: int) -> UnitPlace | None:
        """Return the unit of a queue offset, None if there is none."""
        place = offset * UNIT_BYTES
        for start, size in self._sizes.items():
            if start <= place <= start + size - UNIT_BYTES:
                path = f"{self._folder}/{start:020d}"
                with closing(self._files.open(path)) as file:
                    data = file.read(place - start, UNIT_BYTES)
                found, found_size, _ = QUEUE_UNIT.unpack(data)
                return UnitPlace(found, found_size) if found >= 0 and found_size > 0 else None
        return None

    def offsets(self, log_start: int) -> QueueBounds | None:
        """Return where the queue begins and ends; None if nothing is known.

        A unit whose record was cleaned away from the log, before `log_start`, does not count; one
        that stands for a damaged message does.
        """
        if not self._sizes:
            return None
        low = min(self._sizes) // UNIT_BYTES
        last = max(self._sizes)
        end = _first(
            last // UNIT_BYTES,
            (last + self._sizes[last]) // UNIT_BYTES,
            lambda offset: self.unit(offset) is None,
        )
        first = _first(low, end, lambda offset: self._is_kept(offset, log_start))
        return QueueBounds(first, end)

    def between(self, start: int, end: int) -> Any:
        """Return the units whose records begin in a part of the log, given by physical offsets.

        Returns:
            A numpy array of `UNIT_TYPE`. The units of a queue ascend; if these do not, as some were
            left by an earlier life of the log, others may be missing.
        """
        if not self._sizes:
            return np.empty(0, UNIT_TYPE)
        last = max(self._sizes)
        low, high = min(self._sizes) // UNIT_BYTES, (last + self._sizes[last]) // UNIT_BYTES
        with ExitStack() as opened:

            @cache
            def file(name: int) -> ReadableFile:
                found = self._files.open(f"{self._folder}/{name:020d}")
                return opened.enter_context(closing(found))

            def read(offset: int, count: int) -> bytes:
                place = offset * UNIT_BYTES
                name = max((one for one in self._sizes if one <= place), default=last)
                return file(name).read(place - name, count * UNIT_BYTES)

            def lies_from(least: int, offset: int) -> bool:
                data = read(offset, 1)
                found, size, _ = QUEUE_UNIT.unpack(data) if len(data) == UNIT_BYTES else (0, 0, 0)
                return bool(size <= 0 or found >= least)

            first = _first(low, high, partial(lies_from, start))
            stop = _first(first, high, partial(lies_from, end))
            parts = []
            while first < stop:
                data = read(first, min(stop - first, UNITS_READ))
                if len(data) < UNIT_BYTES:
                    break  # a file is missing
                parts.append(np.frombuffer(data[: len(data) // UNIT_BYTES * UNIT_BYTES], UNIT_TYPE))
                first += len(parts[-1])
        return np.concatenate(parts or [np.empty(0, UNIT_TYPE)])

    def _is_kept(self, offset: int, log_start: int) -> bool:
        unit = self.unit(offset)
        return unit is not None and (unit.size == FILLER_SIZE or unit.start >= log_start)


def queue_files(files: Files, layout: StoreLayout, topic: str, queue_id: int) -> QueueFilesRead:
    """Return the files of a queue; there may be none."""
    return QueueFilesRead(files, layout.queue(topic, queue_id))


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the first number from `low` on for which something holds, `high` for none.

    From there on it holds for all.
    """
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
