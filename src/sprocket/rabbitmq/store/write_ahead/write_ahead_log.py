"""The log that the records of all queues go to, and its files.

Theory of operation

A queue's index appends records for its `Origin`. `write` makes one batch of what all origins have
and hands it to the file system with one call; one sync makes it durable. So a turn in which ten
thousand queues get a message costs as many syncs as one in which one does.

An origin's records are needed until a flush has brought them into its segments. The flush says so
before (`begin_flush`) and, once the segments are durable, after it (`end_flush`). A file that no
origin needs any more is used again: a sync of blocks that were written before need not write
metadata, too.

Invariants

1. The files are numbered without a gap; only the newest is written. They are given up from the
   oldest on, each durably before the next.
2. A batch lies in one file. Its number is one more than that of the batch before.
3. What was appended is written by the next `write` that does not fail. Whatever refuses a message
   after a failed write withdraws its records.
4. After a failed sync nothing more is written.
5. A batch says which ones were durable by then. Where nothing was written for a while `say_synced`
   makes one that says nothing else, so that a start can tell what was damaged later from what a
   crash has cut.
"""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from sprocket.base.disk import (
    Disk,
    File,
    PendingSync,
    Steps,
    StepsTo,
    remove_if_there,
    steps,
    try_room,
)
from sprocket.base.errors import DiskFull, DiskRefused, StoreError, StoreFailed
from sprocket.base.units import KIB
from sprocket.rabbitmq.codec import write_ahead
from sprocket.rabbitmq.codec.write_ahead import EntryKind, NamedOrigin, SegmentAppend
from sprocket.rabbitmq.store.layout import room_file, write_ahead_file, write_ahead_files

_ZERO_CHUNK = bytes(256 * KIB)

NAMED_AGAIN_BYTES = 64 * KIB
"""A name stands in an origin's first two batches in a file, and once more so far after that: all
of them are hardly damaged together."""
_NEVER = 1 << 62


class Origin:
    """A queue whose records lie in the log.

    Attributes:
        folder: What the queue's folder is called.
        journal_bytes: How long its journal.jif is, whose records come before those in the log.
        queue_name: What its .queue_name holds, or will hold; empty if that is not known.
        unwritten_from: The first sequence id of what was published and is not written; -1 if all
            is. Its owner sets it.
        written_from: The same of what the last write has taken along.
    """

    __slots__ = (
        "_file",
        "_flush_file",
        "_has_records_since",
        "_name_due_at",
        "_named_in",
        "_number",
        "_parts",
        "_sealed",
        "folder",
        "journal_bytes",
        "queue_name",
        "unwritten_from",
        "written_from",
    )

    def __init__(self, folder: str, journal_bytes: int = 0, queue_name: bytes = b"") -> None:
        self.folder = folder
        self.journal_bytes = journal_bytes
        self.queue_name = queue_name
        self.unwritten_from = self.written_from = -1
        self._parts: list[bytes] = []
        self._sealed: list[tuple[EntryKind, bytes]] = []
        self._named_in = self._number = -1
        self._name_due_at = 0
        """From which position of the file on its name is to stand there again."""
        self._file: int | None = None
        """The oldest file with a record that is needed."""
        self._flush_file: int | None = None
        """The file that has the flush that is under way."""
        self._has_records_since = False
        """Whether there are records after that flush."""


class FilesSync(Protocol):
    """Makes durable what others had written when it was begun."""

    def run(self) -> None:
        """Do it, on any thread; raises DiskFailed."""

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""


class WrittenWithLog(Protocol):
    """What must be durable before the records are that speak of it."""

    def write(self) -> None:
        """Hand it to the file system, or append it to the log, which is written after that.

        Raises:
            DiskFull, DiskFailed: It is kept.
        """

    def begin_sync(self) -> FilesSync | None:
        """Return what makes durable all that is written; None if it is."""


class WriteAheadSync:
    """Makes durable what was written before it was begun; see `group_commit.Sync`."""

    def __init__(
        self,
        log: "WriteAheadLog",
        files: Sequence[File],
        written: int,
        sequence: int,
        before: Sequence[FilesSync],
    ) -> None:
        self._log = log
        self._files = files
        self._written = written
        self._sequence = sequence
        self._before = before

    def start(self) -> PendingSync | None:
        """Start a sync that the system runs by itself; None if it cannot, or for several files."""
        is_alone = len(self._files) == 1 and not self._before
        return self._files[0].start_sync() if is_alone else None

    def run(self) -> None:
        """Sync.

        Raises:
            DiskFailed: What reached the disk is unknown.
        Threads: any.
        """
        for one in self._before:
            one.run()
        for file in self._files:
            file.sync()

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        for one in self._before:
            one.finish(error)
        self._log._note_sync(self._files, self._written, self._sequence, error)


class NextWriteAheadFile:
    """Makes the next file of the log; see `group_commit.Job`.

    Args:
        log: Whose.
        number: Its number.
        used: That of a file which is not needed any more, to be used again.
    """

    def __init__(self, log: "WriteAheadLog", number: int, used: int | None) -> None:
        self._log = log
        self._number = number
        self._used = used
        self._made: File | None = None

    def run(self) -> None:
        """Take a file that is not needed any more, else make one, full of zeros.

        Threads: any.
        """
        log = self._log
        path = write_ahead_file(log.folder, self._number)
        if self._used is not None:
            used = write_ahead_file(log.folder, self._used)
            log.disk.rename(used, path)  # what it has says another number
            self._used = None
            file = log.disk.open(path, write=True)
        else:
            file = log.disk.open(path, write=True, create=True)
            try:
                self._fill(file)
                file.sync()
            except BaseException:
                file.close()
                raise
        log.disk.sync_folder(log.folder)
        self._made = file

    def _fill(self, file: File) -> None:
        """Fill a file with zeros; where there is no room for that it grows with what is written."""
        end = self._log.file_bytes
        try:
            for position in range(0, end, len(_ZERO_CHUNK)):
                size = min(len(_ZERO_CHUNK), end - position)
                file.write([_ZERO_CHUNK[:size]], position)
        except DiskFull:
            file.resize(0)

    def finish(self, error: StoreError | None) -> None:
        """Note how it ended."""
        made = self._made if error is None else None
        self._log._note_file(self._number, made, self._used)


class WriteAheadLog:
    """Appends records of all queues, and says when a file is not needed any more.

    Args:
        disk: Where it lies.
        folder: Its folder, which exists and has none of its files with this number or a later one.
        file_bytes: From which size on a next file is begun.
        number: Of the first file.
        sequence: Of the first batch.

    Attributes:
        pending_bytes: What was appended and is not written, and what is expected.
        failure: Why nothing is written any more.
    Threads: one at a time; jobs and steps may run elsewhere.
    """

    def __init__(
        self, disk: Disk, folder: str, file_bytes: int, number: int = 0, sequence: int = 0
    ) -> None:
        self.disk = disk
        self.folder = folder
        self.file_bytes = file_bytes
        self.pending_bytes = 0
        self.failure: str | None = None
        self._with: list[WrittenWithLog] = []
        self._dirty: list[Origin] = []
        self._file: File | None = None
        self._number = number - 1
        self._next: File | None = None
        self._is_making = self._is_retiring = False
        self._ending: EntryKind | None = None
        self._end = file_bytes
        self._sequence = sequence
        self._names = 0
        self._holders: dict[int, int] = {}
        self._unsynced: dict[File, int] = {}
        """The files with something that is not durable, and what was written up to their ends."""
        self._to_close: list[File] = []
        self._syncs_out = 0
        self._written = self._synced = 0
        self._synced_sequence = self._said_synced = sequence
        """Batches with smaller numbers are durable; and the last batch said so of those."""
        self._told_sequence = sequence
        """Batches from this number on say nothing but what is durable."""
        self._says_synced = False
        """Whether a batch is to be written only to say so."""

    def write_with(self, other: WrittenWithLog) -> None:
        """Write something else with each `write`, and sync it before the log."""
        self._with.append(other)

    def expect(self, size: int) -> None:
        """Count bytes that come with the next `write` at the latest; fewer if it is negative."""
        self.pending_bytes += size

    def append(self, origin: Origin, record: bytes) -> None:
        """Append a record of a queue's journal, or some.

        Durability: none before `write` and a sync.
        """
        parts = origin._parts
        if not parts and not origin._sealed:
            self._dirty.append(origin)
        parts.append(record)
        self.pending_bytes += len(record)

    def append_all(self, origin: Origin, records: Sequence[bytes]) -> None:
        """Append records of a queue's journal, in order; see `append`."""
        if not records:
            return
        parts = origin._parts
        if not parts and not origin._sealed:
            self._dirty.append(origin)
        parts += records
        self.pending_bytes += sum(map(len, records))

    def withdraw(self, origin: Origin, keep: Callable[[bytes], bytes]) -> None:
        """Remove some of the records that an origin has appended and that are not written yet.

        Args:
            origin: Whose.
            keep: Returns what stays of records that were appended one after the other.
        """
        origin._parts = [left] if (left := self._kept(origin._parts, keep)) else []
        sealed: list[tuple[EntryKind, bytes]] = []
        for kind, content in origin._sealed:
            if kind == EntryKind.RECORDS:
                if left := self._kept([content], keep):
                    sealed.append((kind, left))
            else:
                sealed.append((kind, content))
        origin._sealed = sealed
        if not origin._parts and not origin._sealed:
            self._dirty = [one for one in self._dirty if one is not origin]

    def _kept(self, parts: Sequence[bytes], keep: Callable[[bytes], bytes]) -> bytes:
        records = b"".join(parts)
        left = keep(records) if records else b""
        self.pending_bytes -= len(records) - len(left)
        return left

    def begin_flush(self, origin: Origin, appends: Sequence[SegmentAppend]) -> None:
        """Say what a flush will append; `end_flush` says that all up to here is in the segments.

        Before a byte of it is appended this must be durable.
        """
        self._seal(origin, EntryKind.FLUSH, write_ahead.flush_content(appends))

    def note_appends(self, origin: Origin, appends: Sequence[SegmentAppend]) -> None:
        """Say what recovery will append, durable before it does; more may follow."""
        self._seal(origin, EntryKind.APPENDS, write_ahead.flush_content(appends))

    def end_flush(self, origin: Origin) -> None:
        """Say that the last flush of a queue is durable, and its journal.jif empty."""
        origin.journal_bytes = 0
        self._seal(origin, EntryKind.FLUSHED, b"")
        self._let_go(origin)
        if origin._has_records_since:
            origin._file, origin._flush_file = origin._flush_file, None
        self._let_go_of_flush(origin)

    def forget(self, origin: Origin) -> None:
        """Say that a queue was deleted or purged: all that came before is void, its files, too.

        Before the first of them is removed this must be durable. The next flush removes them.
        """
        origin.journal_bytes = 0
        self._seal(origin, EntryKind.GONE, b"")

    def _seal(self, origin: Origin, kind: EntryKind, content: bytes) -> None:
        """Put another entry than records after what an origin has."""
        if not origin._parts and not origin._sealed:
            self._dirty.append(origin)
        if origin._parts:
            origin._sealed.append((EntryKind.RECORDS, b"".join(origin._parts)))
            origin._parts = []
        origin._sealed.append((kind, content))
        self.pending_bytes += len(content)

    def _let_go(self, origin: Origin) -> None:
        """Note that the oldest file that an origin needs is not needed by it any more."""
        if origin._file is not None:
            self._holders[origin._file] -= 1
            origin._file = None

    def _let_go_of_flush(self, origin: Origin) -> None:
        """Note that the flush that was under way is not."""
        origin._has_records_since = False
        if origin._flush_file is not None:
            self._holders[origin._flush_file] -= 1
            origin._flush_file = None

    # -- group_commit.Log

    def write(self) -> int:
        """Hand all that was appended to the file system, as one batch; return its end.

        Raises:
            DiskFull, DiskFailed: It is kept and goes down with the next `write`.
            StoreFailed: A sync failed before.
        Durability: none before a sync.
        """
        self._check()
        for one in self._with:
            one.write()
        if not self._dirty and self._ending is None and not self._says_synced:
            return self._written
        if self._end >= self.file_bytes:
            self._roll()
        file = self._file
        assert file is not None
        number, names, end = self._number, self._names, self._end
        named: list[tuple[Origin, int]] = []
        parts = [write_ahead.place(number, self._synced_sequence)]
        pack = write_ahead.ENTRY_HEAD.pack
        if self._ending is not None:
            parts.append(pack(self._ending, 0, 0))
        for origin in self._dirty:
            known = origin._number
            if origin._named_in != number or end >= origin._name_due_at:
                if origin._named_in != number:
                    known, names = names, names + 1
                named.append((origin, known))
                said = NamedOrigin(origin.folder, origin.journal_bytes, origin.queue_name)
                parts.append(write_ahead.name(known, said))
            for kind, content in origin._sealed:
                parts += (pack(kind, known, len(content)), content)
            if origin._parts:
                size = sum(map(len, origin._parts))
                parts.append(pack(EntryKind.RECORDS, known, size))
                parts += origin._parts
        payload = b"".join(parts)
        head = write_ahead.batch_head(self._sequence, payload)
        file.write([head, payload], self._end)
        self._note_write(file, named, len(head) + len(payload))
        return self._written

    def _note_write(self, file: File, named: list[tuple[Origin, int]], size: int) -> None:
        """Note that all is written."""
        number = self._number
        for origin, known in named:
            if origin._named_in != number:
                origin._named_in, origin._number, origin._name_due_at = number, known, 0
                self._names += 1
            elif not origin._name_due_at:
                origin._name_due_at = self._end + NAMED_AGAIN_BYTES
            else:
                origin._name_due_at = _NEVER
        for origin in self._dirty:
            for kind, _ in origin._sealed:
                if kind == EntryKind.RECORDS:
                    self._hold(origin)
                elif kind == EntryKind.GONE:
                    self._let_go(origin)
                    self._let_go_of_flush(origin)
                    self._hold(origin)  # until a flush has removed its files
                elif kind == EntryKind.FLUSH:
                    assert origin._flush_file is None
                    origin._flush_file = number
                    self._holders[number] += 1
            origin._sealed = []
            origin.written_from, origin.unwritten_from = origin.unwritten_from, -1
            if origin._parts:
                origin._parts = []
                self._hold(origin)
        if self._dirty or self._ending is not None:
            self._told_sequence = self._sequence + 1
        self._dirty = []
        self._said_synced = self._synced_sequence
        self.pending_bytes = 0
        self._end += size
        self._written += size
        self._sequence += 1
        self._unsynced[file] = self._written

    def _hold(self, origin: Origin) -> None:
        """Note that the newest file has records of a queue."""
        if origin._flush_file is not None:
            origin._has_records_since = True
        elif origin._file is None:
            origin._file = self._number
            self._holders[self._number] += 1

    def say_synced(self) -> None:
        """Append a batch that says what is durable, if none does yet and nothing else waits.

        Nobody waits for it: a kill leaves it, and what it speaks of is there without it. If it
        cannot be written the next batch says so. Costs some 10 µs where there is something to say.
        """
        is_idle = self.is_synced and not self._dirty and self._file is not None
        is_room = self._end < self.file_bytes and self._ending is None
        if self._said_synced < self._told_sequence and is_idle and is_room:
            with contextlib.suppress(StoreError):
                self.decide()
                if self._told_sequence < self._sequence:  # no records have gone along with it
                    self._synced = self._written  # the next sync of its file covers it all the same

    def decide(self) -> None:
        """Write a batch that says no more than what is durable: all before its first one."""
        self._says_synced = True
        try:
            self.write()
        finally:
            self._says_synced = False

    def give_up_unwritten(self) -> None:
        """Keep what was appended and not written; those who are refused take it back."""

    def begin_sync(self) -> WriteAheadSync | None:
        """Return what makes durable all that is written; None if it is.

        Raises:
            StoreFailed: A sync failed before.
        """
        self._check()
        if self.is_synced:
            return None
        self._syncs_out += 1
        before = [job for one in self._with if (job := one.begin_sync()) is not None]
        return WriteAheadSync(self, [*self._unsynced], self._written, self._sequence, before)

    begin_due_sync = begin_sync

    @property
    def is_synced(self) -> bool:
        """Whether all that was written is durable."""
        return self._synced == self._written

    @property
    def waiting_bytes(self) -> int:
        """How much was appended and is not durable; 0 if that is past hope."""
        return 0 if self.failure else self.pending_bytes + self._written - self._synced

    def begin_fill(self) -> NextWriteAheadFile | None:
        """Return what makes the next file, in the second half of this one."""
        is_early = self._end * 2 < self.file_bytes
        if self._next is not None or self._is_making or is_early or self.failure:
            return None
        return self._make_next()

    def begin_file(self) -> NextWriteAheadFile | None:
        """Return what makes the file that `write` needs next; None if it is there."""
        if self._end < self.file_bytes or self._next is not None or self._is_making:
            return None
        return self._make_next()

    def fill_blocks_write(self) -> bool:
        """Say whether `write` must wait for the end of such a job."""
        return self._is_making and self._end >= self.file_bytes

    def try_room(self) -> None:
        """Find out, on any thread, whether the disk would take a write.

        Raises:
            DiskFull, DiskFailed: It would not.
        """
        try_room(self.disk, room_file(self.folder))

    # -- its files

    def commit_steps(self) -> Steps:
        """Write and sync what was appended.

        Raises:
            DiskFull, DiskFailed, StoreFailed: See `write` and `WriteAheadSync.run`.
        """
        while self.fill_blocks_write():
            yield _wait  # after the job, which the same thread does
        self.write()
        job = self.begin_sync()
        if job is None:
            return
        try:
            yield job.run
        except StoreError as error:
            job.finish(error)
            raise
        job.finish(None)
        self.say_synced()

    def commit(self) -> None:
        """Do so here and now: for those who have no loop."""
        steps.run(self.commit_steps())

    def end_steps(self, kind: EntryKind) -> Steps:
        """Say that all that was ever written is in the files of queues, durably.

        What was appended and is not written counts, as it is after that in the same batch.

        Args:
            kind: RECOVERED or CLOSED. What is appended later begins a file.

        Raises:
            DiskFull, DiskFailed, StoreFailed: As with `commit_steps`.
        """
        self._ending = kind
        try:
            yield from self.commit_steps()
        finally:
            self._ending = None
        self._end = max(self._end, self.file_bytes)

    @property
    def has_unused_files(self) -> bool:
        """Whether there are files to retire now."""
        return not self._is_making and len(self._unused()) > 1  # that may give up a file, too

    def retire_steps(self) -> StepsTo[int]:
        """Remove the files that no queue needs, but for one, which will be used again.

        Returns:
            How many.

        Raises:
            DiskFailed: Some are still there, which does no harm.
        """
        count = 0
        if not self.has_unused_files or self._is_retiring:
            return count
        self._is_retiring = True
        try:
            while len(unused := self._unused()) > 1:
                yield partial(self._remove, write_ahead_file(self.folder, unused[0]))
                del self._holders[unused[0]]
                count += 1
        finally:
            self._is_retiring = False
        return count

    def _remove(self, path: str) -> None:
        remove_if_there(self.disk, path)
        self.disk.sync_folder(self.folder)

    @property
    def file_count(self) -> int:
        """How many files it has."""
        return len(self._holders)

    @property
    def oldest_file(self) -> int:
        """The number of its oldest file."""
        return min(self._holders, default=self._number)

    def needs(self, origin: Origin, number: int) -> bool:
        """Say whether a queue has unflushed records in a file, or an older one."""
        return origin._file is not None and origin._file <= number

    def remove_all(self) -> None:
        """Remove every file, the oldest first, after `end_steps`.

        Raises:
            DiskFailed: The newest ones are still there.
        """
        self.close()
        for number in write_ahead_files(self.disk.list(self.folder)):
            self._remove(write_ahead_file(self.folder, number))

    def remove_older(self) -> None:
        """Remove every file but the newest, the oldest first, after `end_steps`.

        Raises:
            DiskFailed: Some of them are still there.
        """
        for number in write_ahead_files(self.disk.list(self.folder)):
            if number < self._number:
                self._remove(write_ahead_file(self.folder, number))
                self._holders.pop(number, None)

    def go_on(self, file_bytes: int) -> None:
        """Begin another file with what is appended next, and have files of another size."""
        self.file_bytes = file_bytes
        self._end = max(self._end, file_bytes)

    def close(self) -> None:
        """Give the files up."""
        for file in (self._file, self._next, *self._unsynced, *self._to_close):
            if file is not None:
                file.close()

    def _unused(self) -> list[int]:
        """Return the files that nobody needs, from the oldest on."""
        found: list[int] = []
        for number in sorted(self._holders):
            if self._holders[number] or number == self._number:
                break
            found.append(number)
        return found

    def _check(self) -> None:
        if self.failure is not None:
            raise StoreFailed(self.failure)

    def _roll(self) -> None:
        """Continue in the next file, and create it if nobody has."""
        if self._next is None:
            assert not self._is_making, "the next file is being made"
            job = self._make_next()
            try:
                job.run()
            except StoreError as error:
                job.finish(error)
                raise
            job.finish(None)
        if self._file is not None and self._file not in self._unsynced:
            self._to_close.append(self._file)
        self._file, self._next = self._next, None
        self._number += 1
        self._holders[self._number] = 0
        self._end = self._names = 0

    def _make_next(self) -> NextWriteAheadFile:
        self._is_making = True
        used = None
        if not self._is_retiring and (unused := self._unused()):
            used = unused[0]
            del self._holders[used]
        return NextWriteAheadFile(self, self._number + 1, used)

    def _note_file(self, number: int, file: File | None, used: int | None) -> None:
        assert number == self._number + 1
        self._is_making = False
        self._next = file
        if used is not None:  # it is still there, and older than all others
            self._holders[used] = 0

    def _note_sync(
        self, files: Sequence[File], written: int, sequence: int, error: StoreError | None
    ) -> None:
        self._syncs_out -= 1
        if error is not None and not isinstance(error, DiskRefused):
            self.failure = f"a sync failed: {error}"
            return
        if error is None:
            self._synced = max(self._synced, written)
            self._synced_sequence = max(self._synced_sequence, sequence)
            for file in files:
                if self._unsynced.get(file, written + 1) <= written:
                    del self._unsynced[file]
                    if file is not self._file:
                        self._to_close.append(file)
        if not self._syncs_out:  # none that uses one of them
            for file in self._to_close:
                file.close()
            self._to_close = []


def _wait() -> None:
    """Do nothing: when this is done, the work before it is."""
