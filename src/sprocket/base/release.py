"""Which releases may open a folder: a file in it names the lowest one.

A folder that a crash has left may have what an older release does not know, and would skip
silently. So opening one for writing makes it name the lowest release that can read it safely,
before anything else in it is changed; each store names its own. The file stays: a release that
writes less later may leave what was written before.

    sprocket.version = release SP crc LF        ; crc is CRC-32 of the release, in decimal

A file with a wrong checksum says nothing, as if it were missing: no single bit keeps a store from
being opened.
"""

import re
from typing import Final

from sprocket import __version__
from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import FileMissing, ForeignStore

FILE: Final = "sprocket.version"

_RELEASE = re.compile(r"\d{1,9}(\.\d{1,9})*")


def require(disk: Disk, folder: str) -> list[str]:
    """Check that this release may open a folder.

    Returns:
        What is wrong with the file that says so: a sentence, or none.

    Raises:
        ForeignStore: It may not.
    """
    return _read(disk, folder)[1]


def admit(disk: Disk, folder: str, lowest: str) -> list[str]:
    """Write into a folder which release is the lowest that may open it, if nothing says so yet.

    Args:
        disk: Where it is.
        folder: It exists, and is locked.
        lowest: That release, `major.minor.patch`.

    Returns:
        What was wrong with the file that names it.

    Raises:
        ForeignStore: This one may not open it.
        DiskFull, DiskFailed: Nothing has changed.
    Durability: on return it is on the disk.
    """
    named, wrong = _read(disk, folder)
    if named < _parts(lowest):
        text = lowest.encode()
        replace_file(disk, f"{folder}/{FILE}", b"%s %d\n" % (text, crc32(text)))
    return wrong


def _read(disk: Disk, folder: str) -> tuple[tuple[int, ...], list[str]]:
    """Return the lowest release, `(0,)` if none is named, and what is wrong with the file."""
    path = f"{folder}/{FILE}"
    try:
        data = read_file(disk, path)
    except FileMissing:
        return (0,), []
    release, _, crc = data.partition(b" ")
    text = release.decode("latin-1")
    if crc != b"%d\n" % crc32(release) or not _RELEASE.fullmatch(text):
        return (0,), [f"{path}: expected a release with its checksum, found {data[:40]!r}"]
    if _parts(text) > _parts(__version__):
        raise ForeignStore(
            f"{folder} was last opened by a newer Sprocket and has what this one, {__version__}, "
            f"does not know; use {text} or a later one"
        )
    return _parts(text), []


def _parts(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, without what marks one that is not out yet."""
    found = _RELEASE.match(release)
    return tuple(map(int, found.group().split("."))) if found else (0,)
