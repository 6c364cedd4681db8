"""Copies of files and folders that somebody else may be writing meanwhile, and where they may go.

Nothing of a copy is durable before `Disk.sync_tree` of the folder that it is in.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress

from sprocket.base.disk.disk import Disk, Extent, File
from sprocket.base.disk.files import read_file
from sprocket.base.errors import DiskFailed, FileMissing, ForeignStore
from sprocket.base.units import MIB

CHUNK_BYTES = MIB
"""So much is read at a time."""
TRIES_MAX = 1000
"""How often a folder or a range is read again that changes meanwhile; each time takes less than a
millisecond, in which hardly anybody writes."""

Wanted = Callable[[str], bool]
"""Says of a name whether it is copied."""


def require_empty(disk: Disk, target: str) -> None:
    """Check that a folder is to be made, or has nothing in it.

    Raises:
        ForeignStore: There is something.
    """
    if disk.exists(target) and (not disk.is_folder(target) or disk.list(target)):
        raise ForeignStore(f"{target}: expected a new or an empty folder")


def require_outside(target: str, source: str, what: str = "") -> None:
    """Check that a copy does not lie in what is copied, `what` if that has a name.

    Raises:
        ForeignStore: It does, or is the same.
    """
    if f"{target}/".startswith(f"{source.rstrip('/')}/"):
        raise ForeignStore(f"{target}: expected a folder outside of {what}{source}")


def copy_file(disk: Disk, file: File, size: int, target: str) -> int:
    """Copy the first `size` bytes of a file that is only appended to; return how many it has.

    Holes stay holes.
    """
    chunks = _chunks(file, size)
    return _write(
        disk, target, size, ((c.start, file.read(c.start, c.end - c.start)) for c in chunks)
    )


def copy_filled(disk: Disk, file: File, target: str) -> int:
    """Copy a file that has its full length from its creation and is written from front to back.

    The copy is one of a moment: whatever it has, it has all that was written before that. So it is
    read from the back, and each range until it is the same twice.

    Returns:
        Its length.

    Raises:
        DiskFailed: It is never the same twice.
    """
    size = file.size()
    chunks = reversed([*_chunks(file, size)])
    return _write(disk, target, size, ((c.start, _settled(file, c)) for c in chunks))


def _write(disk: Disk, target: str, size: int, pieces: Iterable[tuple[int, bytes]]) -> int:
    """Make a file of so many bytes; return how many. The pieces say where each lies."""
    with closing(disk.open(target, write=True, create=True)) as made:
        made.resize(size)
        for position, data in pieces:
            if data:
                made.write([data], position)
    return size


def copy_tree(
    disk: Disk,
    source: str,
    target: str,
    wanted: Wanted = lambda _: True,
    after_each: Callable[[], None] = lambda: None,
) -> int:
    """Copy a folder, with all that is in it; what is removed meanwhile is left out.

    Args:
        disk: Where both are.
        source: The folder.
        target: The new one.
        wanted: Says of each name in it, though not of those further down, whether it is copied.
        after_each: Called after each file.

    Returns:
        The bytes of its files.
    """
    disk.make_folder(target, durable=False)
    size = 0
    for name in filter(wanted, disk.list(source)):
        path = f"{source}/{name}"
        with suppress(FileMissing):
            if disk.is_folder(path):
                size += copy_tree(disk, path, f"{target}/{name}", after_each=after_each)
            else:
                size += copy_path(disk, path, f"{target}/{name}")
                after_each()
    return size


def copy_path(disk: Disk, path: str, target: str) -> int:
    """Copy a file as `copy_filled` does; raises FileMissing if it is not there."""
    with closing(disk.open(path)) as file:
        return copy_filled(disk, file, target)


def copy_tables(disk: Disk, source: str, target: str, wanted: Wanted = lambda _: True) -> int:
    """Copy a folder of small files that are replaced as a whole, and of journals beside them.

    A journal begins another file before a table that it belongs to is replaced (`base.tables`). So
    if the names are the same before and after, files and journals belong together.

    Returns:
        The bytes of the files. Folders in it are copied as they are.

    Raises:
        DiskFailed: The names never stay the same.
    """
    disk.make_folder(target, durable=False)
    contents = _read_tables(disk, source, wanted)
    size = sum(
        _write(disk, f"{target}/{name}", len(data), [(0, data)]) for name, data in contents.items()
    )
    for name in filter(wanted, disk.folders(source)):
        size += copy_tree(disk, f"{source}/{name}", f"{target}/{name}")
    return size


def _read_tables(disk: Disk, folder: str, wanted: Wanted) -> dict[str, bytes]:
    def names() -> list[str]:
        found = disk.sizes(folder)
        return [name for name in found if not name.endswith(".tmp") and wanted(name)]

    for _ in range(TRIES_MAX):
        before = names()
        with suppress(FileMissing):
            contents = {name: read_file(disk, f"{folder}/{name}") for name in before}
            if names() == before:
                return contents
    raise DiskFailed(f"{folder}: its files were replaced {TRIES_MAX} times while they were read")


def _chunks(file: File, size: int) -> Iterator[Extent]:
    """Yield what may hold something else than zeros, in order."""
    position = 0
    while position < size:
        data = file.next_data(position)
        end = min(data.end, size)
        if data.start >= end:
            return
        for start in range(data.start, end, CHUNK_BYTES):
            yield Extent(start, min(start + CHUNK_BYTES, end))
        position = end


def _settled(file: File, chunk: Extent) -> bytes:
    size = chunk.end - chunk.start
    before = file.read(chunk.start, size)
    for _ in range(TRIES_MAX):
        again = file.read(chunk.start, size)
        if again == before:
            return again
        before = again
    raise DiskFailed(f"{file.path}: it changes each time that it is read")
