"""Whole files: read, replaced, synced and removed, on any disk."""

import contextlib
import os

from sprocket.base.disk import Disk
from sprocket.base.errors import FileMissing


def read_file(disk: Disk, path: str) -> bytes:
    """Return the whole content of a small file; FileMissing if it is not there."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def sync_file(disk: Disk, path: str) -> None:
    """Return when all that was written to a file is on the disk, by whatever handle.

    Raises:
        DiskFailed: As `File.sync`; FileMissing if it is not there.
    Threads: any.
    """
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def remove_if_there(disk: Disk, path: str) -> None:
    """Remove a file, unless it is gone already. Durable after `sync_folder`."""
    with contextlib.suppress(FileMissing):
        disk.remove(path)


def replace_file(disk: Disk, path: str, data: bytes, *, keep_backup: bool = False) -> None:
    """Give a file a new content, so that after a crash it has the old or the new one whole.

    Args:
        disk: Where.
        path: The file; its folder exists.
        data: The new content.
        keep_backup: First keep the old content as `<path>.bak`, durable as well.
    Durability: on return the new content is on the disk.
    """
    folder = os.path.dirname(path)
    if keep_backup and disk.exists(path):
        _write_whole(disk, path + ".bak", read_file(disk, path))
        disk.sync_folder(folder)
    _write_whole(disk, path, data)
    disk.sync_folder(folder)


def _write_whole(disk: Disk, path: str, data: bytes) -> None:
    temporary = path + ".tmp"
    file = disk.open(temporary, write=True, create=True)
    try:
        file.resize(0)
        file.write([data], 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
