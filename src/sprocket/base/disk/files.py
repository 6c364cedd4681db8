"""Whole files: read, replaced, synced and removed, on any disk."""

import contextlib
import os

from sprocket.base.disk.disk import Disk, File
from sprocket.base.errors import FileMissing
from sprocket.base.units import KIB

ROOM_BYTES = 64 * KIB
"""The most that one write of a busy log may have: less free space than this counts as none."""


def read_file(disk: Disk, path: str) -> bytes:
    """Return the whole content of a small file; FileMissing if it is not there."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def read_written(file: File, position: int, size: int) -> bytes:
    """Return `size` bytes from `position`; what was never written, or is after the end, is zeros.

    The system is asked only for what was written: to read a hole would make memory of it.

    Raises:
        DiskFailed: Some of it cannot be read.
    """
    end = position + size
    parts: list[bytes] = []
    while position < end:
        data = file.next_data(position)
        start = min(data.start, end) if data.start < data.end else end
        stop = min(data.end, end) if data.start < data.end else end
        if position < start:
            parts.append(bytes(start - position))
        if start < stop:
            part = file.read(start, stop - start)
            parts.append(part)
            if len(part) < stop - start:  # it was cut just now
                parts.append(bytes(stop - start - len(part)))
        position = stop
    return parts[0] if len(parts) == 1 else b"".join(parts)


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


def try_room(disk: Disk, path: str) -> None:
    """Find out whether `ROOM_BYTES` can be written and synced as a file, which is removed again.

    Raises:
        DiskFull, DiskFailed: They cannot.
    """
    file = disk.open(path, write=True, create=True)
    try:
        file.write([bytes(ROOM_BYTES)], 0)
        file.sync()
    finally:
        file.close()
        remove_if_there(disk, path)


def replace_file(disk: Disk, path: str, data: bytes, *, keep_backup: bool = False) -> None:
    """Give a file a new content, so that after a crash it has the old or the new one whole.

    Its folder exists. `keep_backup` first keeps the old content as `<path>.bak`, durable as well.

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
