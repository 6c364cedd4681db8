"""Checks the files of a compacted queue; changes nothing."""

from collections.abc import Iterator
from contextlib import closing

from msgspec import Struct

from sprocket.base.disk import Disk, is_segment_name, read_written
from sprocket.base.errors import DiskFailed, WireError
from sprocket.rocketmq.codec.record import keyed
from sprocket.rocketmq.geometry import CompactionGeometry
from sprocket.rocketmq.store.compaction.compacted_file import (
    UNIT_BYTES,
    CompactedFile,
    StoredRecord,
    is_unit_of,
    look,
    read_piece,
)
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import BATCH_UNIT, QueueKey


class Wrong(Struct, frozen=True):
    """Something that is wrong: in which file, from which position on, what was expected."""

    path: str
    position: int
    expected: str
    found: str


def wrong(disk: Disk, layout: StoreLayout, geometry: CompactionGeometry) -> Iterator[Wrong]:
    """Give what is wrong with what is kept of all topics.

    Cost: all of it is read, with its checksums.
    """
    for topic in disk.folders(layout.compaction_log):
        for name in disk.folders(f"{layout.compaction_log}/{topic}"):
            if name.isascii() and name.isdigit():
                key = topic, int(name)
                yield from _of_queue(disk, QueueFolders.of(layout, geometry, key), key)


def _of_queue(disk: Disk, folders: QueueFolders, key: QueueKey) -> Iterator[Wrong]:
    next_offset = 0
    for name in disk.sizes(folders.log):
        if not is_segment_name(name, folders.log_bytes):
            expected = f"a multiple of {folders.log_bytes} in 20 digits"
            yield Wrong(f"{folders.log}/{name}", 0, expected, "another name")
            continue
        path = folders.log_path(int(name))
        try:
            file = look(disk, folders, key, int(name), is_certain=False).file
            yield from _of_file(disk, folders, key, file)
        except DiskFailed as error:
            yield Wrong(path, 0, "what was written", str(error))
            continue
        if file.count and file.first < next_offset:
            yield Wrong(path, 0, f"messages from {next_offset} on", f"message {file.first}")
        next_offset = max(next_offset, file.next_offset)


def _of_file(
    disk: Disk, folders: QueueFolders, key: QueueKey, file: CompactedFile
) -> Iterator[Wrong]:
    with closing(disk.open(folders.units_path(file.start))) as opened:
        units = read_written(opened, 0, folders.units_bytes)
    index, place = 0, file.start
    while place < file.end:
        piece = read_piece(disk, folders, key, file, place)
        if piece.damaged:
            path = folders.log_path(file.start)
            yield Wrong(path, place - file.start, "an intact record", "none")
            index += 1
        for one in piece.records:
            yield from _of_record(folders, file, one)
            found = BATCH_UNIT.unpack_from(units, index * UNIT_BYTES)
            if not is_unit_of(found, one.known.entry):
                expected = f"the unit of message {one.known.entry.queue_offset}"
                path = folders.units_path(file.start)
                yield Wrong(path, index * UNIT_BYTES, expected, "another one")
            index += 1
        place = piece.next_place


def _of_record(folders: QueueFolders, file: CompactedFile, one: StoredRecord) -> Iterator[Wrong]:
    try:
        keyed.read(one.stored, check_crc=True)
    except WireError as error:
        at = one.known.entry.physical_offset - file.start
        yield Wrong(folders.log_path(file.start), at, "an intact record", str(error))
