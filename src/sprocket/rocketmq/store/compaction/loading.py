"""Takes up a compacted queue as the last process left it: ours, or RocketMQ's.

1. A swap that was certain is finished; what a round had only begun is removed. One of RocketMQ's is
   finished or undone.
2. Each file is looked at (`compacted_file.look`). Units that are damaged are made again from their
   records, what is torn behind the last one is wiped, and a file without a record is removed.
3. A file that does not follow the one before it is removed: others have what it holds.
4. If the queue's own messages differ from those that are kept at the same offsets, these are of
   another topic that had the name (RocketMQ leaves them), and are removed.

After a crash the last file may be torn, and is looked at unit by unit; after a failed sync it is
written again, as the cache may have what the disk does not.
"""

from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from sprocket.base.disk import Disk, File, is_segment_name, remove_if_there
from sprocket.base.errors import ForeignStore
from sprocket.base.units import MIB
from sprocket.rocketmq.store.compaction import swap as swaps
from sprocket.rocketmq.store.compaction.compacted_file import (
    UNIT_BYTES,
    CompactedFile,
    FoundFile,
    look,
)
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.queue import BATCH_UNIT, QueueKey

_RENAMED = ".delete"
"""What RocketMQ adds to the names of files that are to go."""


class LastEnd(Struct, frozen=True):
    """How the store was left.

    Attributes:
        is_clean: By a clean stop.
        is_doubtful: A sync failed.
    """

    is_clean: bool
    is_doubtful: bool = False


def load(disk: Disk, folders: QueueFolders, key: QueueKey, last: LastEnd) -> list[CompactedFile]:
    """Take up the files of a queue and put right what a crash left; see the head of the module.

    Raises:
        ForeignStore: A file has a length that none of them has.
        DiskFull, DiskFailed: It can be tried again.
    Durability: what is returned is on the disk.
    """
    swap = swaps.pending(disk, folders)
    if swap is not None:
        swaps.move_up(disk, folders, swap)
        swaps.finish(disk, folders, swap)
    _end_rocketmq_swap(disk, folders)
    swaps.discard(disk, folders)
    starts = _starts(disk, folders, write=True)
    files: list[CompactedFile] = []
    for number, start in enumerate(starts):
        is_last = number == len(starts) - 1
        _complete(disk, folders, start)
        found = look(disk, folders, key, start, is_certain=last.is_clean or not is_last)
        if found.lacking or found.rest:
            _put_right(disk, folders, found)
        if not _follows(files, found.file):
            _remove(disk, folders, start)
            continue
        if is_last and not last.is_clean:
            _make_durable(disk, folders, found.file, write_again=last.is_doubtful)
        files.append(found.file)
    return files


def load_to_read(disk: Disk, folders: QueueFolders, key: QueueKey) -> list[CompactedFile]:
    """Take up the files of a queue as they are, and change nothing.

    What a swap left half done is passed over: of old files and new ones those count that are whole.
    """
    swap = swaps.pending(disk, folders)
    starts = _starts(disk, folders, write=False)
    if swap is not None:
        starts = swap.counted(starts)
    files: list[CompactedFile] = []
    for start in starts:
        found = look(disk, folders, key, start, is_certain=True, make_units=False)
        if _follows(files, found.file):
            files.append(found.file)
    return files


def _follows(files: list[CompactedFile], file: CompactedFile) -> bool:
    return file.count > 0 and (not files or file.first >= files[-1].next_offset)


def _starts(disk: Disk, folders: QueueFolders, *, write: bool) -> list[int]:
    """Return the addresses of the files of records; units without any are removed."""
    logs = {name: n for name, n in disk.sizes(folders.log).items() if is_segment_name(name)}
    units = {name: n for name, n in disk.sizes(folders.units).items() if is_segment_name(name)}
    names = [*logs]
    for name, size in logs.items():
        may_be_short = name == names[-1]
        fits = size == folders.log_bytes or (size < folders.log_bytes and may_be_short)
        if not fits or int(name) % folders.log_bytes:
            raise ForeignStore(
                f"{folders.log}/{name}: expected {folders.log_bytes} bytes and a multiple of that "
                f"as its name, found {size} bytes"
            )
    for name, size in units.items():
        if write and name not in logs:
            remove_if_there(disk, f"{folders.units}/{name}")
        elif size > folders.units_bytes:
            raise ForeignStore(
                f"{folders.units}/{name}: expected {folders.units_bytes} bytes, found {size}"
            )
    return [int(name) for name in names]


def _end_rocketmq_swap(disk: Disk, folders: QueueFolders) -> None:
    """Undo the swap that RocketMQ had begun, or finish it.

    It renames the old files of records, moves the new ones up, deletes the old ones, and then does
    the same with units. Until all are moved up none is deleted.
    """
    marked = [name for name in disk.sizes(folders.log) if name.endswith(_RENAMED)]
    is_undone = any(map(is_segment_name, disk.sizes(folders.compacting.log)))
    for folder in (folders.log, folders.units):
        names = [name for name in disk.sizes(folder) if name.endswith(_RENAMED)]
        for name in names:
            if is_undone and marked:
                disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(_RENAMED)}")
            else:
                disk.remove(f"{folder}/{name}")
        if names:
            disk.sync_folder(folder)


def _complete(disk: Disk, folders: QueueFolders, start: int) -> None:
    """Give both files of an address their length, and make that of the units if it is missing."""
    disk.make_folder(folders.units)
    for path, size in (
        (folders.log_path(start), folders.log_bytes),
        (folders.units_path(start), folders.units_bytes),
    ):
        is_new = not disk.exists(path)
        if is_new or disk.size(path) != size:
            with closing(disk.open(path, write=True, create=True)) as file:
                file.resize(size)
                file.sync()
        if is_new:
            disk.sync_folder(folders.units)


def _put_right(disk: Disk, folders: QueueFolders, found: FoundFile) -> None:
    """Write the units that are missing, and wipe what is behind the last one."""
    file = found.file
    with closing(disk.open(folders.log_path(file.start))) as log:
        log.sync()
    with closing(disk.open(folders.units_path(file.start), write=True)) as units:
        for index, unit in found.lacking.items():
            units.write([unit], index * UNIT_BYTES)
        behind = file.count * UNIT_BYTES
        written = min(units.data_end(), folders.units_bytes)
        if behind < written:
            units.write([bytes(written - behind)], behind)
        units.sync()


def _remove(disk: Disk, folders: QueueFolders, start: int) -> None:
    for path in (folders.units_path(start), folders.log_path(start)):
        remove_if_there(disk, path)
    disk.sync_folder(folders.units)
    disk.sync_folder(folders.log)


def _make_durable(
    disk: Disk, folders: QueueFolders, file: CompactedFile, *, write_again: bool
) -> None:
    """Sync a file, after writing it with what it holds where the disk may not have that."""
    for path, size in (
        (folders.log_path(file.start), file.bytes),
        (folders.units_path(file.start), file.count * UNIT_BYTES),
    ):
        with closing(disk.open(path, write=True)) as again:
            for at in range(0, size if write_again else 0, MIB):
                again.write([again.read(at, min(MIB, size - at))], at)
            again.sync()


def cut(
    disk: Disk, folders: QueueFolders, files: list[CompactedFile], end: int
) -> list[CompactedFile]:
    """Remove what is kept from a queue offset on; return the files that are left.

    Raises:
        DiskFull, DiskFailed: To be done again.
    Durability: on return it is gone from the disk.
    """
    left = [file for file in files if file.first < end]
    for file in reversed(files[len(left) :]):
        _remove(disk, folders, file.start)
    if left and left[-1].next_offset > end:
        left[-1] = _cut_file(disk, folders, left[-1], end)
    return left


def _cut_file(disk: Disk, folders: QueueFolders, file: CompactedFile, end: int) -> CompactedFile:
    """Wipe the records and units of a file from a queue offset on."""
    with closing(disk.open(folders.units_path(file.start), write=True)) as units:
        stored = units.read(0, file.count * UNIT_BYTES)
        all_units = [*BATCH_UNIT.iter_unpack(stored)]
        kept = [unit for unit in all_units if unit[4] + unit[5] <= end]
        bytes_left = kept[-1][0] + kept[-1][1] - file.start if kept else 0
        with closing(disk.open(folders.log_path(file.start), write=True)) as log:
            _wipe(log, bytes_left)
        _wipe(units, len(kept) * UNIT_BYTES)
    next_offset = kept[-1][4] + kept[-1][5] if kept else file.first
    return replace(
        file, bytes=bytes_left, count=len(kept), next_offset=next_offset, is_closed=False
    )


def _wipe(file: File, position: int) -> None:
    """Make zeros of a file from a position on. Durable on return."""
    while position < file.data_end():
        extent = file.next_data(position)
        if extent.start >= extent.end:
            break
        size = min(MIB, extent.end - extent.start)
        file.write([bytes(size)], extent.start)
        position = extent.start + size
    file.sync()
