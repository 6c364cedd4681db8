"""A journal of small changes to a table whose file is replaced only now and then.

A line is `crc TAB [sequence,…] LF`; crc is CRC-32 & 0x7FFFFFFF of the JSON in decimal, sequences
rise by one. Each line is with the operating system when `append` returns, so that a process that
dies by `kill -9` leaves it; it is not synced. The table's file says up to which sequence it covers
the journal; only later lines count, so that lines which a power loss brings back do no harm.
Reading stops at the first line that is torn, fails its crc or breaks the sequence; the rest is cut.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from sprocket.base import log
from sprocket.base.checksum import crc31
from sprocket.base.disk import Disk, File
from sprocket.base.errors import StoreError

_log = log.get_logger(__name__)

E = TypeVar("E", bound=tuple[Any, ...])

_encode = msgspec.json.Encoder().encode


SEQUENCE = "sprocketSequence"
"""Our member of a table's file: up to which line it covers the journal; RocketMQ passes over it."""


@dataclass(frozen=True, slots=True)
class FlushJob:
    """The content of a table's file at one moment, to be written on any thread."""

    run: Callable[[], None]
    journal_end: int
    """Bytes of the journal that the content covers."""


class Flushed(Protocol):
    """A table whose file is replaced now and then."""

    def begin_flush(self) -> FlushJob | None:
        """Return what must be written, None when nothing changed since the last time."""

    def finish_flush(self, job: FlushJob, error: StoreError | None) -> None:
        """Cut from the journal what the file now holds; after an error nothing is cut."""


def flush_now(table: Flushed) -> None:
    """Write what changed, here and now: used when stopping and by tests."""
    job = table.begin_flush()
    if job is None:
        return
    try:
        job.run()
    except StoreError as error:
        table.finish_flush(job, error)
        raise
    table.finish_flush(job, None)


def covered_by(content: dict[str, Any]) -> int | None:
    """Return up to where a table's file covers the journal; None if the journal is void."""
    if not content:
        return 0
    covered = content.get(SEQUENCE)
    return covered if isinstance(covered, int) else None


class Journal(Generic[E]):
    """The lines that the table's file does not cover yet.

    Args:
        disk: Where it lies.
        path: Its file; made if it is not there.
        decode: Reads a line: a tuple whose first member is the sequence. Raises ValueError.

    Attributes:
        end: Bytes in the journal.
        sequence: That of the last line ever written.

    Threads: event loop only.
    """

    def __init__(self, disk: Disk, path: str, decode: Callable[[bytes], E]) -> None:
        self.end = 0
        self.sequence = 0
        self._synced = 0
        self._disk = disk
        self._path = path
        self._decode = decode
        self._file: File = disk.open(path, write=True, create=True)

    def replay(self, covered: int | None) -> list[E]:
        """Return the lines that the table lacks; called once, before the first `append`.

        Args:
            covered: The sequence up to which the table's file has them; None if the journal is
                void, because somebody else has written the table since.
        """
        size = self._file.size()
        found: list[E] = []
        self.sequence = covered or 0
        for line_end, entry in self._lines(self._file.read(0, size)):
            self.end = line_end
            sequence = int(entry[0])
            if covered is not None and sequence > covered:
                found.append(entry)
            self.sequence = max(self.sequence, sequence)
        if self.end < size:
            _log.warning(
                "the end of a journal is torn and was cut", path=self._path, bytes=size - self.end
            )
            self._file.resize(self.end)
            self._file.sync()
        return found

    def append(self, *members: Any) -> None:
        """Write one line.

        Args:
            members: What follows the sequence.

        Raises:
            DiskFull, DiskFailed: It is not there.
        Durability: with the operating system, not synced.
        """
        content = _encode((self.sequence + 1, *members))
        line = b"%d\t%b\n" % (crc31(content), content)
        self._file.write([line], self.end)
        self.end += len(line)
        self.sequence += 1

    def sync(self) -> None:
        """Make all lines durable; they stay so until `cut` forgets them.

        Raises:
            DiskFull, DiskFailed: Some may be.
        """
        self._file.sync()
        self._disk.sync_folder(os.path.dirname(self._path))
        self._synced = self.end

    def cut(self, end: int) -> None:
        """Forget the first `end` bytes: the table's file, which is durable, covers them.

        What came later stays, in a new file beside the old one, renamed: a kill finds either whole.

        Raises:
            DiskFull, DiskFailed: It may be as it was, which does no harm.
        """
        rest_bytes = self.end - end
        must_sync = self._synced > end
        if rest_bytes == 0:
            self._file.resize(0)
        else:
            rest = self._file.read(end, rest_bytes)
            path = self._path  # not the handle's, which keeps the name it was opened by
            fresh = self._disk.open(path + ".tmp", write=True, create=True)
            fresh.resize(0)
            fresh.write([rest], 0)
            if must_sync:
                fresh.sync()
            self._disk.rename(path + ".tmp", path)
            self._file.close()
            self._file = fresh  # at once: nobody finds the old one any more
        self.end = rest_bytes
        self._synced = max(0, self._synced - end)
        if must_sync and rest_bytes:
            self._disk.sync_folder(os.path.dirname(self._path))

    def close(self) -> None:
        """Give the file up."""
        self._file.close()

    def _lines(self, data: bytes) -> Iterator[tuple[int, E]]:
        """Yield each good line with the position behind it."""
        position = 0
        previous: int | None = None
        while (end := data.find(b"\n", position)) >= 0:
            try:
                crc_text, content = data[position:end].split(b"\t", 1)
                if int(crc_text) != crc31(content):
                    return
                entry = self._decode(content)
            except ValueError:
                return
            if previous is not None and entry[0] != previous + 1:
                return
            previous = entry[0]
            position = end + 1
            yield position, entry
