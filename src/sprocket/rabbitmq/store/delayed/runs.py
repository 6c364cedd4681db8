"""Runs: files of delayed messages in the order in which they are due, written once, read once.

A reader holds one block of a run at most. Of one that is damaged the entries that are whole are
kept; the rest is skipped, up to the next block whose head is whole.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from sprocket.base.disk import Disk, File, remove_if_there
from sprocket.base.errors import CorruptRecord, DiskFailed
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.codec import delayed
from sprocket.rabbitmq.codec.delayed import BlockHead, DelayedEntry, DelayedKey, RunFile
from sprocket.rabbitmq.store.layout import DelayedLayout

SEARCH_BYTES: Final = 64 * KIB
"""This much is read at once of what is damaged, to find where it ends."""
STEP_BYTES: Final = 4 * MIB
"""This much of a merge is written before others have their turn at the disk."""


class NextBlock(NamedTuple):
    """Where a run continues.

    Attributes:
        position: Of the block; the end of the file if there is none.
        head: Of the block; None if there is none.
        faults: What was skipped on the way.
    """

    position: int
    head: BlockHead | None
    faults: tuple[str, ...]


class LoadedBlock(NamedTuple):
    """A block that was read, and the one after it, with what cannot be read of both."""

    entries: list[DelayedEntry]
    following: NextBlock


def next_block(file: File, position: int, end: int) -> NextBlock:
    """Return the next block from a position on; on any thread."""
    faults: list[str] = []
    while position < end:
        why = _head(file, position, end)
        if isinstance(why, BlockHead):
            return NextBlock(position, why, tuple(faults))
        faults.append(f"{file.path}: at {position}: {why}")
        position = _search(file, position + 1, end)
    return NextBlock(end, None, tuple(faults))


def _head(file: File, position: int, end: int) -> BlockHead | str:
    """Return the head at a position, or why there is none."""
    try:
        found = delayed.decode_head(file.read(position, delayed.HEAD_BYTES))
    except (CorruptRecord, DiskFailed) as error:
        return str(error)
    if position + delayed.HEAD_BYTES + found.size > end:
        return f"a block of {found.size} bytes, which the file has not"
    return found


def _search(file: File, position: int, end: int) -> int:
    """Return the next position at which a whole head stands; `end` if there is none."""
    while position < end:
        size = min(SEARCH_BYTES, end - position)
        try:
            data = file.read(position, size)
        except DiskFailed:
            position += size
            continue
        at = data.find(delayed.MAGIC_START)
        while at >= 0:
            if isinstance(_head(file, position + at, end), BlockHead):
                return position + at
            at = data.find(delayed.MAGIC_START, at + 1)
        step = size - len(delayed.MAGIC_START) + 1  # it may begin at the end of what was read
        position += step if step > 0 and position + size < end else size
    return end


def load_block(file: File, position: int, head: BlockHead, end: int) -> LoadedBlock:
    """Return the entries of a block, and what follows it; on any thread."""
    start = position + delayed.HEAD_BYTES
    stop = start + head.size
    try:
        entries, fault = delayed.decode_block(head, file.read(start, head.size))
    except DiskFailed as error:
        entries, fault = [], f"{head.entry_count} messages cannot be read: {error}"
    following = next_block(file, stop, end)
    if fault:
        told = f"{file.path}: at {position}: {fault}"
        following = following._replace(faults=(told, *following.faults))
    return LoadedBlock(entries, following)


class DelayedRun:
    """One run, as it is read.

    Args:
        file: Opened; `close` gives it up.
        known: What it is.
        begin: Its first block that is not obsolete, from `next_block`.

    Attributes:
        number: Of the run.
        file: As given.
        file_bytes: Of the file.
        position: Of the block that is read next.
        head: Of that; None if there is none.
        entries: Read, and not taken yet.
        faults: What cannot be read.
        reported_count: How many of these were reported.
        retried_at: Where a block was that could not be read; it is read once more.
    Threads: one at a time.
    """

    def __init__(self, file: File, known: RunFile, begin: NextBlock) -> None:
        self.number = known.number
        self.file = file
        self.file_bytes = known.file_bytes
        self.position = begin.position
        self.head = begin.head
        self.entries: deque[DelayedEntry] = deque()
        self.faults = [*begin.faults]
        self.reported_count = 0
        self.retried_at = -1
        self._entries_at = self._done_at = begin.position

    @property
    def next_key(self) -> DelayedKey | None:
        """What comes next; None if nothing does."""
        if self.entries:
            return self.entries[0].key
        return None if self.head is None else self.head.first

    @property
    def as_file(self) -> RunFile:
        """What a manifest says of it: a start finds there all that was not done."""
        return RunFile(self.number, self.file_bytes, self._done_at)

    @property
    def left_bytes(self) -> int:
        """Bytes that are not obsolete."""
        return self.file_bytes - self._done_at

    def note_done(self) -> None:
        """Note that all that was taken was routed."""
        self._done_at = self._entries_at if self.entries else self.position

    def take_block(self, loaded: LoadedBlock) -> None:
        """Take what was read of the block at `position`."""
        self.entries.extend(loaded.entries)
        self._entries_at = self.position
        self.position, self.head = loaded.following.position, loaded.following.head
        self.faults += loaded.following.faults

    def skip_block(self, following: NextBlock) -> None:
        """Pass over the block at `position`, all of which was taken before."""
        self.position, self.head = following.position, following.head
        self.faults += following.faults

    def close(self) -> None:
        """Give the file up."""
        self.file.close()


def open_run(disk: Disk, layout: DelayedLayout, known: RunFile) -> DelayedRun:
    """Open a run.

    Raises:
        DiskFailed: It cannot be.
    """
    file = disk.open(layout.run(known.number))
    return DelayedRun(file, known, next_block(file, known.position, known.file_bytes))


def open_made(disk: Disk, layout: DelayedLayout, known: RunFile) -> DelayedRun:
    """Open a run that was just made, and can be made again.

    Raises:
        DiskFailed: It cannot be, or cannot be read.
    """
    made = open_run(disk, layout, known)
    if made.faults:
        made.close()
        raise DiskFailed(made.faults[0], made.file.path)
    return made


class RunWriter:
    """Writes a run, block by block.

    Args:
        disk: Where it lies.
        path: Of the file; one that is there is replaced.
        block_bytes: From which size on a block is full.

    Threads: one at a time.
    """

    def __init__(self, disk: Disk, path: str, block_bytes: int) -> None:
        remove_if_there(disk, path)
        self.file_bytes = 0
        self.entries = 0
        self._file = disk.open(path, write=True, create=True)
        self._block_bytes = block_bytes
        self._waiting: list[DelayedEntry] = []
        self._waiting_bytes = 0
        self._is_closed = False

    def add(self, one: DelayedEntry) -> None:
        """Write an entry, later in the order than all before.

        Raises:
            DiskFull, DiskFailed: The file is not to be used.
        """
        self._waiting.append(one)
        self._waiting_bytes += len(one.term)
        self.entries += 1
        if self._waiting_bytes >= self._block_bytes:
            self._write()

    def finish(self) -> None:
        """Make it durable, but for its name. Raises DiskFull, DiskFailed."""
        if self._waiting:
            self._write()
        self._file.sync()
        self.close()

    def close(self) -> None:
        """Give the file up. May be called again."""
        if not self._is_closed:
            self._is_closed = True
            self._file.close()

    def _write(self) -> None:
        self.file_bytes += self._file.write(delayed.block(self._waiting), self.file_bytes)
        self._waiting, self._waiting_bytes = [], 0


def write_run(disk: Disk, path: str, entries: Sequence[DelayedEntry], block_bytes: int) -> int:
    """Write a run, durably but for its name; return its bytes.

    Raises:
        DiskFull, DiskFailed: It is not there.
    """
    writer = RunWriter(disk, path, block_bytes)
    try:
        for one in entries:
            writer.add(one)
        writer.finish()
    finally:
        writer.close()
    return writer.file_bytes


class ObsoleteEntries(NamedTuple):
    """Which entries are obsolete.

    Attributes:
        upto: All that are not later were routed.
        dropped: Those of an exchange with smaller numbers than this are void.
    """

    upto: DelayedKey
    dropped: dict[str, int]

    def has(self, one: DelayedEntry) -> bool:
        """Say whether an entry is among them."""
        return one.key <= self.upto or self.dropped.get(one.exchange, 0) > one.number


class Merge:
    """Puts what is left of some runs into one new run, a few megabytes at a time.

    Args:
        disk: Where they lie.
        layout: Their paths.
        runs: Which.
        obsolete: What is left out.
        path: Of the new run.
        block_bytes: Of its blocks.

    Attributes:
        writer: Of the new run; None before the first step.
        faults: What could not be read, by run.
    Threads: any, one at a time.
    """

    def __init__(
        self,
        disk: Disk,
        layout: DelayedLayout,
        runs: Sequence[RunFile],
        obsolete: "ObsoleteEntries",
        path: str,
        block_bytes: int,
    ) -> None:
        self.writer: RunWriter | None = None
        self.faults: dict[int, list[str]] = {one.number: [] for one in runs}
        self._disk = disk
        self._layout = layout
        self._runs = runs
        self._obsolete = obsolete
        self._path = path
        self._block_bytes = block_bytes
        self._files: list[File] = []
        self._entries: Iterator[DelayedEntry] = iter(())

    def step(self) -> bool:
        """Continue; return whether that was all.

        Raises:
            DiskFull, DiskFailed: Nothing has changed; `close` is still to be called.
        """
        if self.writer is None:
            self.writer = RunWriter(self._disk, self._path, self._block_bytes)
            self._entries = heapq.merge(*map(self._read, self._runs), key=attrgetter("key"))
        size = 0
        for one in self._entries:
            if self._obsolete.has(one):
                continue
            self.writer.add(one)
            size += len(one.term)
            if size >= STEP_BYTES:
                return False
        self.writer.finish()
        return True

    def close(self) -> None:
        """Give all files up."""
        for file in self._files:
            file.close()
        if self.writer is not None:
            self.writer.close()

    def _read(self, known: RunFile) -> Iterator[DelayedEntry]:
        file = self._disk.open(self._layout.run(known.number))
        self._files.append(file)
        return _entries(file, known, self.faults[known.number])


def _entries(file: File, known: RunFile, faults: list[str]) -> Iterator[DelayedEntry]:
    """Give what can be read of a run."""
    found = next_block(file, known.position, known.file_bytes)
    while True:
        faults += found.faults
        if found.head is None:
            return
        loaded = load_block(file, found.position, found.head, known.file_bytes)
        yield from loaded.entries
        found = loaded.following


def entries_of_run(
    disk: Disk, path: str, known: RunFile, faults: list[str]
) -> Iterator[DelayedEntry]:
    """Give what can be read of a run, from the first block on that is not obsolete.

    Raises:
        DiskFailed: It cannot be opened.
    """
    file = disk.open(path)
    try:
        yield from _entries(file, known, faults)
    finally:
        file.close()


def entries_of(disk: Disk, path: str, faults: list[str]) -> Iterable[DelayedEntry]:
    """Give what can be read of a run of which only the file is known.

    Raises:
        DiskFailed: It cannot be opened.
    """
    yield from entries_of_run(disk, path, RunFile(0, disk.size(path), 0), faults)


def check_run(disk: Disk, path: str) -> list[str]:
    """Read a whole run; return what is wrong with it, a sentence each.

    Raises:
        DiskFailed: It cannot be opened.
    """
    faults: list[str] = []
    last = DelayedKey(0, 0)
    for one in entries_of(disk, path, faults):
        if one.key <= last:
            faults.append(f"{path}: message {one.number} is out of order")
        last = one.key
    return faults
