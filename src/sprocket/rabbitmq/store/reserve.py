"""Space that a node reserves, so that it can start on a disk that others have filled.

A start after a kill writes before it can give anything back. If it has no room for that it removes
this file and begins again; the file is created again when there is space.
"""

from contextlib import suppress
from typing import Final

from sprocket.base.disk import Disk, remove_if_there
from sprocket.base.errors import StoreError

NAME: Final = "sprocket.reserve"
FREE_RATIO: Final = 2
"""How much more than the file must be free for it to be made."""


def give_up(disk: Disk, folder: str) -> bool:
    """Remove the file; say whether it was there.

    Raises:
        DiskFailed: It cannot be removed.
    """
    path = f"{folder}/{NAME}"
    was_there = disk.exists(path) and disk.size(path) > 0
    remove_if_there(disk, path)
    return was_there


def keep(disk: Disk, folder: str, size: int) -> None:
    """Make the file if it is missing, as large as the free room allows, `size` at most.

    It need not outlive a loss of power: then it is made again. If it cannot be made it is not.
    """
    path = f"{folder}/{NAME}"
    size = min(size, disk.free_bytes(folder) // FREE_RATIO)
    if size <= 0 or (disk.exists(path) and disk.size(path) > 0):
        return
    with suppress(StoreError):
        file = disk.open(path, write=True, create=True)
        try:
            file.resize(size)
            file.allocate(0, size)
        except StoreError:
            disk.remove(path)  # it is as long as it should be, and has no room of its own
            raise
        finally:
            file.close()
