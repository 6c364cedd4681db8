"""Walking over the log from file to file, and past damage.

A walk gives an `Entry` for each record, or many records at a time as columns (`batches`). Where no
record begins it looks for the next one that is intact and names its own place; what lies between is
damage. If there is none, the log ends there.

Columns are the quick way for what is in order: a batch ends before the first record that is not,
and there the plain way decides. Without numpy it decides everywhere; both find the same.

Bytes of an earlier life may lie behind the end, since RocketMQ does not erase what it truncates.
They are told from the log's own by two signs: a store time before that of the last record, and a
queue offset that is taken already. Directly behind a record both together end the log, since a
clock may have been set back and a topic may have been deleted and made again. Behind damage, one
of them is enough.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from msgspec import Struct

from sprocket.base.errors import WireError
from sprocket.base.segments import Segment
from sprocket.base.units import MIB
from sprocket.rocketmq.codec import record
from sprocket.rocketmq.codec.record import (
    HOST_V6_EXTRA,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    RECORD_BYTES_MIN,
    STORED_AT_MS_AT,
    SYS_FLAG_AT,
    Entry,
    ScanStop,
)
from sprocket.rocketmq.model.message import BORN_HOST_V6

try:
    import numpy as np

    from sprocket.rocketmq.codec import columns
    from sprocket.rocketmq.codec.record_batch import RecordBatch
except ImportError:  # the light install; plain Python does the same
    columns = None  # type: ignore[assignment]

Found: TypeAlias = "list[Entry] | RecordBatch"
"""Records that follow each other in one file, with nothing damaged in between."""

BATCH = 8192
"""Records at a time: a few MiB of a log, which stay in a core's cache between the checks."""
READ_AHEAD_BYTES = 64 * MIB
"""What the system is asked to read beside a walk in batches, half of it at a time: by itself it
reads little ahead in a view, and the walk would wait for the disk as long as it works."""
_BATCH_MIN = 32
"""After something odd; much damage would make many records be looked at again and again."""
_NOWHERE = 1 << 62
_T = TypeVar("_T")

_HEAD = struct.Struct(">iI")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_MAGICS = re.compile(
    b"|".join(re.escape(m.to_bytes(4, "big")) for m in (MAGIC_V1, MAGIC_V2)), re.DOTALL
)


class Damage(Struct, frozen=True):
    """A range of one file that holds no intact record, with intact ones behind it.

    Attributes:
        start: Its first byte.
        end: Where the next intact record, or the next file, begins.
        why: What was found at `start`.
        before_at_ms: Store time of the record before it, 0 if that was not looked at.
    """

    start: int
    end: int
    why: str
    before_at_ms: int


class Walk:
    """A walk; iterate over it or over `batches`, then read the attributes.

    Args:
        segments: The log's files, in order.
        start: Where a record begins.
        check_crc: Compare checksums; without, only places and lengths.
        next_offsets: The next free offset of queues, as far as known. The walk keeps it up to date
            with what it sees.
        until: Where to stop; records that begin there or later are not given.

    Attributes:
        start: Where it began.
        position: The first byte behind the last entry given.
        end: Where the log ends; valid when the iteration is over.
        ends_in_blank: What was found there is a blank, and no file follows it.
        why: What was found there.
        damage: What was stepped over.
        records: How many entries were given.
        last_start: Where the last of them begins; −1 without any.
        last_stored_at_ms: Its store time.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        start: int,
        *,
        check_crc: bool,
        next_offsets: dict[tuple[str, int], int] | None = None,
        until: int = _NOWHERE,
    ) -> None:
        self.start = start
        self.position = start
        self.end = start
        self.why = "there are no files"
        self.damage: list[Damage] = []
        self.records = 0
        self.last_start = -1
        self.ends_in_blank = False
        self.last_stored_at_ms = 0
        self._segments = segments
        self._check_crc = check_crc
        self._next_offsets = {} if next_offsets is None else next_offsets
        self._until = until
        self._batch_count = BATCH
        self._asked_to = 0

    def __iter__(self) -> Iterator[Entry]:
        """Give the entry of each record, in the order of the log."""
        return self._files(self._run)

    def batches(self) -> Iterator[Found]:
        """Give the same many records at a time; the attributes are those behind each batch."""
        return self._files(self._batches)

    def _files(self, run: Callable[[Segment], Iterator[_T]]) -> Iterator[_T]:
        """Give what `run` finds in each file, from the position on."""
        segments = [s for s in self._segments if s.end > self.position]
        for index, segment in enumerate(segments):
            if self.position >= segment.end:
                continue  # damage reaches beyond this file
            yield from self._file(segment, run)
            if self.position >= self._until:
                break
            if self.ends_in_blank:
                if index + 1 == len(segments):
                    break
                self.position = segment.end
                self.ends_in_blank = False
            elif not self._skip_to_later(segment, segments[index + 1 :]):
                break
        self.end = self.position

    def _file(self, segment: Segment, run: Callable[[Segment], Iterator[_T]]) -> Iterator[_T]:
        """Walk over one file, past the damage inside it."""
        self.ends_in_blank = False
        while self.position < self._until:
            yield from run(segment)
            if self.ends_in_blank or self.position >= self._until:
                return
            found = self._find(segment, self.position - segment.start + 1)
            if found is None:
                return
            self._step_over(found)

    def _read_ahead(self, segment: Segment, limit: int) -> None:
        """Have the system read what comes next of a file, up to a place in the log."""
        start = max(self.position, self._asked_to)
        end = min(self.position + READ_AHEAD_BYTES, limit)
        if start < end and start - self.position < READ_AHEAD_BYTES // 2:
            segment.file.start_reading(start - segment.start, end - start)
            self._asked_to = end

    def _batches(self, segment: Segment) -> Iterator[Found]:
        """Give what `_run` does, as columns as far as all is in order."""
        limit = min(self._until, segment.start + segment.file.data_end())
        while True:
            self._read_ahead(segment, limit)
            batch = None if columns is None else self._columns(segment)
            if batch is not None:
                yield batch
                continue
            count = BATCH if columns is None else 1
            entries = list(islice(self._run(segment), count))
            if entries:
                yield entries
            if len(entries) < count:
                return

    def _columns(self, segment: Segment) -> "RecordBatch | None":
        """Take the records from the position on that are in order; None if the first is not."""
        view, start = segment.view, self.position - segment.start
        stop = min(segment.size, self._until - segment.start)
        found = columns.walk(view, start, segment.size, self._batch_count)
        places = found.positions[: np.searchsorted(found.positions, stop)]
        batch = None
        if len(places):
            records = columns.records(view, found.positions, found.stopped_at, segment.start)
            records = records.part(0, min(len(records), len(places)))
            if self._check_crc:
                records = records.part(0, _leading(~(records.bad_bodies() | records.bad_tails())))
            batch = RecordBatch(records)
            fresh = _leading(~self._are_stale(batch))
            batch = batch if fresh == len(batch) else RecordBatch(records.part(0, fresh))
        if not batch:
            self._batch_count = _BATCH_MIN
            return None
        self._batch_count = min(4 * self._batch_count, BATCH)
        self.records += len(batch)
        self.position = batch.end
        self.last_start = int(batch.physical_offset[-1])
        self.last_stored_at_ms = int(batch.stored_at_ms[-1])
        for run in batch.runs:
            following = batch.next_offset(int(run.rows[-1]))
            self._next_offsets[run.topic, run.queue_id] = following
        return batch

    def _are_stale(self, batch: "RecordBatch") -> "columns.Mask":
        """Say what `_is_stale` does, for each record of a batch that is next."""
        times = np.append(self.last_stored_at_ms, batch.stored_at_ms)
        stale: columns.Mask = (times[1:] < times[:-1]) & batch.queueable
        if stale.any():
            for topic, queue_id, rows in batch.runs:
                offsets = batch.queue_offset[rows]
                stale[rows[1:]] &= offsets[1:] <= offsets[:-1]
                expected = self._next_offsets.get((topic, queue_id))
                stale[rows[0]] &= expected is not None and int(offsets[0]) < expected
        return stale

    def _run(self, segment: Segment) -> Iterator[Entry]:
        """Give the records that lie one behind the other from the position on."""
        view, limit = segment.view, segment.size
        start = self.position - segment.start
        check = self._check_crc
        walk = record.scan(view, segment.start, start, limit, check_crc=check, check_tail=check)
        for position, _size in walk:
            if segment.start + position >= self._until:
                return
            try:
                entry = record.entry(view, position)
            except WireError as error:
                self.why = str(error)
                return
            if self._is_stale(entry):
                self.why = f"the record at {segment.start + position} is of an earlier life"
                return
            self._take(entry)
            yield entry
        self.why = f"{walk.stop.value}: {walk.why}"
        is_blank = walk.stop is ScanStop.BLANK
        self.ends_in_blank = is_blank and walk.position + walk.blank_size == limit

    def _skip_to_later(self, segment: Segment, later: Sequence[Segment]) -> bool:
        """Go on in a later file if one holds an intact record; say whether there is one."""
        for index, following in enumerate(later):
            found = self._find(following, 0)
            if found is not None:
                for damaged in (segment, *later[:index]):
                    self._step_over(damaged.end)
                if found > following.start:
                    self._step_over(found)
                return True
        return False

    def _step_over(self, end: int) -> None:
        damage = Damage(self.position, end, self.why, self.last_stored_at_ms)
        self.damage.append(damage)
        self.position = end

    def _take(self, entry: Entry) -> None:
        self.records += 1
        self.last_start = entry.physical_offset
        self.position = entry.physical_offset + entry.size
        self.last_stored_at_ms = entry.stored_at_ms
        if entry.queueable:
            self._next_offsets[entry.topic, entry.queue_id] = entry.next_offset

    def _is_stale(self, entry: Entry) -> bool:
        """Say whether a record directly behind another one is of an earlier life."""
        if entry.stored_at_ms >= self.last_stored_at_ms or not entry.queueable:
            return False
        expected = self._next_offsets.get((entry.topic, entry.queue_id))
        return expected is not None and entry.queue_offset < expected

    def _find(self, segment: Segment, first: int) -> int | None:
        """Return where in the log the first intact record of a file lies, from a position on."""
        data_end = min(segment.file.data_end(), segment.size)
        if first + MAGIC_AT >= data_end:
            return None
        for match in _MAGICS.finditer(segment.view, first + MAGIC_AT, data_end):
            position = match.start() - MAGIC_AT
            if self._is_intact(segment, position):
                return segment.start + position
        return None

    def _is_intact(self, segment: Segment, position: int) -> bool:
        """Say whether a record behind damage may be trusted."""
        view = segment.view
        walk = record.scan(
            view, segment.start, position, segment.size, check_crc=True, check_tail=True
        )
        for at, _size in walk:
            if at != position:
                break
            try:
                entry = record.entry(view, position)
            except WireError:
                return False
            if entry.stored_at_ms < self.last_stored_at_ms:
                return False
            expected = self._next_offsets.get((entry.topic, entry.queue_id), 0)
            return not entry.queueable or entry.queue_offset >= expected
        return False


def _leading(good: "columns.Mask") -> int:
    """Return how many of the first are good, one after the other."""
    return len(good) if good.all() else int(np.argmin(good))


class Glance(Struct, frozen=True):
    """What a record's first bytes say, unchecked but for magic and place."""

    size: int
    stored_at_ms: int


def glance(segment: Segment, position: int) -> Glance | None:
    """Return size and store time of the record at a position, None if none seems to begin there.

    Ten times as quick as a check of the record, for skipping what is known to be good.
    """
    view = segment.view
    if position + RECORD_BYTES_MIN > len(view):
        return None
    (size, magic) = _HEAD.unpack_from(view, position)
    (offset,) = _I64.unpack_from(view, position + PHYSICAL_OFFSET_AT)
    if magic not in (MAGIC_V1, MAGIC_V2) or offset != segment.start + position:
        return None
    if size < RECORD_BYTES_MIN or position + size > len(view):
        return None
    (sys_flag,) = _I32.unpack_from(view, position + SYS_FLAG_AT)
    time_at = position + STORED_AT_MS_AT + (HOST_V6_EXTRA if sys_flag & BORN_HOST_V6 else 0)
    (stored_at_ms,) = _I64.unpack_from(view, time_at)
    return Glance(size, stored_at_ms)


def intact_entry(segment: Segment, position: int) -> Entry | None:
    """Return the entry of the record at a position of a file, None if none is intact there."""
    for entry in Walk([segment], segment.start + position, check_crc=True):
        return entry if entry.physical_offset == segment.start + position else None
    return None
