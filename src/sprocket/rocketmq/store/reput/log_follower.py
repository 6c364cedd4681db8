"""The records between two places of the log that are known to be good, a part at a time.

While the log grows it is known that what was written is whole, in order, and ends at the end of a
record. So, unlike in `log_scanner`, nothing is searched for and no checksum compared; damage that
is found there is an error. The end of a file is known by its blank record: there the next file
begins.

A few records are returned as entries, many as columns; the content is the same. Columns that were
made before, of what came from another log, are returned as they are. A part has a copy
of what it needs of the log, and holds no file.
"""

from typing import NamedTuple

from sprocket.base.errors import CorruptRecord, WireError
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import Entry, record, record_scan
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, MAGIC_AT, MAGIC_BLANK
from sprocket.rocketmq.store.log import Tail

COLUMNS_MIN = 40
"""From this many records on columns are quicker than entries."""

PART_MAX = 8192
"""Records in a part: a few MiB of a log, which stay in a core's cache between the steps."""

_MAGIC_BLANK = MAGIC_BLANK.to_bytes(4, "big")


class LogPart(NamedTuple):
    """Records that follow each other in one file.

    Attributes:
        start: Where it begins: the first record, or before a blank that lies before it.
        end: Physical offset behind the last record.
        records: At least one.
    """

    start: int
    end: int
    records: list[Entry] | RecordBatch

    @property
    def last_stored_at_ms(self) -> int:
        """Store time of the last record."""
        records = self.records
        if isinstance(records, list):
            return records[-1].stored_at_ms
        return int(records.stored_at_ms[-1])


def next_part(
    tail: Tail, start: int, limit: int, count_max: int, *, with_keys: bool
) -> LogPart | None:
    """Return the next records of a log.

    Args:
        tail: The log's.
        start: Where a record, a blank or a file begins.
        limit: Where a record ended that was written, or a file begins.
        count_max: Records to return at most; nor more than `PART_MAX`.
        with_keys: Whether entries are to have their keys; columns tell them when asked.

    Returns:
        Records from `start` on, which need not be all up to `limit`; None if there is none.

    Raises:
        CorruptRecord: What is there is not what was written.
        OffsetTooSmall, OffsetTooLarge: The log has no such place.
    """
    most = min(count_max, PART_MAX)
    few = min(most, COLUMNS_MIN)
    place = start
    while place < limit:
        kept = tail.batch(place, limit, most)
        if kept is not None:
            return LogPart(start, kept.end, kept)
        segment = tail.files.segment(place)
        data = tail.read(place, min(limit, segment.end))
        found, stopped_at = record_scan.positions(data, 0, len(data), few)
        if len(found) >= COLUMNS_MIN:
            batch = _batch(data, most, place)
            return LogPart(start, batch.end, batch)
        if found:
            entries = [_entry(data, at, place, with_keys=with_keys) for at in found]
            return LogPart(start, place + stopped_at, entries)
        if data[MAGIC_AT:BLANK_BYTES] != _MAGIC_BLANK:
            raise CorruptRecord(f"{segment.path}: expected a record at {place}, written to {limit}")
        place = segment.end
    return None


def _batch(data: bytes | memoryview, most: int, base: int) -> RecordBatch:
    """Return the records in `data`, of which the first lies at `base`, as columns."""
    scan = columns.scan(data, 0, len(data), most)
    found = columns.records(data, scan.positions, scan.stopped_at, base)
    if len(found) < len(scan.positions):
        at = base + int(scan.positions[len(found)])
        raise CorruptRecord(f"the record at {at} is not what was written: {found.defect}")
    return RecordBatch(found)


def _entry(data: bytes | memoryview, place: int, base: int, *, with_keys: bool) -> Entry:
    try:
        entry = record.entry(data, place, with_keys=with_keys)
    except WireError as error:
        raise CorruptRecord(f"the record at {base + place} is not what was written") from error
    if entry.physical_offset != base + place:
        raise CorruptRecord(f"the record at {base + place} says it is at {entry.physical_offset}")
    return entry
