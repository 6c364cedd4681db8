"""Copies of what compaction keeps: whole, while a broker goes on with it, or without some messages.

A round replaces files, and what one file has may be in another one a moment later. So the files of
a queue are copied again until none came or went meanwhile, and no swap was under way. Units are
copied before their records: what they say of is in the copy.
"""

from collections.abc import Callable
from contextlib import closing
from os.path import basename

from sprocket.base.disk import Disk, copying, is_segment_name
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.geometry import CompactionGeometry
from sprocket.rocketmq.store.compaction import loading
from sprocket.rocketmq.store.compaction import swap as swaps
from sprocket.rocketmq.store.compaction.compacted_file import read_piece
from sprocket.rocketmq.store.compaction.compacted_writer import CompactedWriter
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import QueueKey


def copy_kept(
    disk: Disk, old: StoreLayout, new: StoreLayout, after_each: Callable[[], None] = lambda: None
) -> int:
    """Copy what is kept of all compaction topics; return the bytes of the files.

    Args:
        disk: Where both stores lie.
        old: The store.
        new: The copy.
        after_each: Called after each file.

    Raises:
        DiskFailed: The files never stay the same.
    """
    if not disk.is_folder(old.compaction):
        return 0
    disk.make_folder(new.compaction, durable=False)
    size = 0
    for topic in disk.folders(old.compaction_log):
        for name in disk.folders(f"{old.compaction_log}/{topic}"):
            if name.isdigit():
                size += _copy_queue(disk, old, new, f"{topic}/{name}", after_each)
    try:
        name = basename(old.compaction_positions)
        size += copying.copy_path(disk, old.compaction_positions, f"{new.compaction}/{name}")
    except FileMissing:
        pass
    return size


def _copy_queue(
    disk: Disk, old: StoreLayout, new: StoreLayout, place: str, after_each: Callable[[], None]
) -> int:
    source, target = (QueueFolders.at(layout, place) for layout in (old, new))
    for _ in range(copying.TRIES_MAX):
        before = _names(disk, source)
        try:
            size = _copy_files(disk, source.units, target.units, after_each)
            size += _copy_files(disk, source.log, target.log, after_each)
            if before is not None and _names(disk, source) == before:
                return size
        except FileMissing:
            pass
        for folder in (target.units, target.log):
            disk.remove_tree(folder)
        if not disk.is_folder(source.log):
            return 0  # the topic was deleted
    raise DiskFailed(f"{source.log}: its files were replaced each time that they were copied")


def _names(disk: Disk, folders: QueueFolders) -> list[str] | None:
    """Return the names of the files of records; None while a swap is under way."""
    if swaps.pending(disk, folders) is not None:
        return None
    return [name for name in disk.sizes(folders.log) if is_segment_name(name)]


def _copy_files(disk: Disk, source: str, target: str, after_each: Callable[[], None]) -> int:
    disk.make_folder(target, durable=False)
    size = 0
    for name in disk.sizes(source):
        if is_segment_name(name):
            size += copying.copy_path(disk, f"{source}/{name}", f"{target}/{name}")
            after_each()
    return size


def copy_without(
    disk: Disk,
    old: StoreLayout,
    target: Disk,
    new: StoreLayout,
    geometry: CompactionGeometry,
    is_erased: Callable[[memoryview], bool],
) -> int:
    """Copy what is kept of a store that is closed, but for some messages; return how many.

    Args:
        disk: Where the store lies.
        old: The store.
        target: Where the copy lies.
        new: The copy.
        geometry: Lengths of the files of both.
        is_erased: Says of a stored record whether it is left out.

    Durability: none before `Disk.sync_tree`, but for what this syncs.
    """
    erased = 0
    for topic in disk.folders(old.compaction_log):
        for name in disk.folders(f"{old.compaction_log}/{topic}"):
            if name.isascii() and name.isdigit():
                key = topic, int(name)
                source = QueueFolders.of(old, geometry, key)
                made = QueueFolders.of(new, geometry, key)
                erased += _copy_queue_without(disk, source, target, made, key, is_erased)
    return erased


def _copy_queue_without(
    disk: Disk,
    source: QueueFolders,
    target: Disk,
    made: QueueFolders,
    key: QueueKey,
    is_erased: Callable[[memoryview], bool],
) -> int:
    files = loading.load_to_read(disk, source, key)
    for folder in (made.units, made.log):
        target.make_folder(folder)
    erased = 0
    with closing(CompactedWriter(target, made, None, iter([one.start for one in files]))) as writer:
        for file in files:
            place = file.start
            while place < file.end:
                piece = read_piece(disk, source, key, file, place)
                for one in piece.records:
                    if is_erased(one.stored):
                        erased += 1
                    else:
                        writer.add(one.stored, one.known.entry)
                place = piece.next_place
        writer.flush()
    return erased
