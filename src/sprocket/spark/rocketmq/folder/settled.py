"""A place near the end of a closed log where a record begins for certain, found by four reads.

The newest file has to be followed record by record, since remains of older records may lie after
its end. To follow it from its start means to read all of it. The key index says which record got a
key last; that may be one of those remains, if recovery cut the log after it. But recovery cuts the
queues as well. So if the record is where the index says, and the unit of its place in its queue
names it, it belongs to the log, and so does everything before it.

Of a log that was not closed, or that a broker is writing to, the last part may be there in part,
and has to be looked at. There the place is some MiB before that record, and a chain of records
leads from one to the other.
"""

from collections import deque
from contextlib import closing

from sprocket.base.errors import StoreError, WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.columns import Stop
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, HEAD, MAGICS
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.store.index import HEADER, HEADER_BYTES
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files, read_on
from sprocket.spark.rocketmq.folder.queue_files import UnitPlace, queue_files
from sprocket.spark.rocketmq.folder.slices import resync, slices

_READ_BYTES = 16 * KIB
"""Holds most records; of a longer one the rest is read, too."""


def settled_place(
    files: Files, layout: StoreLayout, path: str, start: int, end: int, doubted_bytes: int
) -> int:
    """Return the physical offset of a record that belongs to the log, `start` if none is known.

    Args:
        files: Where.
        layout: The store's.
        path: The newest file of the log.
        start: Physical offset of its first byte.
        end: Physical offset after its last byte.
        doubted_bytes: What of the end of a log that was not closed is to be looked at.
    """
    offset = _last_indexed(files, layout)
    if not start < offset < end - BLANK_BYTES:
        return start
    try:
        found = _record_at(files, path, offset - start, end - offset)
        if found is None or found.physical_offset != offset:
            return start
        queue = queue_files(files, layout, found.topic, found.queue_id)
        unit = queue.unit(found.queue_offset)
    except (StoreError, WireError):  # it is looked at as the first record that is followed
        return start
    if unit != UnitPlace(offset, found.store_size):
        return start
    is_open = files.exists(layout.abort)
    return _doubted_from(files, path, start, offset, doubted_bytes) if is_open else offset


def _doubted_from(files: Files, path: str, start: int, offset: int, doubted_bytes: int) -> int:
    """Return a place so far before a record that a chain leads from it there, else `start`."""
    if offset - start <= doubted_bytes:
        return start
    with closing(read_on(files, files.open(path), offset - start)) as file:
        at = resync(file, start, offset - doubted_bytes - start, offset - start)
        if at < 0:
            return start
        last = deque(slices(file, start, at, offset - start), maxlen=1)
    return start + at if last and last[0].stop is Stop.END else start


def _last_indexed(files: Files, layout: StoreLayout) -> int:
    """Return the physical offset of the record whose key was put last, −1 if that is not known."""
    names = [name for name, size in files.sizes(layout.index).items() if size >= HEADER_BYTES]
    if not names:
        return -1
    with closing(files.open(f"{layout.index}/{names[-1]}")) as file:
        header = HEADER.unpack(file.read(0, HEADER_BYTES))
    return int(header[3])


def _record_at(files: Files, path: str, position: int, left: int) -> StoredMessage | None:
    """Return the record at a position of a file in which `left` bytes follow, None if none is."""
    with closing(files.open(path)) as file:
        data = file.read(position, min(_READ_BYTES, left))
        size, magic = HEAD.unpack_from(data)
        if magic not in MAGICS or size > left:
            return None
        if size > len(data):
            data += file.read(position + len(data), size - len(data))
    return record.decode(data, 0, check_crc=False)
