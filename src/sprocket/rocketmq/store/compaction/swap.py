"""The swap at the end of a round: new files take the place of old ones, or nothing has happened.

A round writes into the folders `compacting`. When all of that is on the disk, a file there says
which files are to go and which are to come, and from then on the swap is certain. New files have
names that no old one has, so they are moved up first, and the old ones deleted then. All of it may
be repeated. What a crash leaves is finished when the store is opened; without that file there is
nothing but `compacting`, which is removed.

    CRC-32 in decimal digits, line feed, {"old":[0],"new":[104857460]}

RocketMQ passes folders over, and starts on what lies there in between as long as records and units
have the same names.
"""

from collections.abc import Iterable

import msgspec

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, remove_if_there, replace_file
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.store.compaction.compacted_file import CompactedFile
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders

NAME = "sprocket.swap"


class Swap(msgspec.Struct, frozen=True):
    """Addresses of the files that go, and of those that come."""

    old: tuple[int, ...]
    new: tuple[int, ...]


class PendingSwap(msgspec.Struct):
    """A swap that has begun.

    Attributes:
        old: The files that go.
        made: Those that come in their place.
        position: Up to which queue offset the queue is compacted then.
        is_taken: Whether the queue has the new ones already.
    """

    old: list[CompactedFile]
    made: list[CompactedFile]
    position: int
    is_taken: bool = False

    @property
    def swap(self) -> Swap:
        """The form in which it is stored."""
        return Swap(tuple(f.start for f in self.old), tuple(f.start for f in self.made))


def prepare(disk: Disk, folders: QueueFolders) -> None:
    """Make the folders that a round writes to, empty."""
    discard(disk, folders)
    for folder in (folders.compacting.log, folders.compacting.units):
        disk.make_folder(folder)


def discard(disk: Disk, folders: QueueFolders) -> None:
    """Remove what a round has written."""
    for folder in (folders.compacting.log, folders.compacting.units):
        disk.remove_tree(folder)


def commit(disk: Disk, folders: QueueFolders, swap: Swap) -> None:
    """Commit a swap. The new files must be on the disk."""
    content = msgspec.json.encode(swap)
    replace_file(disk, noted_at(folders), b"%d\n%b" % (crc32(content), content))


def pending(disk: Disk, folders: QueueFolders) -> Swap | None:
    """Return the swap that was begun, None if there is none.

    Raises:
        DiskFailed: The file is damaged. It says which of the other files count, so that none of
            these may be touched.
    """
    path = noted_at(folders)
    try:
        return decode(read_file(disk, path), path)
    except FileMissing:
        return None


def decode(stored: bytes, path: str) -> Swap:
    """Return the swap that a file says was begun. Raises DiskFailed if it is damaged."""
    crc, _, content = stored.partition(b"\n")
    if crc != b"%d" % crc32(content):
        raise DiskFailed(f"{path} is damaged, which says what a round was to replace", path)
    return msgspec.json.decode(content, type=Swap)


def counted(starts: Iterable[int], swap: Swap) -> list[int]:
    """Return the addresses of the files that count while a swap is under way.

    Args:
        starts: Those of all files that are there, old and new.
        swap: The one that was begun.
    """
    there = list(starts)
    gone = swap.new if set(swap.old) <= set(there) else swap.old
    return [start for start in there if start not in gone]


def move_up(disk: Disk, folders: QueueFolders, swap: Swap) -> None:
    """Move the new files to where they belong. Durable on return."""
    made = folders.compacting
    for start in swap.new:
        _move(disk, made.units_path(start), folders.units_path(start))
        _move(disk, made.log_path(start), folders.log_path(start))
    for folder in (folders.units, folders.log):
        disk.sync_folder(folder)


def _move(disk: Disk, source: str, target: str) -> None:
    if disk.exists(source):
        disk.rename(source, target)


def finish(disk: Disk, folders: QueueFolders, swap: Swap) -> None:
    """Delete the old files, which have no readers any more, and forget the swap.

    Durable on return.
    """
    for start in swap.old:
        remove_if_there(disk, folders.units_path(start))
        remove_if_there(disk, folders.log_path(start))
    for folder in (folders.units, folders.log):
        disk.sync_folder(folder)
    remove_if_there(disk, noted_at(folders))
    disk.sync_folder(folders.compacting.log)
    discard(disk, folders)


def noted_at(folders: QueueFolders) -> str:
    """Return the path of the file that says which swap was begun."""
    return f"{folders.compacting.log}/{NAME}"
