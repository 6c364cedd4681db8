"""What a store asks of its queues, whichever engine keeps them.

Two engines do: `file_queues` (20-byte units in files) and `rocks_queues` (keys of a RocksDB); both
pass one suite, `tests/contract/test_queues.py`. Queues are derived from the log: a crash may lose
what was put since the last `flush`, and the owner puts the rest of the log again.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol, TypeVar

from sprocket.base.disk import Steps
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset
from sprocket.rocketmq.store.queue.queue import LastUnit, Queue, QueueKey
from sprocket.rocketmq.store.queue.runs import UnitBatch

QUEUES_PER_STEP = 16
"""Queues that one step looks at, of those of `Queues`; syncs of the log wait for it."""

T = TypeVar("T")


def in_steps(queues: Iterable[T]) -> Iterator[list[T]]:
    """Give queues that there are now, as many at a time as one step looks at."""
    left = iter([*queues])
    while part := [*islice(left, QUEUES_PER_STEP)]:
        yield part


class Queues(Protocol):
    """All queues of a store.

    Threads: the one that owns the store.
    """

    def load(
        self, *, clean: bool = False, certain: int = ANYWHERE, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take up every queue that is on the disk; again, if there are some already.

        Args:
            clean: The last stop was clean. If not, the next `flush` syncs what was found here.
            certain: Units of messages that lie there in the log or later are not taken up, as if
                `truncate` followed; but they may stay on the disk until `wipe_behind_ends`.
            step: Told how far it is.

        Returns:
            As `truncate`.

        Raises:
            ForeignStore: What lies there is no queue of this engine and geometry.
        """

    @property
    def by_key(self) -> Mapping[QueueKey, Queue]:
        """Each queue that has had a message, or was made to begin somewhere, in no order."""

    @property
    def end(self) -> PhysicalOffset:
        """Physical end of what the queues have of the log; -1 without a message."""

    @property
    def last(self) -> tuple[PhysicalOffset, int, int] | None:
        """The unit of the message that lies last in the log, of those in queues."""

    def put_round(self, entries: Iterable[Entry]) -> int:
        """Put the units of records that follow each other in the log.

        Entries whose record gets no unit, and those that are there already, are passed over.
        A queue that is not there begins at its first entry's offset, whatever it is.

        Returns:
            How many units were put.

        Raises:
            CorruptRecord: A message is missing before one of these; units before it are put.
            DiskFull, DiskFailed: Some units may be put; the round may be put again.
        Durability: none before `flush`.
        """

    def put_batch(self, batch: UnitBatch, step: Step = unwatched) -> int:
        """Put the units of a batch; what a queue has of them already is passed over.

        Args:
            batch: The offsets of each queue have no gap, but among those that it has already.
            step: Told how far it is.

        Returns:
            How many units were put.

        Raises:
            CorruptRecord: A queue does not go on with the first unit of the batch that it lacks;
                the units of other queues may be put.
            DiskFull, DiskFailed: Some units may be put; the batch may be put again, also as a part
                of a longer one.
        """

    def fill_to(self, topic: str, queue_id: int, offset: int) -> int:
        """Put fillers for messages that are lost, so that the next one may be `offset`.

        Only for recovery that found a damaged record in the log and goes on behind it. A queue
        that is not there needs none: it begins anywhere. One that has no unit begins there.

        Returns:
            How many fillers were put.
        """

    def begin(self, topic: str, queue_id: int, offset: int) -> None:
        """Make an empty queue that goes on at `offset`; do nothing if it is there."""

    def between(
        self, topics: Container[str], start: PhysicalOffset, end: PhysicalOffset
    ) -> Iterator[Callable[[], bool]]:
        """Return questions that together say whether topics have messages in a part of the log.

        Each looks at some queues, and says whether one of them has a message that begins from
        `start` on and before `end`. They may be called on any thread, one after the other, while
        nothing but `put_round` and `put_batch` changes the queues.
        """

    def correct_min(self, min_physical: PhysicalOffset, step: Step = unwatched) -> None:
        """Raise each queue's minimum to the first message that the log still has.

        Args:
            min_physical: Where the log begins.
            step: Told how far it is.
        """

    def clean_steps(self, min_physical: PhysicalOffset) -> Steps:
        """Raise the minima and give back the room of units that no message is left for.

        An engine may keep some of them for a later call.
        """

    def truncate(
        self, physical_offset: PhysicalOffset, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take away the units of messages at `physical_offset` or later.

        Fillers before the cut stay: what they stand for is gone.

        Args:
            physical_offset: The first place that is cut off.
            step: Told how far it is.

        Returns:
            Of each queue that lost units, the last one it had.
        """

    def wipe_behind_ends(self, step: Step = unwatched) -> None:
        """Wipe what lies behind the end of each queue and could be taken for a unit.

        Needed once after a load that followed a crash.
        """

    def remove(self, topic: str, queue_id: int) -> None:
        """Delete a queue, or do nothing if it is not there."""

    def hide_topic(self, topic: str) -> None:
        """Forget the queues of a topic, for those who only read; the disk is left as it is."""

    def delete_topic(self, topic: str) -> Callable[[], None] | None:
        """Delete all queues of a topic: they are gone at once, and can be made again.

        Not while `flush_steps` or `clean_steps` are under way.

        Returns:
            What removes their files, to be called once on any thread; None if there is nothing to
            do. If it is not called the next `load` does it.
        Durability: none before `flush`; a crash may bring back all that was flushed.
        """

    def flush(self) -> None:
        """Do `flush_steps` here and now."""

    def flush_steps(self) -> Steps:
        """Make durable every unit that was put before this begins.

        Raises:
            DiskFailed: A sync failed; the queues are to be rebuilt from the log.
        """

    def seal(self) -> None:
        """Flush, and leave what makes the next load after this clean stop quick."""

    def close(self) -> None:
        """Close every handle; nothing is promised to be flushed. Queues can be read no more."""
