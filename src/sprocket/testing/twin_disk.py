"""A folder on the machine's disk that can lose what was not synced, as in a loss of power.

Every change is made twice: to the real files, which other programs can read meanwhile, and to a
`SimulatedDisk`, which remembers what has been synced. Nothing is really synced, so it is quick on
any disk. A loss of power makes the real files what the simulated ones would be found as.

Invariants

1. Content and names of the two are equal whenever no call is under way.
2. After `kill` or `cut` nothing that still holds this disk changes a file; they give a new disk.

Files that are not opened through a `Disk`, RocksDB's, have no twin and lose nothing.
"""

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sprocket.base.disk import Buffer, File, Lock, RealDisk, read_file
from sprocket.base.errors import DiskFailed
from sprocket.base.units import GIB
from sprocket.testing.disk import Choose, SimulatedDisk


class _TwinFile:
    """A real file and its simulated twin; it is read from the real one."""

    def __init__(self, disk: "TwinDisk", real: File, twin: File) -> None:
        self.path = real.path
        self.size = real.size
        self.data_end = real.data_end
        self.next_data = real.next_data
        self.read = real.read
        self.read_view = real.read_view
        self.view = real.view
        self.read_nowait = real.read_nowait
        self.start_reading = real.start_reading
        self._disk = disk
        self._real = real
        self._twin = twin

    def write(self, buffers: Sequence[Buffer], position: int) -> int:
        with self._disk._changing("write", self.path):
            self._twin.write(buffers, position)
            return self._real.write(buffers, position)

    def give_back(self, position: int, size: int) -> None:
        self._real.give_back(position, size)

    def allocate(self, position: int, size: int) -> None:
        self._real.allocate(position, size)

    def resize(self, size: int) -> None:
        with self._disk._changing("resize", self.path):
            self._twin.resize(size)
            self._real.resize(size)

    def sync(self) -> None:
        with self._disk._changing("sync", self.path):
            self._twin.sync()

    def start_sync(self) -> None:
        """Begin nothing: what is durable is the twin's matter."""

    def close(self) -> None:
        self._real.close()
        self._twin.close()


class TwinDisk:
    """The machine's disk, for one folder and what is in it.

    Args:
        folder: Whose files have twins.
        twin: The simulated disk, equal to the folder; by default a new one, on which what the
            folder holds counts as synced.

    Threads: any.
    """

    def __init__(self, folder: str, twin: SimulatedDisk | None = None) -> None:
        self.folder = folder
        self._real = real = RealDisk()
        self._twin = twin or SimulatedDisk()
        self._lock = threading.RLock()
        self._is_dead = False
        # What only looks is asked of the real one.
        self.exists = real.exists
        self.is_folder = real.is_folder
        self.size = real.size
        self.modified_at_ms = real.modified_at_ms
        self.list = real.list
        self.folders = real.folders
        self.sizes = real.sizes
        if twin is None:
            real.make_folder(folder)
            self._twin.make_folder(folder)
            self._adopt(folder)

    def kill(self) -> "TwinDisk":
        """Let nobody write any more who has this disk; return the one that the next process has."""
        with self._lock:
            self._is_dead = True
            return TwinDisk(self.folder, self._twin.kill())

    def cut(self, choose: Choose) -> "TwinDisk":
        """Lose power: make the files what they may be found as, and return the disk with them.

        Of what was not synced, `choose` says what is there anyway.
        """
        with self._lock:
            self._is_dead = True
            found = self._twin.crash(choose)
            shutil.rmtree(self.folder)
            self._write_down(found, self.folder)
            return TwinDisk(self.folder, found)

    def _adopt(self, folder: str) -> None:
        """Give everything in a folder its twin, synced."""
        for name in self._real.list(folder):
            path = os.path.join(folder, name)
            if self._real.is_folder(path):
                self._twin.make_folder(path)
                self._adopt(path)
                continue
            twin = self._twin.open(path, write=True, create=True)
            twin.write([read_file(self._real, path)], 0)
            twin.sync()
        self._twin.sync_folder(folder)

    def _write_down(self, found: SimulatedDisk, folder: str) -> None:
        self._real.make_folder(folder)
        for name in found.list(folder):
            path = os.path.join(folder, name)
            if found.is_folder(path):
                self._write_down(found, path)
                continue
            file = self._real.open(path, write=True, create=True)
            data = read_file(found, path)
            end = len(data.rstrip(b"\0"))
            file.resize(len(data))  # what is zero takes no space
            file.write([data[:end]], 0)
            file.close()

    @contextmanager
    def _changing(self, call: str, path: str) -> Iterator[None]:
        """Keep the two equal while a change is made; refuse it after the process died."""
        with self._lock:
            if self._is_dead:
                raise DiskFailed(f"{call} {path}: the process was killed")
            yield

    # -- the protocol

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        with self._changing("open", path):
            twin = self._twin.open(path, write=write, create=create, size=size)
            real = self._real.open(path, write=write, create=create, size=size)
            return _TwinFile(self, real, twin)

    def make_folder(self, path: str, *, durable: bool = True) -> None:
        """See `Disk.make_folder`."""
        with self._changing("mkdir", path):
            self._twin.make_folder(path, durable=durable)
            self._real.make_folder(path, durable=durable)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        with self._changing("remove", path):
            self._twin.remove(path)
            self._real.remove(path)

    def remove_tree(self, path: str) -> None:
        """See `Disk.remove_tree`."""
        with self._changing("remove", path):
            self._twin.remove_tree(path)
            self._real.remove_tree(path)

    def rename(self, source: str, target: str) -> None:
        """See `Disk.rename`."""
        with self._changing("rename", source):
            self._twin.rename(source, target)
            self._real.rename(source, target)

    def exchange(self, one: str, other: str) -> bool:
        """See `Disk.exchange`."""
        with self._changing("exchange", one):
            done = self._real.exchange(one, other)
            return done and self._twin.exchange(one, other)

    def sync_folder(self, path: str) -> None:
        """See `Disk.sync_folder`."""
        with self._changing("fsync", path):
            self._twin.sync_folder(path)

    def sync_tree(self, path: str) -> None:
        """See `Disk.sync_tree`."""
        with self._changing("syncfs", path):
            self._twin.sync_tree(path)

    def lock(self, path: str, wait_seconds: float = 0) -> Lock:
        """See `Disk.lock`; the end of the process frees it, as everywhere."""
        with self._changing("lock", path):
            if not self._twin.exists(path):
                self._twin.open(path, write=True, create=True)
        return self._real.lock(path, wait_seconds)

    def used_ratio(self, path: str) -> float:
        """See `Disk.used_ratio`; half, so that no test depends on what else the machine holds."""
        self._real.used_ratio(path)  # which tells whether there is such a folder
        return 0.5

    def free_bytes(self, path: str) -> int:
        """See `Disk.free_bytes`; a gigabyte, for the same reason."""
        self._real.free_bytes(path)
        return GIB
