"""ConsumeQueues in files: where each message of each queue lies in the log.

A queue (`file_queue`) is a row of units; see `docs/formats/consume-queue.md`.

Theory of operation. Units come in the order of the log, in rounds (`put_round`); all units of one
queue and round go down in one write. They are a derived thing: after a crash the owner truncates
them to what is certain and puts the rest of the log again, and units that are there already are
ignored. Nothing here is durable before `flush`.

Invariants

1. The unit of queue offset n is at n * 20. A unit that would have to stand elsewhere is an error,
   never a shifted unit (RocketMQ logs the gap and shifts everything after it).
2. Physical offsets grow from unit to unit, fillers left out. A unit that breaks this, or that is
   absent (offset below 0 or size not above 0), ends the queue when it is loaded.
3. What lies behind the end of a queue is zero, so that RocketMQ's recovery finds the same end.
4. At most `OPEN_FILES_MAX` files are open at a time; none is opened before it is needed, and no
   more of one is read than was asked for.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from sprocket.base import steps
from sprocket.base.disk import Disk
from sprocket.base.errors import OffsetTooLarge
from sprocket.base.segments import SegmentFiles
from sprocket.base.steps import Steps
from sprocket.base.units import PhysicalOffset, QueueOffset
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.message import TRANSACTION_PREPARED
from sprocket.rocketmq.settings import QueueGeometry
from sprocket.rocketmq.store.layout import check_topic
from sprocket.rocketmq.store.queues.file_queue import UNIT, UNIT_BYTES, FileQueue, Handles, Unsynced

QUEUES_PER_STEP = 16
"""Queues that one step of `flush_steps` or `clean_steps` looks at; syncs of the log wait for it."""


class FileQueues:
    """All queues of a store.

    Args:
        disk: Where they lie.
        folder: The folder `consumequeue` of the store.
        geometry: How many units a file has.
        write: Whether anything may be changed on the disk.
    Threads: event loop only.
    """

    def __init__(
        self, disk: Disk, folder: str, geometry: QueueGeometry, *, write: bool = True
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._units_per_file = geometry.units_per_file
        self._write = write
        self._handles = Handles()
        self._queues: dict[tuple[str, int], FileQueue] = {}
        self._dirty: set[FileQueue] = set()

    def load(self, *, clean: bool = False) -> None:
        """Take up every queue that is on the disk and find its end.

        Folders whose name is no number are not queues.

        Args:
            clean: The last stop was clean. If not, the next `flush` syncs what was found here.

        Raises:
            ForeignStore: A file has a name or a length that no queue of this geometry has.
        """
        self._queues.clear()
        self._dirty.clear()
        for topic in self._disk.list(self._folder):
            for name in self._disk.list(f"{self._folder}/{topic}"):
                path = f"{self._folder}/{topic}/{name}"
                if name.isascii() and name.isdigit() and self._disk.is_folder(path):
                    queue = self._make(topic, int(name))
                    queue.load(clean=clean)
                    if not clean:
                        self._dirty.add(queue)

    def _make(self, topic: str, queue_id: int) -> FileQueue:
        files = SegmentFiles(
            self._disk,
            f"{self._folder}/{check_topic(topic)}/{queue_id}",
            self._units_per_file * UNIT_BYTES,
            write=self._write,
        )
        queue = FileQueue(topic, queue_id, files, self._units_per_file, self._handles)
        self._queues[topic, queue_id] = queue
        return queue

    def queue(self, topic: str, queue_id: int) -> FileQueue | None:
        """Return a queue, None if it never had a message."""
        return self._queues.get((topic, queue_id))

    def __iter__(self) -> Iterator[FileQueue]:
        """Iterate over all queues that have files, in no order."""
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        """Return the number of queues that have files."""
        return len(self._queues)

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Return the first offset of a queue that can be read; 0 if it never had a message."""
        queue = self._queues.get((topic, queue_id))
        return QueueOffset(0) if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """Return the offset of a queue's next message."""
        queue = self._queues.get((topic, queue_id))
        return QueueOffset(0) if queue is None else queue.max_offset

    def next_offsets(self) -> dict[tuple[str, int], QueueOffset]:
        """Return `max_offset` of every queue, as a new table."""
        return {key: queue.max_offset for key, queue in self._queues.items()}

    @property
    def end(self) -> PhysicalOffset:
        """Physical end of the last message that any queue has; -1 without one."""
        return max((queue.end for queue in self._queues.values()), default=PhysicalOffset(-1))

    def read(self, topic: str, queue_id: int, offset: int, count: int) -> memoryview:
        """Return up to `count` units from `offset` on that lie in one file; see `FileQueue.read`.

        Raises:
            OffsetTooSmall, OffsetTooLarge: There is no such unit, or no such queue.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            raise OffsetTooLarge(offset, 0)
        return queue.read(offset, count)

    def put(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        size: int,
        tags_code: int,
    ) -> bool:
        """Put one unit; False if it was there already. Errors as `put_round`."""
        entry = Entry(topic, queue_id, queue_offset, physical_offset, size, tags_code, 0)
        return self.put_round((entry,)) == 1

    def put_round(self, entries: Iterable[Entry]) -> int:
        """Put the units of records that follow each other in the log.

        Entries whose record gets no unit, and those that are there already, are passed over: a
        record is there if it ends at or before the queue's physical end, or if its queue offset
        is below the queue's next one. Putting a round again is harmless.

        Returns:
            How many units were put.

        Raises:
            CorruptRecord: A message is missing before one of these; units before it are put.
            DiskFull, DiskFailed: Some units may be put; the round may be put again.
        """
        pack = UNIT.pack
        rounds: dict[FileQueue, _Run] = {}
        for entry in entries:
            if entry.sys_flag & TRANSACTION_PREPARED:  # in rolled back ones as well
                continue
            key = entry.topic, entry.queue_id
            queue = self._queues.get(key)
            if queue is None:
                queue = self._make(*key)
            run = rounds.get(queue)
            if run is None:
                run = rounds[queue] = _Run(queue)
            end = entry.physical_offset + entry.size
            if end <= run.end:
                continue
            if entry.queue_offset != run.next_offset and run.next_offset is not None:
                if entry.queue_offset < run.next_offset:
                    continue
                self._write_runs(rounds)
                queue.append(entry.queue_offset, b"", end)
            if run.next_offset is None:
                run.first = entry.queue_offset
            run.units.append(pack(entry.physical_offset, entry.size, entry.tags_code))
            run.next_offset = entry.queue_offset + 1
            run.end = end
        return self._write_runs(rounds)

    def _write_runs(self, rounds: "dict[FileQueue, _Run]") -> int:
        count = 0
        for queue, run in rounds.items():
            if run.units:
                self._dirty.add(queue)
                queue.append(run.first, b"".join(run.units), run.end)
                count += len(run.units)
        return count

    def fill_to(self, topic: str, queue_id: int, offset: int) -> int:
        """Put fillers for messages that are lost, so that the next one may be `offset`.

        Only for recovery that found a damaged record in the log and goes on behind it. A queue
        without files needs none: it begins anywhere.

        Returns:
            How many fillers were put.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return 0
        self._dirty.add(queue)
        return queue.fill_to(offset)

    def correct_min(self, min_physical: PhysicalOffset) -> None:
        """Raise each queue's minimum to the first message that the log still has."""
        for queue in self._queues.values():
            queue.correct_min(min_physical)

    def truncate(self, physical_offset: PhysicalOffset) -> int:
        """Take away the units of messages at `physical_offset` or later; return how many."""
        count = 0
        for queue in self._queues.values():
            cut = queue.truncate(physical_offset)
            if cut:
                self._dirty.add(queue)
                count += cut
        return count

    def wipe_behind_ends(self) -> None:
        """Zero what lies behind the end of each queue; see `FileQueue.wipe_behind_end`."""
        for queue in self._queues.values():
            queue.wipe_behind_end()
            self._dirty.add(queue)

    def reset(self) -> None:
        """Delete every queue, to be made again from the log."""
        self.close()
        self._queues.clear()
        self._dirty.clear()
        self._disk.remove_tree(self._folder)

    def flush(self) -> None:
        """Do `flush_steps` here and now."""
        steps.run(self.flush_steps())

    def flush_steps(self) -> Steps:
        """Make durable every unit that was put before this begins.

        Raises:
            DiskFailed: A sync failed; the queues are to be rebuilt from the log.
        """
        waiting = deque(self._dirty)
        while waiting:
            part = [waiting.popleft() for _ in range(min(QUEUES_PER_STEP, len(waiting)))]
            taken = [(queue, queue.take_unsynced()) for queue in part]
            self._dirty.difference_update(part)
            try:
                yield partial(_sync_all, self._disk, [unsynced for _, unsynced in taken])
            except BaseException:
                self._dirty.update(part)
                for queue, unsynced in taken:
                    queue.give_back(unsynced)
                raise

    def clean_steps(self, min_physical: PhysicalOffset) -> Steps:
        """Raise each queue's minimum to what the log still has; delete files that lie before it.

        The newest file of a queue stays: it says where the queue goes on.
        """
        waiting = deque(self._queues.values())
        while waiting:
            part = [waiting.popleft() for _ in range(min(QUEUES_PER_STEP, len(waiting)))]
            minima = yield partial(_minima, [queue.copy() for queue in part], min_physical)
            for queue, min_offset in zip(part, minima, strict=True):
                yield from queue.clean_steps(min_offset)

    def close(self) -> None:
        """Close every handle; nothing is flushed."""
        for queue in self._queues.values():
            queue.close()


def _sync_all(disk: Disk, parts: Iterable[Unsynced]) -> None:
    for part in parts:
        part.sync(disk)


def _minima(copies: Iterable[FileQueue], min_physical: PhysicalOffset) -> list[QueueOffset]:
    """Return the first offset of each queue whose message the log still has."""
    minima = []
    for queue in copies:
        try:
            queue.correct_min(min_physical)
            minima.append(queue.min_offset)
        finally:
            queue.close()
    return minima


class _Run:
    """The units that one round has for one queue."""

    __slots__ = ("end", "first", "next_offset", "units")

    def __init__(self, queue: FileQueue) -> None:
        self.units: list[bytes] = []
        self.end: int = queue.end
        self.first: int = queue.max_offset
        self.next_offset: int | None = None if queue.is_blank else queue.max_offset
