"""A copy of a node's folder while the node runs, as a crash would have left it.

Declarations come first, so that nothing comes back that was deleted before. Then, one virtual host
after the other, with its `upkeep_lock`, so that its queues' files, runs and checksums stay as they
are: the write-ahead log, from its end to its beginning, and after it everything that the log
refers to. Files that are only appended to are opened meanwhile, up to `OPEN_MAX` of them, and
copied once the lock is released, as far as they went then. What is acknowledged before a copy
begins is in the log or in files that the log does not have to complete.
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress

from msgspec import Struct

from sprocket.base.disk import Disk, File, copying
from sprocket.base.errors import FileMissing
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import KIB
from sprocket.rabbitmq.store.layout import (
    DELAYED_RUN,
    SEGMENT,
    STORE_FILE,
    VhostLayout,
    write_ahead_file,
    write_ahead_files,
)
from sprocket.rabbitmq.store.reading import vhost_folders
from sprocket.rabbitmq.store.vhost import lock_upkeep

APPENDED = (SEGMENT, STORE_FILE, DELAYED_RUN)
"""How the names of files end that are only appended to, and that may be large."""
OPEN_BYTES_MIN = 64 * KIB
"""A smaller file is copied at once."""
OPEN_MAX = 512
"""So many files are kept open for later."""


class _Later(Struct, frozen=True):
    """A file that is copied once the lock is released."""

    file: File
    size: int
    target: str


def back_up_node(disk: Disk, source: str, target: str, step: Step = unwatched) -> int:
    """Copy the folder of a node that runs, or was killed.

    Args:
        disk: Where both are.
        source: The node's.
        target: The new one; its parent exists.
        step: Is told how many virtual hosts were copied.

    Returns:
        Bytes.

    Raises:
        StoreLocked: Somebody else copies it, and did for ten seconds.
        DiskFull, DiskFailed: The copy is not whole.
    Durability: none before `Disk.sync_tree`.
    """
    size = copying.copy_tables(disk, source, target, lambda name: name not in _NOT_COPIED)
    folders = vhost_folders(disk, f"{source}/msg_stores")
    for number, folder in enumerate(folders):
        step("virtual hosts", number, len(folders))
        copy = f"{target}{folder.removeprefix(source)}"
        with suppress(FileMissing):
            size += _back_up_vhost(disk, folder, copy)
        if not disk.is_folder(folder):  # it was deleted meanwhile, and the copy is not whole
            disk.remove_tree(copy)
    return size


_NOT_COPIED = frozenset(("sprocket.lock", "sprocket.upkeep", "sprocket.room", "msg_stores"))


def _back_up_vhost(disk: Disk, source: str, target: str) -> int:
    layout = VhostLayout(source)
    with ExitStack() as at_the_end:
        lock = lock_upkeep(disk, layout)
        try:
            disk.make_folder(target, durable=False)
            size = _copy_log(disk, source, target)
            later: list[_Later] = []
            for path, copy in _files(disk, source, target):
                with suppress(FileMissing):  # a queue or all of it is being deleted
                    if not path.endswith(APPENDED) or len(later) == OPEN_MAX:
                        size += copying.copy_path(disk, path, copy)
                        continue
                    file = disk.open(path)
                    at_the_end.callback(file.close)
                    one = _Later(file, file.size(), copy)
                    if one.size < OPEN_BYTES_MIN:
                        size += copying.copy_file(disk, one.file, one.size, one.target)
                        file.close()
                    else:
                        later.append(one)
        finally:
            lock.release()
        return size + sum(copying.copy_file(disk, one.file, one.size, one.target) for one in later)


def _copy_log(disk: Disk, source: str, target: str) -> int:
    """Copy the write-ahead log, from its end on; a file that is used again has nothing needed."""
    sizes: dict[int, int] = {}
    for number in reversed(write_ahead_files(disk.list(source))):
        with suppress(FileMissing):
            path, copy = write_ahead_file(source, number), write_ahead_file(target, number)
            sizes[number] = copying.copy_path(disk, path, copy)
    for number in sizes.keys() - set(write_ahead_files(disk.list(source))):
        disk.remove(write_ahead_file(target, number))
        del sizes[number]
    return sum(sizes.values())


def _files(disk: Disk, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield each file but the log's, and where its copy is to be; the folder is made."""
    for name in disk.sizes(source):
        is_log = bool(write_ahead_files([name]))
        if not is_log and name not in _NOT_COPIED and not name.endswith(".tmp"):
            yield f"{source}/{name}", f"{target}/{name}"
    for name in disk.folders(source):
        disk.make_folder(f"{target}/{name}", durable=False)
        yield from _files(disk, f"{source}/{name}", f"{target}/{name}")
