"""The way of a master's log into this one, once it is known that they fit together.

Bytes come in any pieces, in the order of the log; what they complete is appended and stored.

Invariants

1. What was appended ends where a record, a blank or a file ends; the rest of a piece waits.
2. Of one link, pieces follow each other without a gap. Whatever breaks that, or could not be
   stored, ends the link; the next one begins at the end that the log has by then.
"""

from collections.abc import Callable
from typing import TypeAlias

from sprocket.base.errors import LessSafe, StoreError, WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.replication import ReplicaPart
from sprocket.rocketmq.codec.switch_frames import EpochPart, MasterHandshake, TablesChanged
from sprocket.rocketmq.store.log import LogStream, StoredRecords
from sprocket.rocketmq.store.store import Store

UNSTORED_BYTES_MAX = 32 * MIB
"""With so much that is not written yet, or not synced where that is waited for, no more is read."""

MasterFrame: TypeAlias = "ReplicaPart | MasterHandshake | EpochPart | TablesChanged"
"""What a master sends, one way or the other."""

Done = Callable[[StoreError | None], None]
"""Told that records are as safe as the flush mode asks, or why not."""

AppendStored = Callable[[StoredRecords, Done], None]
"""The way of another log's records into the store; `broker.messages.DurableAppender` has it. Raises
StoreError, and then tells nobody; else tells later, once."""


class LogIntake:
    """See the head of the module.

    Args:
        store: It follows another log; nothing else appends to it.
        append: Its way in.

    Attributes:
        unstored_bytes: How much was appended and is not stored yet.

    Threads: event loop only.
    """

    def __init__(self, store: Store, append: AppendStored) -> None:
        self.unstored_bytes = 0
        self._store = store
        self._append = append
        self._stream: LogStream | None = None
        self._link = 0
        self._moved: Done = _nobody
        self._failure: StoreError | None = None

    @property
    def is_open(self) -> bool:
        """Whether it takes bytes."""
        return self._stream is not None

    @property
    def received(self) -> int:
        """Where the next byte of the master's log goes; it is open."""
        assert self._stream is not None
        return self._stream.received

    @property
    def is_between_records(self) -> bool:
        """Whether no record has come in part; it is open."""
        assert self._stream is not None
        return self._stream.place == self._stream.received

    def begin(self, moved: Done) -> None:
        """Begin a link; nothing of an earlier one may be on its way (`unstored_bytes`).

        Args:
            moved: Told each time that something was stored, or why not: then the link is over.
        """
        assert not self.unstored_bytes, "what is on its way moves the end"
        self._stream, self._moved, self._failure = None, moved, None
        self._link += 1

    def open(self) -> None:
        """Take bytes from now on, from the end of the log on."""
        self._stream = self._store.log_stream()

    def moved(self) -> None:
        """Tell that there may be something to report."""
        self._moved(None)

    def check(self) -> None:
        """Raise the StoreError for which something of this link was not stored, if any."""
        if self._failure is not None:
            raise self._failure

    def take(self, start: int, data: bytes) -> None:
        """Take bytes that lie at a place.

        Raises:
            WireError: They do not follow what was taken before, or are not those of a log.
            StoreError: They are not taken now.
        """
        stream = self._stream
        assert stream is not None
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

    __slots__ = ("_intake", "_link", "_size")

    def __init__(self, intake: LogIntake, link: int, size: int) -> None:
        self._intake, self._link, self._size = intake, link, size

    def __call__(self, error: StoreError | None) -> None:
        self._intake.stored(self._link, self._size, error)


def _nobody(_: StoreError | None) -> None:
    """Tell nobody."""
