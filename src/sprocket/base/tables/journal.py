"""A journal of small changes to a table that is written as a whole only now and then.

A table's file, its *snapshot*, says up to which line of the journal it covers the table; only later
lines count. So snapshot and journal together are the table at any moment, a new entry costs one
line whatever the size of the table, and writing the snapshot is work for the background.

A line is `crc TAB [sequence,…] LF`; crc is CRC-32 & 0x7FFFFFFF of the JSON in decimal, sequences
rise by one. What follows the sequence is the owner's; it must be absolute ("is now 5", "is gone"),
so that a line may be applied to a table that has it already: a snapshot is made piece by piece
while the table keeps changing, and may hold what came after the line up to which it covers.

Lines lie in segments, files named `<path>.<number>`; `<path>` itself counts as number 0. Only the
newest is written to, and one that an earlier process has left never is.

Theory of operation. Each line is with the operating system when `append` returns, so that a process
that dies by `kill -9` leaves it. It is durable after a sync (`begin_sync`) or once a snapshot that
covers it is. A snapshot begins with `roll`, which says what it will cover and sends later lines to
the next segment; when it is durable, `retire_steps` removes segments that neither it nor the
snapshot before it needs. That one is kept as a backup, so it must find its lines as well.

What is left after an end. After a kill: everything. After a power loss: what was synced, and of the
rest some blocks and some segments. A journal ends where no good line follows any more. What is not
a good line and has some after it is damage, or power has gone before it was durable and what was
written later is there; both are skipped, and reported. As lines are absolute, later ones count.

Invariants

1. After what a snapshot covers no two lines have the same sequence, on the disk either.
2. A segment that was left is not changed, so that what one start reads of it any later start does.
3. After a failed sync nothing counts as synced until a new snapshot, a file of its own, covers it.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from sprocket.base import log
from sprocket.base.checksum import crc31
from sprocket.base.disk import Disk, File, Steps, read_file, remove_if_there, sync_file
from sprocket.base.errors import DiskRefused, FileMissing, StoreError, StoreFailed

_log = log.get_logger(__name__)

E = TypeVar("E", bound=tuple[Any, ...])
E_co = TypeVar("E_co", bound=tuple[Any, ...], covariant=True)

_encode = msgspec.json.Encoder().encode

_BEGIN = re.compile(rb"[^0-9]([0-9]{1,10}\t\[)")
"""Where a line may begin after an octet that should be a line's end."""

SEGMENTS_MAX = 16
"""Segments from which on no more are begun while snapshots fail: lines go on in the newest."""


@dataclass(slots=True)
class _Segment:
    path: str
    last: int
    """The sequence of its last good line; that of the line before it if it has none."""
    is_named: bool = False
    """Whether the disk is known to have its name."""


@dataclass(frozen=True, slots=True)
class JournalSync:
    """Makes durable the lines that were there when it was begun; see `Journal.begin_sync`."""

    _disk: Disk
    segments: list[_Segment]
    sequence: int
    """Up to which line."""

    def run(self) -> None:
        """Do it.

        Raises:
            DiskFailed: Some lines may be durable.
        Threads: any.
        """
        for segment in self.segments:
            with contextlib.suppress(FileMissing):  # a snapshot covers it by now
                sync_file(self._disk, segment.path)
        for segment in self.segments:
            if not segment.is_named:
                self._disk.sync_folder(os.path.dirname(segment.path))
                break


class Journaled(Protocol):
    """A table that is a snapshot and a journal."""

    @property
    def journal(self) -> "Journal[tuple[object, ...]]":
        """What came since the last snapshot was begun."""

    def flush_steps(self) -> Steps:
        """Write a new snapshot, if the table has changed since the last one.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """


class Journal(Generic[E_co]):
    """The lines that the table's snapshot does not cover yet.

    Args:
        disk: Where it lies.
        path: What its files are named after; their folder exists.
        decode: Reads a line: a tuple whose first member is the sequence. Raises ValueError.

    Attributes:
        is_behind: Whether the snapshot lacks something, as far as the owner or `replay` has said.
        sequence: That of the last line ever written.
        durable: That of the last line that is known to be on the disk.
        bytes_since_roll: Size of the lines since the last `roll`.

    Threads: event loop only, except for jobs and steps.
    """

    def __init__(self, disk: Disk, path: str, decode: Callable[[bytes], E_co]) -> None:
        self.is_behind = False
        self.sequence = 0
        self.durable = 0
        self.bytes_since_roll = 0
        self._disk = disk
        self._path = path
        self._decode = decode
        self._numbers = _numbers(disk, path)
        self._segments: list[_Segment] = []
        self._file: File | None = None
        self._end = 0
        self._covered = 0
        self._doubtful_to = 0
        self._is_torn = False

    def replay(self, covered: int | None) -> list[E_co]:
        """Return the lines that the snapshot lacks; called once, before the first `append`.

        Args:
            covered: The sequence up to which the snapshot has them; None if the journal is void,
                because somebody else has written the snapshot since. Then a snapshot of the
                owner's must be durable before a line counts again.
        """
        found: list[E_co] = []
        last = covered or 0
        for read in _read_all(self._disk, self._path, covered, self._decode):
            for gap in read.gaps:
                _log.error(
                    "lines of a journal are damaged, or were not durable before the power went",
                    path=read.path,
                    position=gap.position,
                    lines=gap.lines,
                )
            if read.torn_bytes:
                _log.warning("the end of a journal is torn", path=read.path, bytes=read.torn_bytes)
            found += read.entries
            last = read.last
            self._segments.append(_Segment(read.path, last))
        self.sequence = last
        self.durable = self._covered = last if covered is None else covered
        self.bytes_since_roll = sum(self._disk.size(one.path) for one in self._segments)
        self.is_behind = covered is None or bool(found)
        return found

    def snapshot_steps(self, replace: Callable[[int], Steps], covered: int | None = None) -> Steps:
        """Write a new snapshot, unless nothing has changed since the last one.

        Args:
            replace: Gives the steps that write it, from the line up to which it covers the table.
            covered: That line; by default the last one that there is.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """
        if not self.is_behind:
            return
        self.is_behind = False
        last = self.roll()
        line = last if covered is None else covered
        try:
            yield from replace(line)
        except BaseException:
            self.is_behind = True
            raise
        yield from self.retire_steps(line)

    def append(self, *members: Any) -> None:
        """Write one line.

        Args:
            members: What follows the sequence.

        Raises:
            DiskFull, DiskFailed: It does not count; a kill may still bring it back.
        Durability: with the operating system, not synced.
        """
        content = _encode((self.sequence + 1, *members))
        line = b"%d\t%b\n" % (crc31(content), content)
        if self._file is None:
            self._file = self._begin_segment()
        self._is_torn = True  # unless it succeeds; the next line must then lie over this one
        self._file.write([line], self._end)
        self._is_torn = False
        self._end += len(line)
        self.bytes_since_roll += len(line)
        self.sequence += 1
        self._segments[-1].last = self.sequence

    @property
    def is_durable(self) -> bool:
        """Whether the disk has every line, or a snapshot that covers it."""
        return self.durable >= self.sequence

    def begin_sync(self) -> JournalSync | None:
        """Return what makes all lines durable that are there now, None if they are.

        Raises:
            StoreFailed: A sync failed, and no snapshot has been written since.
        """
        if self.is_durable:
            return None
        if self.durable < self._doubtful_to:
            raise StoreFailed(f"{self._path}: a sync failed, what reached the disk is unknown")
        segments = [one for one in self._segments if one.last > self.durable]
        return JournalSync(self._disk, segments, self.sequence)

    def finish_sync(self, job: JournalSync, error: StoreError | None) -> None:
        """Note how a sync ended; one that could not begin leaves everything as it was."""
        if isinstance(error, DiskRefused):
            return
        if error is not None:
            self._doubtful_to = self.sequence
        elif self.durable >= self._doubtful_to:
            self.durable = max(self.durable, job.sequence)
            for segment in job.segments:
                segment.is_named = True

    def sync(self) -> None:
        """Make all lines durable, here and now.

        Raises:
            DiskFailed, StoreFailed: Some may be.
        """
        job = self.begin_sync()
        if job is None:
            return
        try:
            job.run()
        except StoreError as error:
            self.finish_sync(job, error)
            raise
        self.finish_sync(job, None)

    def roll(self) -> int:
        """Return up to which line a snapshot that is begun now covers; later ones lie apart."""
        if len(self._segments) < SEGMENTS_MAX and not self._is_torn:
            self._close_segment()
        self.bytes_since_roll = 0
        return self.sequence

    def retire_steps(self, covered: int) -> Steps:
        """Forget what a snapshot, and its backup, cover; the snapshot is durable.

        Args:
            covered: Up to which line the snapshot covers.

        Raises:
            DiskFailed: Some is still there, which does no harm.
        Durability: none; a power loss may bring back lines, which are covered.
        """
        self.durable = max(self.durable, covered)
        backup_covered, self._covered = self._covered, covered
        while self._segments and self._segments[0].last <= backup_covered:
            if len(self._segments) == 1:
                if self._is_torn:
                    return
                self._close_segment()
            yield partial(remove_if_there, self._disk, self._segments[0].path)
            del self._segments[0]

    def close(self) -> None:
        """Give the file up."""
        self._close_segment()

    def _close_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_segment(self) -> File:
        number = self._numbers[-1] + 1 if self._numbers else 1
        path = _name(self._path, number)
        file = self._disk.open(path, write=True, create=True)
        self._numbers = [number]  # only the last counts from now on
        self._segments.append(_Segment(path, self.sequence))
        self._end = 0
        return file


def read_lines(disk: Disk, path: str, covered: int | None, decode: Callable[[bytes], E]) -> list[E]:
    """Return what `Journal.replay` would, and change nothing: for readers of a table."""
    reads = _read_all(disk, path, covered, decode)
    return [entry for read in reads for entry in read.entries]


def segment_paths(disk: Disk, path: str) -> list[str]:
    """Return the files of a journal, oldest first."""
    return [_name(path, number) for number in _numbers(disk, path)]


def entries(
    disk: Disk, path: str, covered: int | None, decode: Callable[[bytes], E]
) -> Iterator[E]:
    """Give what `Journal.replay` would return, and change nothing: somebody may write to it."""
    for read in _read_all(disk, path, covered, decode):
        yield from read.entries


class _Line(NamedTuple, Generic[E]):
    """A good line: where it begins and ends, its sequence, and what it says."""

    start: int
    end: int
    sequence: int
    entry: E


class _Gap(NamedTuple):
    """Lines that are missing before a good one: where, and how many."""

    position: int
    lines: int


@dataclass(frozen=True, slots=True)
class _Read(Generic[E]):
    """What one segment gave; `last` is the sequence of the last line so far."""

    path: str
    entries: list[E]
    last: int
    gaps: list[_Gap]
    torn_bytes: int


def _read_all(
    disk: Disk, path: str, covered: int | None, decode: Callable[[bytes], E]
) -> Iterator[_Read[E]]:
    """Read one segment after the other."""
    last = covered or 0
    for segment_path in segment_paths(disk, path):
        read = _read(disk, segment_path, covered, last, decode)
        last = read.last
        yield read


def _read(
    disk: Disk, path: str, covered: int | None, last: int, decode: Callable[[bytes], E]
) -> _Read[E]:
    """Read the lines of one segment that follow line `last`; none if the journal is void."""
    data = read_file(disk, path)
    entries: list[E] = []
    gaps: list[_Gap] = []
    end = 0
    for line in _lines(data, decode):
        missing = line.sequence - last - 1
        if missing > 0 and covered is not None:
            gaps.append(_Gap(min(end, line.start), missing))
        end = line.end
        if line.sequence > last:
            last = line.sequence
            if covered is not None:
                entries.append(line.entry)
    return _Read(path, entries, last, gaps, len(data) - end)


def _lines(data: bytes, decode: Callable[[bytes], E]) -> Iterator[_Line[E]]:
    """Yield each good line of a segment; sequences rise."""
    position = previous = 0
    while position < len(data):
        line_end = data.find(b"\n", position)
        whole = len(data) if line_end < 0 else line_end
        good = _line(data, position, whole, decode) if line_end >= 0 else None
        for line in _inside(data, position, whole, decode) if good is None else (good,):
            if line.sequence > previous:
                previous = line.sequence
                yield line
        position = whole + 1


def _line(data: bytes, start: int, line_end: int, decode: Callable[[bytes], E]) -> _Line[E] | None:
    """Return what stands between two positions, if it is a good line."""
    try:
        crc_text, content = data[start:line_end].split(b"\t", 1)
        if int(crc_text) != crc31(content):
            return None
        entry = decode(content)
        return _Line(start, line_end + 1, int(entry[0]), entry)
    except ValueError:
        return None


def _inside(
    data: bytes, start: int, line_end: int, decode: Callable[[bytes], E]
) -> Iterator[_Line[E]]:
    """Yield the good lines in one that is bad: perhaps only the octet between two of them is."""
    for found in _BEGIN.finditer(data, start, line_end):
        second = _line(data, found.end() - len(found[1]), line_end, decode)
        if second is not None:
            first = _line(data, start, found.start(), decode)
            yield from (second,) if first is None else (first, second)
            return


def _name(path: str, number: int) -> str:
    return f"{path}.{number}" if number else path


def _numbers(disk: Disk, path: str) -> list[int]:
    """Return the numbers of the segments that are there, in order."""
    folder, name = os.path.split(path)
    numbers = []
    for one in disk.list(folder):
        if one == name:
            numbers.append(0)
        elif one.startswith(name + "."):
            digits = one[len(name) + 1 :]
            if digits.isascii() and digits.isdigit():
                numbers.append(int(digits))
    return sorted(numbers)
