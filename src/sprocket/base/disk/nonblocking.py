"""Reads that do not wait for the disk: they say what is missing in memory, and are repeated later.

While an event loop reads from the disk, everything that it serves waits. So work that reads on the
loop runs as an *attempt*. A read that the system cannot serve from its memory ends the attempt with
`WouldBlock`, which says what is missing. Another thread reads that, and the work is run again from
its beginning, as a processor does with an instruction after a page fault:

    attempt → read → in memory → … → result
                  ↘ WouldBlock → fetch, on any thread → attempt, from the beginning

So the code reads in a straight line, whoever runs it. Outside of an attempt it reads at once.

Invariants

1. Within an attempt no `open` of a file that is there and no `read` waits for the disk, where the
   system can say what it has in memory. Lengths, names and maps of files are not covered; nor are
   writes.
2. An attempt finds everything that was fetched for the ones before it, even if the system has
   dropped it again. So each attempt gets further than the one before.
3. What was fetched is kept until the work that it was fetched for is done.

Work in an attempt may end at any read and then begins again. So before its last read it changes
nothing, or only what may be done twice.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple

from sprocket.base.disk.disk import Disk, Extent, File
from sprocket.base.disk.scratch import Scratch
from sprocket.base.errors import StoreError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

FOLLOWED_MAX = 1000
"""Reads of a chain that are made together; if it is longer, the next attempt asks again."""

Key: TypeAlias = tuple[object, object]
"""By what the result of a fetch is found."""

Fetched: TypeAlias = dict[Key, "bytes | File | _Answer | StoreError"]
"""What was fetched, or why not."""

Follow: TypeAlias = Callable[[bytes], tuple[int, int] | None]
"""Says which position and size of a file will be read next, given what was read; None: none."""


class _Answer(NamedTuple):
    """What a call gave."""

    value: object


class Missing(Protocol):
    """Something that only the disk has."""

    @property
    def size(self) -> int:
        """How many bytes it is, 0 if they do not count."""

    def fetch(self) -> Fetched:
        """Read it from the disk; on any thread."""


class WouldBlock(Exception):
    """A read that would have waited for the disk; an attempt ends with it.

    `missing` is what the disk has to bring first.
    """

    def __init__(self, missing: list[Missing]) -> None:
        super().__init__(f"{len(missing)} reads would wait for the disk")
        self.missing = missing

    def fetch(self) -> Fetched:
        """Read all of it from the disk; on any thread."""
        found: Fetched = {}
        for one in self.missing:
            found |= one.fetch()
        return found


def gather(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Make calls that read; what they lack, all together, is asked for at once.

    Raises:
        WouldBlock: Some lack something.
    """
    results: list[T] = []
    missing: list[Missing] = []
    for call in calls:
        try:
            results.append(call())
        except WouldBlock as stop:
            missing += stop.missing
    if missing:
        raise WouldBlock(missing)
    return results


def following(read: Callable[[], bytes], follow: Follow) -> bytes:
    """Make a read of a chain: if it would block, what the chain leads to is fetched with it."""
    try:
        return read()
    except WouldBlock as stop:
        for one in stop.missing:
            if isinstance(one, _MissingBytes):
                one.follow = follow
        raise


class Attempt:
    """What was fetched for one piece of work; it is used by one attempt after the other.

    It belongs to the thread that makes it, as `this_thread` names it: what others read meanwhile is
    not part of it.
    """

    __slots__ = ("_closing", "_opened", "fetched", "this_thread", "thread")

    def __init__(self, this_thread: Callable[[], int]) -> None:
        self.fetched: Fetched = {}
        self._opened: dict[Key, _NonblockingFile] = {}
        self._closing: list[_NonblockingFile] = []
        self.this_thread = this_thread
        self.thread = this_thread()

    def note(self, fetched: Fetched) -> None:
        """Keep what was fetched for the next attempt."""
        self.fetched |= fetched

    def found(self, key: Key) -> Any:
        """Return what was fetched; None if that was not.

        Raises:
            StoreError: It could not be.
        """
        found = self.fetched.get(key)
        if isinstance(found, StoreError):
            raise found.with_traceback(None)
        return found

    def opened(
        self, path: str, wrap: "Callable[[File], _NonblockingFile]", *, write: bool
    ) -> "_NonblockingFile | None":
        """Return a file that was opened, as `wrap` makes it of that; None if it was not.

        It is the same to each attempt: work closes a file when it has read it and begins again
        for the next one, and must find the first one open still.

        Raises:
            StoreError: It could not be.
        """
        key = path, write
        known = self._opened.get(key)
        if known is not None and not known.is_closed:
            return known
        try:
            found = self.found(key)
        finally:
            self.fetched.pop(key, None)
        if found is None:
            return None
        known = self._opened[key] = wrap(found)
        return known

    def closes(self, file: "_NonblockingFile") -> bool:
        """Say whether a file was opened here; if so, it is closed when the work has ended."""
        is_own = any(one is file for one in self._opened.values())
        if is_own and file not in self._closing:
            self._closing.append(file)
        return is_own

    def close(self) -> None:
        """Forget all files; one that was given out closes when nobody uses it any more."""
        for found in self.fetched.values():
            if not isinstance(found, bytes | _Answer | StoreError):
                found.close()
        closing = self._closing.copy()
        self.fetched.clear()
        self._opened.clear()
        self._closing.clear()
        for file in closing:
            file.close()


class NonblockingDisk:
    """A disk whose files do not wait for it within an attempt; else it is like the one `below`.

    Attributes:
        current: The attempt that is under way, on whichever thread.
        scratch: Where attempts read to.

    Threads: attempts, of which one at a time is under way, on one; all else as the disk below.
    """

    def __init__(self, disk: Disk) -> None:
        self.below = disk
        self.current: Attempt | None = None
        self.scratch = Scratch()
        self.exists = disk.exists
        self.is_folder = disk.is_folder
        self.size = disk.size
        self.modified_at_ms = disk.modified_at_ms
        self.list = disk.list
        self.folders = disk.folders
        self.sizes = disk.sizes
        self.make_folder = disk.make_folder
        self.remove = disk.remove
        self.remove_tree = disk.remove_tree
        self.rename = disk.rename
        self.exchange = disk.exchange
        self.sync_folder = disk.sync_folder
        self.sync_tree = disk.sync_tree
        self.lock = disk.lock
        self.used_ratio = disk.used_ratio
        self.free_bytes = disk.free_bytes

    def within(self, attempt: Attempt | None, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Do some work within an attempt; None is outside of any.

        Raises:
            WouldBlock: It lacks something.
            Exception: Whatever the work raises.
        """
        outer, self.current = self.current, attempt
        try:
            return work(*args)
        finally:
            self.current = outer

    def attempt_here(self) -> Attempt | None:
        """Return the attempt that is under way on this thread, if there is one."""
        attempt = self.current
        if attempt is None or attempt.this_thread() != attempt.thread:
            return None
        return attempt

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`.

        Raises:
            WouldBlock: Within an attempt; nobody can say whether the disk is needed for it.
        """
        attempt = None if create else self.attempt_here()
        if attempt is None:
            return _NonblockingFile(
                self, self.below.open(path, write=write, create=create, size=size)
            )
        found = attempt.opened(path, lambda file: _NonblockingFile(self, file), write=write)
        if found is None:
            opening = partial(self.below.open, path, write=write)
            raise WouldBlock([_MissingCall((path, write), opening)])
        return found

    def ask(self, key: Key, call: Callable[[], T]) -> T:
        """Make a call that reads by other means than this disk, and cannot say if it would wait.

        Args:
            key: The same for the same call, and for no other.
            call: May be made on any thread.

        Raises:
            WouldBlock: Within an attempt, unless its answer was fetched.
            StoreError: What the call raised.
        """
        attempt = self.attempt_here()
        if attempt is None:
            return call()
        answer = attempt.found(key)
        if answer is None:
            raise WouldBlock([_MissingCall(key, lambda: _Answer(call()))])
        found: T = answer.value
        return found


def outside(disk: Disk, work: Callable[[], T]) -> T:
    """Do some work that writes, whether an attempt is under way or not: it is not part of that."""
    return disk.within(None, work) if isinstance(disk, NonblockingDisk) else work()


class _NonblockingFile:
    """A file of a `NonblockingDisk`; all but reads are those of the file below."""

    def __init__(self, disk: NonblockingDisk, file: File) -> None:
        self.path = file.path
        self.is_closed = False
        self._disk = disk
        self._file = file
        self.size = file.size
        self.data_end = file.data_end
        self.read_nowait = file.read_nowait
        self.view = file.view
        self.write = file.write
        self.start_reading = file.start_reading
        self.give_back = file.give_back
        self.allocate = file.allocate
        self.resize = file.resize
        self.sync = file.sync
        self.start_sync = file.start_sync

    def close(self) -> None:
        """See `File.close`. One that was opened for work that may begin again closes after it."""
        attempt = self._disk.attempt_here()
        if attempt is None or not attempt.closes(self):
            self.is_closed = True
            self._file.close()

    def next_data(self, position: int) -> Extent:
        """See `File.next_data`. Within an attempt all may be data: to look costs reads, too."""
        if self._disk.attempt_here() is None:
            return self._file.next_data(position)
        size = self.size()
        return Extent(min(position, size), size)

    def read(self, position: int, size: int) -> bytes:
        """See `File.read`.

        Raises:
            WouldBlock: Within an attempt, if the disk would have to be asked.
        """
        attempt = self._disk.attempt_here()
        if attempt is None:
            return self._file.read(position, size)
        found: bytes | None = attempt.found((self, (position, size)))
        return bytes(self._lent(position, size)) if found is None else found

    def read_view(self, position: int, size: int) -> memoryview:
        """See `File.read_view`.

        Raises:
            WouldBlock: Within an attempt, if the disk would have to be asked.
        """
        attempt = self._disk.current
        if attempt is None or attempt.this_thread() != attempt.thread:
            return self._file.read_view(position, size)
        found = attempt.found((self, (position, size))) if attempt.fetched else None
        return self._lent(position, size) if found is None else memoryview(found)

    def _lent(self, position: int, size: int) -> memoryview:
        """Read what the system has in memory."""
        view = self._disk.scratch.lend(size)
        done = self._file.read_nowait(position, view)
        if done is None:
            del view  # or the error would keep it
            raise WouldBlock([_MissingBytes(self._disk.below, self, position, size)])
        return view.toreadonly() if done == size else view[:done].toreadonly()


class _MissingBytes:
    """A part of a file, and what it leads to.

    The file is opened anew to read it: the handle of whoever wants it may be closed meanwhile, and
    its number be another file's.
    """

    def __init__(self, disk: Disk, file: _NonblockingFile, position: int, size: int) -> None:
        self._disk = disk
        self._file = file
        self._at: tuple[int, int] = position, size
        self.follow: Follow = lambda _: None

    @property
    def size(self) -> int:
        return self._at[1]

    def fetch(self) -> Fetched:
        """Read it."""
        found: Fetched = {}
        at: tuple[int, int] = self._at
        try:
            file = self._disk.open(self._file.path)
            try:
                for _ in range(FOLLOWED_MAX):
                    data = file.read(*at)
                    found[self._file, at] = data
                    leads_to = self.follow(data)
                    if leads_to is None:
                        break
                    at = leads_to
            finally:
                file.close()
        except StoreError as error:
            found[self._file, at] = error
        return found


class _MissingCall:
    """A file that is not open, or what a library says that opens its own files."""

    size = 0

    def __init__(self, key: Key, call: "Callable[[], File | _Answer]") -> None:
        self._key = key
        self._call = call

    def fetch(self) -> Fetched:
        """Make the call."""
        try:
            return {self._key: self._call()}
        except StoreError as error:
            return {self._key: error}
