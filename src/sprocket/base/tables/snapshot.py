"""A large file that is replaced as a whole, piece by piece, while its owner goes on working.

The pieces are made between the steps, where the owner of the data is. Writing and syncing are steps
(`base.steps`), so they may run on another thread. The old content stays as `<path>.bak`.
"""

import os
from collections.abc import Iterable
from functools import partial

from sprocket.base.disk import Disk, File, Steps
from sprocket.base.units import MIB

BACKUP = ".bak"
"""What the name of the file before the last one ends in."""

SYNC_BYTES = MIB
"""How much is written between two syncs, so that nobody else's sync has to wait for much more."""


def replace_steps(disk: Disk, path: str, pieces: Iterable[bytes]) -> Steps:
    """Give a file new content, so that after a crash there is the old or the new one whole.

    For a moment it may lie under the name of its backup only, where readers look next.

    Args:
        disk: Where.
        path: The file; its folder exists.
        pieces: The new content; each is made on the owner's thread, so each should be small.

    Raises:
        DiskFull, DiskFailed: The old content is there, under one of the names.
    Durability: when the steps are done the new content is on the disk.
    """
    temporary = path + ".tmp"
    file: File = yield partial(_begun, disk, temporary)
    try:
        position = unsynced = 0
        for piece in pieces:
            unsynced += len(piece)
            is_enough = unsynced >= SYNC_BYTES
            yield partial(_write, file, piece, position, sync=is_enough)
            unsynced = 0 if is_enough else unsynced
            position += len(piece)
        yield file.sync
    finally:
        file.close()
    yield partial(_take_place, disk, temporary, path)


def _begun(disk: Disk, path: str) -> File:
    file = disk.open(path, write=True, create=True)
    try:
        file.resize(0)
    except BaseException:
        file.close()
        raise
    return file


def _write(file: File, data: bytes, position: int, *, sync: bool) -> None:
    file.write([data], position)
    if sync:
        file.sync()


def _take_place(disk: Disk, temporary: str, path: str) -> None:
    if disk.exists(path):
        disk.rename(path, path + BACKUP)
    disk.rename(temporary, path)
    disk.sync_folder(os.path.dirname(path))
