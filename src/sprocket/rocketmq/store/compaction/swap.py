"""The swap at the end of a round: new files take the place of old ones, or nothing has happened.

A round writes into the folders `compacting`. When all of that is on the disk, a file there says
which files are to go and which are to come, and from then on the swap is certain. New files have
names that no old one has, so they are moved up first, and the old ones deleted then. All of it may
be repeated. What a crash leaves is finished when the store is opened; without that file there is
nothing but `compacting`, which is removed.

RocketMQ passes folders over, and starts on what lies there in between as long as records and units
have the same names.
"""

import msgspec

from sprocket.base.disk import Disk, read_file, remove_if_there, replace_file
from sprocket.base.errors import DiskFailed, FileMissing, WireError
from sprocket.rocketmq.codec import compaction_swap
from sprocket.rocketmq.codec.compaction_swap import Swap
from sprocket.rocketmq.store.compaction.compacted_file import CompactedFile
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders
from sprocket.rocketmq.store.layout import SWAP


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
    replace_file(disk, _noted_at(folders), compaction_swap.encode(swap))


def pending(disk: Disk, folders: QueueFolders) -> Swap | None:
    """Return the swap that was begun, None if there is none.

    Raises:
        DiskFailed: The file is damaged. It says which of the other files count, so that none of
            these may be touched.
    """
    path = _noted_at(folders)
    try:
        return compaction_swap.decode(read_file(disk, path))
    except FileMissing:
        return None
    except WireError as error:
        raise DiskFailed(f"{path} is {error}", path) from error


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
    remove_if_there(disk, _noted_at(folders))
    disk.sync_folder(folders.compacting.log)
    discard(disk, folders)


def _noted_at(folders: QueueFolders) -> str:
    return f"{folders.compacting.log}/{SWAP}"
