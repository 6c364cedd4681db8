"""Repairing the log: nothing behind its end, and a record wherever one is expected.

Damage that is followed by intact records becomes a padding record. This is in no queue and in no
index, since its transaction type says rolled back. At the end of a file the damage becomes a blank.
Otherwise RocketMQ would end the log there and delete what follows. What the disk cannot read is
left as it is: perhaps it can be read another day, and nobody knows that it is damaged.

A record in which only its own place is wrong gets the right one.
"""

from collections.abc import Sequence

from sprocket.base.disk import Segment, SegmentFiles
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MIN,
)
from sprocket.rocketmq.model.message import TRANSACTION_ROLLBACK, NewRecord
from sprocket.rocketmq.store.log.commit_log import CommitLog
from sprocket.rocketmq.store.log.log_scanner import Damage, LogScanner, Misplaced

PADDING_TOPIC = "DAMAGED"
"""Topic of padding records, cut short where a shorter record was."""
_ZEROS = bytes(256 * KIB)


def cut(files: SegmentFiles, scan: LogScanner) -> int:
    """Zero what lies behind the end of the log and delete later files.

    Returns:
        How many bytes lie between the end and the last one that was not zero.
    Durability: on return it is on the disk.
    """
    end = scan.end
    size = 0
    for segment in reversed(files.segments):
        if segment.end <= end:
            break
        begin = max(end, segment.start) + (BLANK_BYTES if scan.ends_in_blank else 0)
        last = last_byte(segment, begin - segment.start)
        if last is not None:
            size = max(size, segment.start + last + 1 - end)
    files.drop_from(end + 1, durable=True)
    log = CommitLog(files, end, crc_tail=False)
    if end < files.end_of_files:
        segment = files.segment(end)
        begin = end + (BLANK_BYTES if scan.ends_in_blank else 0)
        data_end = segment.start + segment.file.data_end()
        if log.zero(begin, max(begin, data_end)):
            segment.file.sync()
    return size


def last_byte(segment: Segment, begin: int) -> int | None:
    """Return the position of the last byte of a file from `begin` on that is not zero."""
    end = segment.file.data_end()
    while end > begin:
        start = max(begin, end - len(_ZEROS))
        data = segment.read(start, end - start)
        if data != _ZEROS[: len(data)]:  # mostly it is; to strip it would take 30 times as long
            return start + len(data.rstrip(b"\0")) - 1
        end = start
    return None


def pad(files: SegmentFiles, damages: Sequence[Damage]) -> None:
    """Make the log whole where damage was stepped over.

    Durability: on return it is on the disk.
    """
    for damage in damages:
        if damage.is_unreadable:
            continue
        segment = files.segment(damage.start)
        size = damage.end - damage.start
        if damage.end == segment.end:
            data = record.blank(size) if size >= BLANK_BYTES else b""
        else:
            data = _padding(segment, damage)
        if data:
            segment.file.write([data], damage.start - segment.start)
            segment.file.sync()


def name_places(files: SegmentFiles, misplaced: Sequence[Misplaced]) -> None:
    """Have records name the places where they lie, or those that they have in their queues.

    Durability: on return it is on the disk.
    """
    for found in misplaced:
        segment = files.segment(found.place)
        at, right = PHYSICAL_OFFSET_AT, found.place
        if found.queue_offset >= 0:
            at, right = QUEUE_OFFSET_AT, found.queue_offset
        segment.file.write([right.to_bytes(8, "big")], found.place - segment.start + at)
        segment.file.sync()


def write_again(segment: Segment, start: int, end: int) -> None:
    """Write a range of the log with what it holds."""
    position = max(start - segment.start, 0)
    stop = min(end - segment.start, segment.size)
    while position < stop:
        size = min(MIB, stop - position)
        segment.file.write([segment.read(position, size)], position)
        position += size


def _padding(segment: Segment, damage: Damage) -> bytes:
    """Return the record that stands for damage; nothing if not even the shortest one fits."""
    room = damage.end - damage.start - RECORD_BYTES_MIN
    topic = PADDING_TOPIC[: max(room, 0)]
    if not topic:
        return b""
    last = damage.end - segment.start - 2 - len(topic) - 1
    body_bytes = room - len(topic)
    body = segment.read(last - body_bytes, body_bytes)
    padding = NewRecord(
        topic=topic,
        queue_id=0,
        body=body,
        properties=b"",
        born_host=bytes(8),
        store_host=bytes(8),
        sys_flag=TRANSACTION_ROLLBACK,
    )
    return record.encode(
        padding,
        queue_offset=0,
        physical_offset=damage.start,
        stored_at_ms=damage.before_at_ms,
        crc_tail=False,
    )
