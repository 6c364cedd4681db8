"""The log of a slave: it takes what its master sends, in the order of the log.

A link begins with a comparison: the slave does not ask for what follows its end, but for its last
record once more. If the master has the same bytes there, this log is a beginning of the master's;
records hold their place, their times and their place in a queue, so none is like another. If not,
nothing is changed: which of the two logs is right is not to be decided here.

    ask → parts from the last record on … compared … at the end of the log → `LogIntake`

What is reported is the end of a record that this machine has: on its disk, or only written, as the
setting says.
"""

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import replication
from sprocket.rocketmq.codec.replication import FIRST_BYTE, FROM_FIRST, PartReader, ReplicaPart
from sprocket.rocketmq.errors import LogsDiffer
from sprocket.rocketmq.replication.log_intake import AppendStored, Done, LogIntake, MasterFrame
from sprocket.rocketmq.store.store import Store


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
        self._intake = LogIntake(store, append)
        self._to_disk = to_disk
        self._expected = 0
        self._is_quiet = False
        self._own, self._own_start = memoryview(b""), 0

    @property
    def unstored_bytes(self) -> int:
        """How much was appended and is not stored yet."""
        return self._intake.unstored_bytes

    @property
    def is_following(self) -> bool:
        """Whether it is known that this is a beginning of the master's log."""
        return self._intake.is_open

    @property
    def received(self) -> int:
        """Where the next byte of the master's log goes."""
        return self._intake.received if self._intake.is_open else self._expected

    @property
    def safe_end(self) -> int:
        """What is reported: where the log ends that this machine has."""
        if not self._intake.is_open:
            return self._expected
        return self._store.synced if self._to_disk else self._store.written

    @property
    def unanswered(self) -> str:
        """What to say of a master that ends the link before this log follows it."""
        return "the master closed the connection before it sent what follows this log"

    @staticmethod
    def reader() -> PartReader:
        """Return what reads what a master sends."""
        return PartReader()

    def opening(self) -> bytes:
        """Return what to say first: from where on to send."""
        return self.report()

    def report(self) -> bytes:
        """Return what to say of how much there is."""
        return replication.report(self.safe_end)

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
        self._intake.begin(moved)
        self._is_quiet = False
        self._own, self._own_start = memoryview(b""), store.end
        if store.end == 0:
            self._expected = first or FROM_FIRST
            return self._expected
        if first is not None and store.end < first:
            raise LogsDiffer(_gone(first, store.end))
        last = store.last_record
        if store.first <= last < store.end and (first is None or first <= last):
            self._own, self._own_start = store.record_at(last), last
        self._expected = self._own_start or FROM_FIRST  # 0 would ask for the last file
        return self._expected

    def take(self, part: MasterFrame) -> None:
        """Take what the master has sent.

        Raises:
            LogsDiffer: This log is not a beginning of the master's. It was not changed.
            WireError: It does not follow what was sent before, or is not a log.
            StoreError: It is not taken now.
        """
        assert isinstance(part, ReplicaPart), part
        self._intake.check()
        if self._intake.is_open:
            self._intake.take(part.start, part.data)
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
        self._intake.open()
        self._intake.take(start, data)

    def _compare(self, part: ReplicaPart) -> None:
        """Compare the last record with what the master has there, then follow."""
        start, data, end = part.start, part.data, self._store.end
        if start > end:
            raise LogsDiffer(_gone(start, end))
        if start < self._expected and start != self._own_start:
            raise WireError(f"expected the log from {self._expected} on, it comes from {start} on")
        own = self._own[start - self._own_start :][: len(data)]
        if own != data[: len(own)]:
            raise LogsDiffer(
                f"the master has another record at {self._own_start} than the last one of this "
                f"log, which ends at {end}"
            )
        self._expected = part.end
        if part.end >= end:
            self._intake.open()
            self._intake.moved()
            self._intake.take(end, data[end - start :])


def _gone(first: int, end: int) -> str:
    return (
        f"the master's log begins at {first}, this one ends at {end}: what lies between is gone "
        "there; an empty folder gets all that the master has"
    )
