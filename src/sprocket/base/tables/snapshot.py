"""A large file that is replaced as a whole, piece by piece, while its owner goes on working.

The pieces are made between the steps, where the owner of the data is. Writing and syncing are steps
(`base.steps`), so they may run on another thread. The old content stays as `<path>.bak`; of the
first content that is a copy, so that there are two from the first moment.
"""

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from sprocket.base import log
from sprocket.base.disk import Disk, File, Steps, read_file, replace_file, steps
from sprocket.base.errors import FileMissing, ForeignStore, WireError
from sprocket.base.units import MIB

_log = log.get_logger(__name__)

T = TypeVar("T")

BACKUP = ".bak"
"""What the name of the file before the last one ends in."""

SYNC_BYTES = MIB
"""How much is written between two syncs, so that nobody else's sync has to wait for much more."""


class BackedFile:
    """A file that is replaced as a whole, with what it was before in `.bak`; its folder exists."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def load(self, interpret: Callable[[bytes], T], missing: Callable[[], T]) -> T:
        """Return what `interpret` makes of the content, what `missing` gives if there is none.

        A missing, empty or damaged file is taken from its backup.

        Args:
            interpret: Turns the content into a value; may raise WireError, ValueError or TypeError,
                which count as damage.
            missing: Gives the value if neither of the two is there.

        Raises:
            ForeignStore: The file is damaged, and so is its backup if there is one.
        Durability: a file that was taken from its backup is on the disk again, so that the next
            `replace` does not put what was damaged over the backup.
        """
        damage = ""
        for path in (self._path, self._path + BACKUP):
            content = self._read(path)
            if not content:
                continue
            try:
                value = interpret(content)
                if path != self._path:
                    replace_file(self._disk, self._path, content)
                return value
            except (WireError, ValueError, TypeError) as error:
                damage = f"{path} is damaged: {error}"
                _log.error("a file is damaged", path=path, why=str(error))
        if damage:
            raise ForeignStore(damage)
        return missing()

    def replace(self, content: bytes) -> None:
        """Give the file a new content: after a crash it has the old one or the new one.

        Durability: on the disk when this returns.
        Threads: any, one call at a time.
        """
        steps.run(self.replace_steps([content]))

    def replace_steps(self, pieces: Iterable[bytes]) -> Steps:
        """Give the file a new content, so that after a crash there is the old or the new one whole.

        For a moment it may lie under the name of its backup only, where `load` looks next.

        Args:
            pieces: The new content; each is made on the owner's thread, so each should be small.

        Raises:
            DiskFull, DiskFailed: The old content is there, under one of the names.
        Durability: when the steps are done the new content is on the disk.
        """
        disk, path = self._disk, self._path
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

    def _read(self, path: str) -> bytes:
        try:
            return read_file(self._disk, path)
        except FileMissing:
            return b""


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
    if not disk.exists(path + BACKUP):  # the first one has a second copy from the beginning
        replace_file(disk, path + BACKUP, read_file(disk, path))
