"""The log of a slave: it takes what its master sends, in the order of the log.

A link begins with a comparison: the slave does not ask for what follows its end, but for its last
record once more. If the master has the same bytes there, this log is a beginning of the master's;
records hold their place, their times and their place in a queue, so none is like another. If not,
nothing is changed: which of the two logs is right is not to be decided here.

    ask → parts from the last record on … compared … at the end of the log → whole records appended

Invariants

1. What was appended ends where a record, a blank or a file ends; the rest of a part waits.
2. Of one link, parts follow each other without a gap. Whatever breaks that, or could not be stored,
   ends the link; the next one begins at the end that the log has by then.
3. What is reported is the end of a record that this machine has: on its disk, or only written,
   as the setting says.
"""

from collections.abc import Callable

from sprocket.base.errors import LessSafe, StoreError, WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.replication import FIRST_BYTE, FROM_FIRST, ReplicaPart
from sprocket.rocketmq.errors import LogsDiffer
from sprocket.rocketmq.store.log import LogStream, StoredRecords
from sprocket.rocketmq.store.store import Store

UNSTORED_BYTES_MAX = 16 * MIB
"""With so much that is not written yet, or not synced where that is waited for, no more is read."""

Done = Callable[[StoreError | None], None]
"""Told that records are as safe as the flush mode asks, or why not."""


AppendStored = Callable[[StoredRecords, Done], None]
"""The way of another log's records into the store; `broker.messages.DurableAppender` has it. Raises
StoreError, and then tells nobody; else tells later, once."""


class ReplicaLog:
    """See the head of the module.

    Args:
        store: It follows another log; nothing else appends to it.
        append: Its way in.
        to_disk: Whether it is reported what is on the disk, else what is written.

    Threads: event loop only.
    """

    def __init__(self, store: Store, append: AppendStored, *, to_disk: bool) -> None:
        self._store = store
        self._append = append
        self._to_disk = to_disk
        self._stream: LogStream | None = None
        self._expected = 0
        self._is_quiet = False
        self._own, self._own_start = memoryview(b""), 0
        self._link = 0
        self._moved: Done = _nobody
        self._failure: StoreError | None = None
        self.unstored_bytes = 0
        """How much was appended and is not stored yet."""

    @property
    def is_following(self) -> bool:
        """Whether it is known that this is a beginning of the master's log."""
        return self._stream is not None

    @property
    def received(self) -> int:
        """Where the next byte of the master's log goes."""
        return self._expected if self._stream is None else self._stream.received

    @property
    def safe_end(self) -> int:
        """What is reported: where the log ends that this machine has."""
        if self._stream is None:
            return self._expected
        return self._store.synced if self._to_disk else self._store.written

    def begin(self, moved: Done, first: int | None = None) -> int:
        """Begin a link; nothing of an earlier one may be on its way (`unstored_bytes`).

        Args:
            moved: Told each time that `safe_end` may have moved, or why something was not stored:
                then the link is over.
            first: Where the master's log begins, if that is known.

        Returns:
            From where on to ask the master for its log.

        Raises:
            LogsDiffer: The master has cleaned away what follows the end of this one.
            DiskFailed: Its last record cannot be read.
        """
        store = self._store
        assert not self.unstored_bytes, "what is on its way moves the end"
        self._stream, self._moved, self._failure = None, moved, None
        self._is_quiet = False
        self._link += 1
        self._own, self._own_start = memoryview(b""), store.end
        if store.end == 0:
            self._expected = first or FROM_FIRST
            return self._expected
        if first is not None and store.end < first:
            raise LogsDiffer(_gone(first, store.end))
        last = store.last_record
        if store.first <= last < store.end and (first is None or first <= last):
            self._own, self._own_start = store.record_at(last), last
        self._expected = self._own_start
        return self._expected

    def take(self, part: ReplicaPart) -> None:
        """Take what the master has sent.

        Raises:
            LogsDiffer: This log is not a beginning of the master's. It was not changed.
            WireError: It does not follow what was sent before, or is not a log.
            StoreError: It is not taken now.
        """
        if self._failure is not None:
            raise self._failure
        if self._stream is not None:
            self._follow(self._stream, part.start, part.data)
        elif part.data and self._store.end == 0:
            self._begin_empty(part.start, part.data)
        elif part.data:
            self._compare(part)
        elif len(self._own) and self._is_quiet:
            raise LogsDiffer(
                f"the master has nothing at {self._expected}, where the last record of this log "
                f"lies: its log ends before this one, which ends at {self._store.end}"
            )
        else:
            self._is_quiet = True  # a slow master may say so once before it sends

    def _begin_empty(self, start: int, data: bytes) -> None:
        """Take the first part of all: it says where this log begins."""
        if start == FROM_FIRST:
            start, data = 0, FIRST_BYTE + data
        if start:
            self._store.begin_at(start)
        self._stream = self._store.log_stream()
        self._follow(self._stream, start, data)

    def _compare(self, part: ReplicaPart) -> None:
        """Compare the last record with what the master has there, then follow."""
        start, data, end = part.start, part.data, self._store.end
        if start > end:
            raise LogsDiffer(_gone(start, end))
        if start < self._expected:
            raise WireError(f"expected the log from {self._expected} on, it comes from {start} on")
        own = self._own[start - self._own_start :][: len(data)]
        if own != data[: len(own)]:
            raise LogsDiffer(
                f"the master has another record at {self._own_start} than the last one of this "
                f"log, which ends at {end}"
            )
        self._expected = part.end
        if part.end >= end:
            self._stream = self._store.log_stream()
            self._moved(None)
            self._follow(self._stream, end, data[end - start :])

    def _follow(self, stream: LogStream, start: int, data: bytes) -> None:
        if start != stream.received:
            raise WireError(f"expected the log from {stream.received} on, it goes on at {start}")
        for records in stream.take(data):
            size = records.end - records.start
            self._append(records, _Waiter(self, self._link, size))
            self.unstored_bytes += size

    def stored(self, link: int, size: int, error: StoreError | None) -> None:
        """Note what became of records, which belong to a link."""
        self.unstored_bytes -= size
        if isinstance(error, LessSafe):
            error = None  # it is stored, and on the disk some time later
        if link == self._link:
            self._failure = error
            self._moved(error)


class _Waiter:
    """Who waits for records of a link."""

    __slots__ = ("_link", "_log", "_size")

    def __init__(self, log: ReplicaLog, link: int, size: int) -> None:
        self._log, self._link, self._size = log, link, size

    def __call__(self, error: StoreError | None) -> None:
        self._log.stored(self._link, self._size, error)


def _nobody(_: StoreError | None) -> None:
    """Tell nobody."""


def _gone(first: int, end: int) -> str:
    return (
        f"the master's log begins at {first}, this one ends at {end}: what lies between is gone "
        "there; an empty folder gets all that the master has"
    )
