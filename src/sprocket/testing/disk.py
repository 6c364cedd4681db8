"""A disk in memory that remembers what was synced and can lose the rest.

It passes the same contract suite as `base.disk.RealDisk`. What a crash may do to it:

* Content: of every block of 512 bytes that was written since the last sync of its file, any version
  since then may be found, each block by itself. A changed length may be found or not.
* Names: of the creations, renames and removals since the last `sync_folder` of their folder, any
  subset may have happened. Folders are durable at once, except for those that `make_folder` was
  told not to make so: one that was not synced into its parent since may be gone with all it
  holds.
* A failed sync leaves what it should have synced in doubt permanently: a later sync that succeeds
  does not make it durable, as on Linux, where the pages count as clean after the error.

A crash does not change the disk itself but returns a new one, so that one run of operations can be
crashed at many points and in many ways.
"""

import contextlib
import errno
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from sprocket.base.disk import Buffer, Extent, File, Lock, PendingSync
from sprocket.base.errors import DiskFailed, DiskFull, DiskRefused, FileMissing, StoreLocked

BLOCK = 512
"""Bytes that a disk writes whole or not at all."""

_NOT_ZERO = re.compile(rb"[^\0]")

Choose = Callable[[int], int]
"""Returns a number from 0 to one below its argument; `random.Random(seed).randrange` is one."""


class _Node:
    """The content of one file: current bytes and, per dirty block, what a crash could leave."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable_size = len(data)
        self.versions: dict[int, list[bytes]] = {}
        self.doubtful: set[int] = set()
        self.modified_at_ms = 0
        self.given_back: list[tuple[int, int]] = []
        self.spoilt: list[tuple[int, int]] = []

    def write(self, position: int, data: bytes) -> None:
        end = position + len(data)
        self.spoilt = _without(self.spoilt, position, end)  # a disk gives it another sector
        if end > len(self.data):
            self.resize(end)
        self._keep(position, end)
        self.data[position:end] = data

    def bring(self, start: int, end: int) -> None:
        """Have a range in memory again. Reads of a view are not noticed."""
        self.given_back = _without(self.given_back, start, end)

    def resize(self, size: int) -> None:
        if size < len(self.data):
            self._keep(size, len(self.data))
        self.data = self.data[:size] + bytes(max(0, size - len(self.data)))

    def _keep(self, start: int, end: int) -> None:
        """Remember the blocks that are about to change."""
        for block in range(start // BLOCK, -(-end // BLOCK)):
            old = bytes(self.data[block * BLOCK : (block + 1) * BLOCK])
            self.versions.setdefault(block, []).append(old)
            self.doubtful.discard(block)

    def sync(self) -> None:
        self.durable_size = len(self.data)
        if self.doubtful:
            self.versions = {b: v for b, v in self.versions.items() if b in self.doubtful}
        else:
            self.versions.clear()

    def fail_sync(self) -> None:
        self.doubtful.update(self.versions)

    def copy(self) -> "_Node":
        same = _Node()
        same.data = bytearray(self.data)
        same.durable_size = self.durable_size
        same.versions = {block: list(versions) for block, versions in [*self.versions.items()]}
        same.doubtful = set(self.doubtful)
        same.modified_at_ms = self.modified_at_ms
        same.spoilt = list(self.spoilt)
        return same

    def after_crash(self, choose: Choose) -> "_Node":
        size = len(self.data)
        if self.durable_size != size and choose(2):
            size = self.durable_size
        data = bytearray(self.data[:size]) + bytes(max(0, size - len(self.data)))
        blocks = sorted(self.versions)
        lost = self._lost(blocks, choose)
        for block in lost:
            versions = self.versions[block]
            old = versions[choose(len(versions)) if len(versions) > 1 else 0]
            start = block * BLOCK
            room = data[start : start + BLOCK]
            data[start : start + BLOCK] = (old + bytes(BLOCK))[: len(room)]
        found = _Node(bytes(data))
        found.spoilt = list(self.spoilt)
        return found

    @staticmethod
    def _lost(blocks: list[int], choose: Choose) -> list[int]:
        """Choose which dirty blocks are not as they were last written; biased to the edges."""
        if not blocks:
            return []
        match choose(5):
            case 0:
                return blocks
            case 1:
                return []
            case 2:  # the disk got so far
                return blocks[choose(len(blocks) + 1) :]
            case 3:  # one block is missing
                return [blocks[choose(len(blocks))]]
        mask = choose(1 << len(blocks))
        return [block for bit, block in enumerate(blocks) if mask >> bit & 1]


def _failed(call: str, path: str, error: int) -> DiskFull | DiskFailed:
    text = f"{call} {path}: {os.strerror(error)}"
    is_full = error in (errno.ENOSPC, errno.EDQUOT)
    if is_full and call not in ("sync", "sync_folder", "sync_tree"):
        return DiskFull(text)
    return DiskRefused(text, path) if call in _WITHOUT_BYTES else DiskFailed(text, path)


def _without(ranges: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return what is left of ranges when one is taken out of them."""
    parts = [part for a, b in ranges for part in ((a, min(b, start)), (max(a, end), b))]
    return [(a, b) for a, b in parts if a < b]


class _SimulatedFile:
    def __init__(self, disk: "SimulatedDisk", path: str, node: _Node, *, write: bool) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._write = write
        self._open = True

    def size(self) -> int:
        self._disk._enter("size", self.path)
        return len(self._node.data)

    def data_end(self) -> int:
        self._disk._enter("data_end", self.path)
        return len(self._node.data.rstrip(b"\0") if self._disk.has_holes else self._node.data)

    def next_data(self, position: int) -> Extent:
        self._disk._enter("next_data", self.path)
        data = self._node.data
        if not self._disk.has_holes:
            return Extent(min(position, len(data)), len(data))
        found = _NOT_ZERO.search(data, position)
        if found is None:
            return Extent(len(data), len(data))
        start = end = max(position, found.start() // BLOCK * BLOCK)
        while end < len(data) and _NOT_ZERO.search(data, end, end // BLOCK * BLOCK + BLOCK):
            end = end // BLOCK * BLOCK + BLOCK
        return Extent(start, min(end, len(data)))

    def read(self, position: int, size: int) -> bytes:
        self._disk._enter("read", self.path)
        for start, end in self._node.spoilt:
            if start < position + size and position < end:
                text = f"read from {position} of {self.path}: {os.strerror(errno.EIO)}"
                raise DiskFailed(text, self.path)
        self._node.bring(position, position + size)
        return bytes(self._node.data[position : position + size])

    def read_view(self, position: int, size: int) -> memoryview:
        return memoryview(self.read(position, size))

    def view(self) -> memoryview:
        self._disk._enter("view", self.path)
        return memoryview(self._node.data).toreadonly()

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        self._check("write")
        data = b"".join(buffers)
        self._node.modified_at_ms = self._disk.now_ms
        with self._disk._entering("write", self.path) as kept, self._disk._guard:
            self._node.write(position, data[: int(len(data) * kept)])
        return len(data)

    def start_reading(self, position: int, size: int) -> None:
        self._disk.calls["start_reading"] += 1
        self._node.bring(position, position + size)

    def give_back(self, position: int, size: int) -> None:
        self._disk.calls["give_back"] += 1
        self._node.given_back.append((position, position + size))

    def read_nowait(self, position: int, buffer: memoryview) -> int | None:
        end = position + len(buffer)
        if any(a < end and position < b for a, b in self._node.given_back):
            return None
        self._disk._enter("read_nowait", self.path)
        data = self._node.data[position:end]
        buffer[: len(data)] = data
        return len(data)

    def allocate(self, position: int, size: int) -> None:
        self._check("allocate")
        assert 0 <= position <= position + size <= len(self._node.data)
        self._disk._enter("allocate", self.path)

    def resize(self, size: int) -> None:
        self._check("resize")
        with self._disk._entering("resize", self.path) as kept, self._disk._guard:
            if kept:
                self._node.resize(size)

    def sync(self) -> None:
        self._check("sync", write=False)
        try:
            self._disk._enter("sync", self.path)
        except (DiskFull, DiskFailed):
            with self._disk._guard:
                self._node.fail_sync()
            raise
        with self._disk._guard:
            self._node.sync()

    def start_sync(self) -> PendingSync | None:
        """Have it done when it is waited for; what is written until then may be durable with it."""
        return _SimulatedSync(self, self._disk)

    def close(self) -> None:
        self._open = False

    def _check(self, call: str, *, write: bool = True) -> None:
        if not self._open or (write and not self._write):
            raise DiskFailed(f"{call} {self.path}: Bad file descriptor")


class _SimulatedSync:
    def __init__(self, file: _SimulatedFile, disk: "SimulatedDisk") -> None:
        self._file = file
        self._disk = disk

    def wait(self, seconds: float | None = None) -> bool:
        if self._disk.is_slow and seconds is not None:
            return False
        self._file.sync()
        return True


class _SimulatedLock:
    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk._locked.discard(self._path)


CHANGES = (
    "create",
    "write",
    "resize",
    "sync",
    "sync_folder",
    "sync_tree",
    "rename",
    "exchange",
    "remove",
    "make_folder",
)
"""Calls that change the disk, or what a crash leaves of it."""

_TAKES_SPACE = {"write", "create", "resize", "allocate", "make_folder"}
"""Calls that find no space on a full disk. A real one still lets what is there be written over."""

_WITHOUT_BYTES = {"create", "exchange", "exists", "folders", "is_folder", "list", "lock"} | {
    "make_folder",
    "modified_at_ms",
    "open",
    "remove",
    "rename",
    "size",
    "sizes",
}
"""Calls that write and sync no bytes of a file; a real disk says that they were refused."""


class _Guard:
    """A lock that a copy of its owner has anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __deepcopy__(self, _: object) -> "_Guard":
        return _Guard()


class SimulatedDisk:
    """An empty disk with one folder, `/`.

    Attributes:
        before: Called before each call, with its kind and path; may crash the disk there.
        calls: How many calls of each kind there were, and of `any`.
        can_exchange: It can `exchange` folders.
        has_holes: It can tell what was never written; if not, a file's data ends where it does.
        is_full: Whatever takes space fails.
        is_slow: A sync that the system runs by itself takes longer than anybody stands still for.
        now_ms: The time that changed files get.
        used: What `used_ratio` says.
    """

    def __init__(self) -> None:
        self._files: dict[str, _Node] = {}
        self._durable: dict[str, _Node] = {}
        self._changes: list[tuple[str, str | None, str | None, _Node]] = []
        self._folders: set[str] = {"/"}
        self._loose: set[str] = set()
        self._locked: set[str] = set()
        self._guard = _Guard()
        """Held while contents change or are copied: by `before` too, on whichever thread."""
        self._failures: dict[tuple[str, int], tuple[int, float]] = {}
        self.before: Callable[[str, str], None] | None = None
        self.calls: Counter[str] = Counter()
        self.has_holes = self.can_exchange = True
        self.is_full = self.is_slow = False
        self.now_ms = 0
        self.used = 0.0

    # -- faults

    def fail(
        self, call: str, nth: int = 1, error: int = errno.EIO, kept: float | None = None
    ) -> None:
        """Make a coming call fail.

        Args:
            call: Its name: one of a file's or of the disk's, `create` for the `open` that makes a
                file, or `any`.
            nth: Which one, counted from now; 1 is the next.
            error: Its errno.
            kept: How much of it was done anyway, from 0 to 1. Of a write this many bytes are in
                the file; anything else that changes the disk was done unless it is 0. By default
                half of a write that finds no space, else nothing.
        """
        if kept is None:
            kept = 0.5 if call == "write" and error == errno.ENOSPC else 0
        self._failures[call, self.calls[call] + nth] = error, kept

    def heal(self) -> None:
        """Have room again, and let no call fail that `fail` named and that has not come yet."""
        self._failures.clear()
        self.is_full = False

    def spoil(self, path: str, position: int, size: int) -> None:
        """Let every read of a range of a file fail, as on a bad sector, until it is written.

        A view of it shows what was there: on a real disk the process would die.
        """
        self._node(path).spoilt.append((position, position + size))

    def repair(self, path: str) -> None:
        """Let every read of a file that was spoilt go well again."""
        self._node(path).spoilt.clear()

    def contents(self) -> dict[str, bytes]:
        """Return what each file holds, by its path."""
        return {path: bytes(node.data) for path, node in sorted(self._files.items())}

    def crash(self, choose: Choose) -> "SimulatedDisk":
        """Return the disk as it may be found after a loss of power now; this one stays as it is."""
        names = dict(self._durable)
        mode = choose(3)
        for _folder, source, target, node in list(self._changes):
            if mode == 0 or (mode == 2 and choose(2)):
                continue
            if source is not None:
                names.pop(source, None)
            if target is not None:
                names[target] = node
        found = SimulatedDisk()
        lost = [f for f in sorted(self._loose) if mode == 0 or (mode == 2 and choose(2))]
        found._folders = {path for path in self._folders if not _is_in(path, lost)}
        names = {path: node for path, node in names.items() if not _is_in(path, lost)}
        found.now_ms = self.now_ms
        with self._guard:
            copies = {id(node): node.after_crash(choose) for node in names.values()}
        found._files = {path: copies[id(node)] for path, node in sorted(names.items())}
        for path in found._files:  # a file that came back is in its folder
            while path not in found._folders:
                path = os.path.dirname(path)
                found._folders.add(path)
        found._durable = dict(found._files)
        return found

    def kill(self) -> "SimulatedDisk":
        """Return the disk as it is found after the process died and the machine went on.

        Nothing is lost, but what was not synced still is not: a later crash may take it.
        """
        found = SimulatedDisk()
        # A thread of the dead process may still be closing and removing files.
        files, durable, changes = dict(self._files), dict(self._durable), list(self._changes)
        nodes = [*files.values(), *durable.values(), *(change[3] for change in changes)]
        with self._guard:
            copies = {id(node): node.copy() for node in nodes}
        found._folders, found._loose = set(self._folders), set(self._loose)
        found.now_ms = self.now_ms
        found._files = {path: copies[id(node)] for path, node in files.items()}
        found._durable = {path: copies[id(node)] for path, node in durable.items()}
        found._changes = [(*change[:3], copies[id(change[3])]) for change in changes]
        return found

    def _enter(self, call: str, path: str) -> None:
        """Count a call; raise if it is to fail."""
        failure = self._counted(call, path)
        if failure is not None:
            raise _failed(call, path, failure[0])

    @contextlib.contextmanager
    def _entering(self, call: str, path: str) -> Iterator[float]:
        """Count a call; give how much of it is done, and raise after that if it is to fail."""
        error, kept = self._counted(call, path) or (0, 1)
        yield kept
        if error:
            raise _failed(call, path, error)

    def _counted(self, call: str, path: str) -> tuple[int, float] | None:
        """Count a call; if it is to fail, return the error's number and how much is done of it."""
        if self.before is not None:
            self.before(call, path)
        calls, failures = self.calls, self._failures
        calls[call] += 1
        calls["any"] += 1
        if failures:
            for key in ((call, calls[call]), ("any", calls["any"])):
                if key in failures:
                    return failures.pop(key)
        return (errno.ENOSPC, 0) if self.is_full and call in _TAKES_SPACE else None

    # -- the protocol

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        assert write or not create
        if path in self._folders:
            raise DiskFailed(f"open {path}: Is a directory")
        node = self._files.get(path)
        if node is None:
            folder = os.path.dirname(path)
            if not create or folder not in self._folders:
                self._enter("open", path)
                raise FileMissing(f"open {path}: No such file or directory")
            with self._entering("create", path) as kept:
                node = _Node()
                node.modified_at_ms = self.now_ms
                if kept:
                    self._files[path] = node
                    self._changes.append((folder, None, path, node))
            file = _SimulatedFile(self, path, node, write=write)
            if size is not None:
                file.resize(size)
            return file
        self._enter("open", path)
        return _SimulatedFile(self, path, node, write=write)

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        self._enter("exists", path)
        return path in self._files or path in self._folders

    def is_folder(self, path: str) -> bool:
        """See `Disk.is_folder`."""
        self._enter("is_folder", path)
        return path in self._folders

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        self._enter("size", path)
        return len(self._node(path).data)

    def modified_at_ms(self, path: str) -> int:
        """See `Disk.modified_at_ms`; the time is the attribute `now_ms`, which tests set."""
        self._enter("modified_at_ms", path)
        return self._node(path).modified_at_ms

    def _node(self, path: str) -> _Node:
        try:
            return self._files[path]
        except KeyError:
            raise FileMissing(f"stat {path}: No such file or directory") from None

    def list(self, folder: str) -> list[str]:
        """See `Disk.list`."""
        self._enter("list", folder)
        return [*self._names(folder)]

    def folders(self, folder: str) -> Sequence[str]:
        """See `Disk.folders`."""
        self._enter("folders", folder)
        return [name for name in self._names(folder) if f"{folder}/{name}" in self._folders]

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Disk.sizes`."""
        self._enter("sizes", folder)
        nodes = ((name, self._files.get(f"{folder}/{name}")) for name in self._names(folder))
        return {name: len(node.data) for name, node in nodes if node is not None}

    def _names(self, folder: str) -> Sequence[str]:
        prefix = folder.rstrip("/") + "/"
        inside = (p for p in [*self._files, *self._folders] if p.startswith(prefix) and p != prefix)
        return sorted({path[len(prefix) :].partition("/")[0] for path in inside})

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        """See `Disk.make_folder`."""
        if path in self._files:
            raise DiskFailed(f"mkdir {path}: File exists")
        missing = []
        while path not in self._folders:
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            with self._entering("make_folder", each) as kept:
                if kept:
                    self._folders.add(each)
                    if not durable:
                        self._loose.add(each)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        node = self._node(path)
        with self._entering("remove", path) as kept:
            if kept:
                del self._files[path]
                self._changes.append((os.path.dirname(path), path, None, node))

    def remove_tree(self, path: str) -> None:
        """See `Disk.remove_tree`."""
        prefix = path + "/"
        for name in [name for name in self._files if name.startswith(prefix)]:
            self.remove(name)
        self._folders = {f for f in self._folders if f != path and not f.startswith(prefix)}
        self._loose &= self._folders

    def rename(self, source: str, target: str) -> None:
        """See `Disk.rename`."""
        if source in self._folders:
            self._rename_folder(source, target)
            return
        node = self._node(source)
        with self._entering("rename", source) as kept:
            if kept:
                del self._files[source]
                self._files[target] = node
                self._changes.append((os.path.dirname(target), source, target, node))

    def exchange(self, one: str, other: str) -> bool:
        """See `Disk.exchange`; durable at once, as the renaming of a folder is."""
        for folder in (one, other):
            if folder not in self._folders:
                raise FileMissing(f"exchange {folder}: No such file or directory", folder)
        with self._entering("exchange", other) as kept:
            if kept and self.can_exchange:
                self._move({one: other, other: one})
        return self.can_exchange

    def _rename_folder(self, source: str, target: str) -> None:
        """Rename a folder with all it holds, durably at once as `make_folder` makes it."""
        with self._entering("rename", source) as kept:
            if kept:
                self._move({source: target})

    def _move(self, names: Mapping[str, str]) -> None:
        """Give folders other names, by their old ones."""

        def moved(path: str) -> str:
            for source, target in names.items():
                if path == source or path.startswith(source + "/"):
                    return target + path[len(source) :]
            return path

        self._folders = {moved(path) for path in self._folders}
        self._loose = {moved(path) for path in self._loose if path not in names}
        self._files = {moved(path): node for path, node in self._files.items()}
        self._durable = {moved(path): node for path, node in self._durable.items()}
        self._changes = [
            (moved(folder), old and moved(old), new and moved(new), node)
            for folder, old, new, node in self._changes
        ]

    def sync_folder(self, path: str) -> None:
        """See `Disk.sync_folder`."""
        self._enter("sync_folder", path)
        self._sync_names(lambda folder: folder == path)

    def _sync_names(self, is_synced: Callable[[str], bool]) -> None:
        """Make the changes of names durable that were made in some folders."""
        left = []
        for change in self._changes:
            folder, source, target, node = change
            if not is_synced(folder):
                left.append(change)
                continue
            if source is not None:
                self._durable.pop(source, None)
            if target is not None:
                self._durable[target] = node
        self._changes = left
        self._loose = {path for path in self._loose if not is_synced(os.path.dirname(path))}

    def sync_tree(self, path: str) -> None:
        """See `Disk.sync_tree`."""
        inside = path + "/"
        nodes = [node for name, node in self._files.items() if name.startswith(inside)]
        try:
            self._enter("sync_tree", path)
        except (DiskFull, DiskFailed):
            with self._guard:
                for node in nodes:
                    node.fail_sync()
            raise
        with self._guard:
            for node in nodes:
                node.sync()
        self._sync_names(lambda folder: folder == path or folder.startswith(inside))

    def lock(self, path: str, wait_seconds: float = 0) -> Lock:  # noqa: ARG002 - time stands still
        """See `Disk.lock`."""
        self._enter("lock", path)
        if path in self._locked:
            raise StoreLocked(f"{path} is locked")
        if path not in self._files:
            self.open(path, write=True, create=True)
        self._locked.add(path)
        return _SimulatedLock(self, path)

    def used_ratio(self, path: str) -> float:
        """See `Disk.used_ratio`; it is the attribute `used`, which tests set."""
        self._enter("used_ratio", path)
        if path not in self._files and path not in self._folders:
            raise FileMissing(f"statvfs {path}: No such file or directory")
        return self.used

    def free_bytes(self, path: str) -> int:
        """See `Disk.free_bytes`: what `used` leaves of a gigabyte."""
        return round((1 - self.used_ratio(path)) * (1 << 30))


def _is_in(path: str, folders: Sequence[str]) -> bool:
    """Tell whether a path is one of some folders, or lies in one."""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
