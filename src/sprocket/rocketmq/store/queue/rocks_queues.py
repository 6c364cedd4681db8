"""ConsumeQueues in a RocksDB: where each message of each queue lies in the log.

The database lies in `consumequeue/` itself; `rocks_keys` knows its keys and values.

Theory of operation. A dispatch round is one write batch: its units, the new `max` record of each
queue it touches, and how far the log is dispatched (the checkpoint record). So whatever a crash
leaves of the database agrees with itself, and recovery puts what is missing again. The range of
each queue is kept in memory, from the `max` and `min` records. As in RocketMQ the `min` record may
lag: the minimum is searched for when the log's has passed it. Units behind `max`, which RocketMQ
leaves when it truncates, are never looked at.

What differs from RocketMQ: cleaning deletes units of messages that are gone as ranges, since its
compaction filter is native code of its own RocksDB build; units are read by an iterator where it
asks for each key; truncated units are deleted. It reads what we write.

Invariants

1. The units of a queue and its `max` record are written in one batch.
2. A flush takes the units' family first. Should the records be ahead of the units after a crash all
   the same, loading lowers them.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial

from sprocket.base.disk import Disk, Steps, steps
from sprocket.base.errors import CorruptRecord
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.store.layout import check_topic
from sprocket.rocketmq.store.queue import rocks_keys as keys
from sprocket.rocketmq.store.queue import runs
from sprocket.rocketmq.store.queue.engine import in_steps
from sprocket.rocketmq.store.queue.queue import FILLER, LastUnit, QueueKey, behind_fillers
from sprocket.rocketmq.store.queue.rocks_database import Batch, Database, is_database
from sprocket.rocketmq.store.queue.rocks_keys import CHECKPOINT_KEY, I64, OFFSETS, UNITS, VALUE
from sprocket.rocketmq.store.queue.rocks_queue import RocksQueue
from sprocket.rocketmq.store.queue.runs import Run, UnitBatch

_First = tuple[QueueOffset, int | None]
"""A queue's minimum, and where its message lies; None if there is none left."""


class RocksQueues:
    """All queues of a store; see `engine.Queues`.

    Args:
        disk: Where they lie; only the operating system's will do.
        folder: The folder `consumequeue` of the store, which is the database.
        write: Whether anything may be changed on the disk.
    """

    def __init__(self, disk: Disk, folder: str, *, write: bool = True) -> None:
        self._disk = disk
        self._folder = folder
        self._write = write
        self._opened: Database | None = None
        self.by_key: dict[QueueKey, RocksQueue] = {}
        self._end = -1

    @property
    def _database(self) -> Database:
        if self._opened is None:
            self._opened = Database(self._disk, self._folder, (UNITS, OFFSETS), write=self._write)
        return self._opened

    def load(
        self, *, clean: bool = False, certain: int = ANYWHERE, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Open the database and take up the range of every queue; see `engine.Queues.load`.

        A database that RocksDB or we find damaged is deleted, unless it is only read: recovery
        makes it again. What RocksDB shows is on the disk; but a crash between the flushes of the
        two families, with a round put in between, leaves `max` records ahead of their units.

        Raises:
            EngineMissing, StoreLocked: See `database.Database`.
        """
        self.close()
        if not self._write and not is_database(self._disk, self._folder):
            return {}
        try:
            self._load(step)
        except CorruptRecord:
            if not self._write:
                raise
            self.close()
            self._disk.remove_tree(self._folder)  # it is made again from the log
            self._load(step)
        if clean:
            return {}
        self._correct_max(step)
        return self.truncate(PhysicalOffset(certain), step)

    def _load(self, step: Step) -> None:
        for key, value in self._database.all(OFFSETS):
            step("queues found", len(self.by_key))
            if key == CHECKPOINT_KEY:
                if len(value) != I64.size:
                    raise CorruptRecord(f"{self._folder}: checkpoint {value.hex()}")
                (self._end,) = I64.unpack(value)
                continue
            record = keys.decode_offset(key, value)
            if record.which == keys.MAX:
                queue = self._new(record.topic, record.queue_id)
                queue.last_place = record.physical_offset
                queue.max_offset = QueueOffset(record.queue_offset + 1)
                if queue.last_place < 0:
                    queue.min_offset = queue.max_offset
            else:  # in the order of the keys all `max` records of a topic come before
                known = self.by_key.get((record.topic, record.queue_id))
                if known is not None and known.last_place >= 0:
                    known.min_offset = min(QueueOffset(record.queue_offset), known.max_offset)
                    known.cleaned = known.min_offset
                    known.first_place = record.physical_offset

    def _correct_max(self, step: Step) -> None:
        """Lower each queue's end to behind its last unit, and `end` so that the rest is put again.

        Costs 3 µs a queue.
        """
        for number, queue in enumerate(self.by_key.values()):
            step("queues looked at", number, len(self.by_key))
            end = queue.end_before(queue.max_offset)
            if queue.last_place >= 0 and end < queue.max_offset:
                queue.max_offset = end
                last = queue.place_before(end)
                queue.last_place = -1 if last is None else last.physical_offset
                whole = 0 if last is None else last.physical_offset + last.size
                self._end = min(self._end, whole)

    def _new(self, topic: str, queue_id: int) -> RocksQueue:
        queue = RocksQueue(self._database, check_topic(topic), queue_id)
        self.by_key[topic, queue_id] = queue
        return queue

    @property
    def end(self) -> PhysicalOffset:
        """How far the log was dispatched, by the checkpoint record; -1 without one."""
        return PhysicalOffset(self._end)

    @property
    def last(self) -> tuple[PhysicalOffset, int, int] | None:
        """The unit of the message that lies last in the log, of those in queues."""
        queue = max(self.by_key.values(), key=lambda queue: queue.last_place, default=None)
        return None if queue is None else queue.last_unit()

    # Writing.

    def put_round(self, entries: Iterable[Entry]) -> int:
        """Put the units of records that follow each other in the log, in one batch.

        See `engine.Queues.put_round`. Cost: 5 µs and 3 µs a unit.
        """
        return runs.put(entries, self._queue_for, self._put)

    def put_batch(self, batch: UnitBatch, step: Step = unwatched) -> int:
        """Put the units of a batch, in one batch of the database; see `engine.Queues.put_batch`.

        Cost: 20 µs, 10 µs a queue and 1 µs a unit.
        """
        return self._put(batch.runs(self._queue_for, step))

    def _queue_for(self, key: QueueKey) -> RocksQueue:
        return self.by_key.get(key) or RocksQueue(self._database, check_topic(key[0]), key[1])

    def _put(self, found: Iterable[Run[RocksQueue]]) -> int:
        """Write what queues lack with the records that go with it, then change what is in memory.

        Returns:
            How many units that is.
        """
        batch = self._database.batch()
        offsets = self._database.handle(OFFSETS)
        put, pack = batch.put, keys.OFFSET_VALUE.pack
        done: list[tuple[Run[RocksQueue], int, int]] = []
        for run in found:
            prefix = run.queue.prefix
            run.to_rocks(batch, prefix)
            first_place, last_place = run.places
            last = pack(last_place, run.next_offset - 1)
            put(keys.record_key(prefix, keys.MAX), last, offsets)
            if run.queue.is_blank:
                put(keys.record_key(prefix, keys.MIN), pack(first_place, run.first), offsets)
            done.append((run, first_place, last_place))
        if not done:
            return 0
        end = max(self._end, *[run.end for run, _, _ in done])
        put(CHECKPOINT_KEY, I64.pack(end), offsets)
        self._database.write(batch)
        self._end = end
        count = 0
        for run, first_place, last_place in done:
            queue = run.queue
            if queue.is_blank:
                self.by_key[queue.topic, queue.queue_id] = queue
                queue.min_offset = QueueOffset(run.first)
                queue.cleaned, queue.first_place = run.first, first_place
            queue.max_offset, queue.last_place = QueueOffset(run.next_offset), last_place
            count += run.next_offset - run.first
        return count

    def fill_to(self, topic: str, queue_id: int, offset: int) -> int:
        """Put fillers for messages that are lost; see `engine.Queues.fill_to`."""
        queue = self.by_key.get((topic, queue_id))
        if queue is None or offset <= queue.max_offset:
            return 0
        batch = self._database.batch()
        first = queue.max_offset
        if queue.is_blank:
            queue.min_offset = QueueOffset(offset)
        else:
            value = FILLER + I64.pack(self._last_time(queue))
            for at in range(first, offset):
                batch.put(queue.key(at), value)
        queue.max_offset = QueueOffset(offset)
        self._put_records(batch, queue)
        self._database.write(batch)
        return offset - first

    def _last_time(self, queue: RocksQueue) -> int:
        """Return the store time of a queue's last unit, so that RocketMQ can search by time."""
        (value,) = self._database.get([queue.key(queue.max_offset - 1)])
        return 0 if value is None else int(VALUE.unpack(value)[3])

    def begin(self, topic: str, queue_id: int, offset: int) -> None:
        """Make an empty queue that goes on at `offset`; do nothing if it is there."""
        if (topic, queue_id) not in self.by_key:
            queue = self._new(topic, queue_id)
            queue.min_offset = queue.max_offset = QueueOffset(offset)
            batch = self._database.batch()
            self._put_records(batch, queue)
            self._database.write(batch)

    def _put_records(self, batch: Batch, queue: RocksQueue) -> None:
        """Put what says the range of a queue into a batch."""
        for key, value in queue.records():
            batch.put(key, value, self._database.handle(OFFSETS))

    # Recovery and cleaning.

    def correct_min(self, min_physical: PhysicalOffset, step: Step = unwatched) -> None:
        """Raise each queue's minimum to the first message that the log still has.

        Cost: nothing for a queue whose first message is still there.
        """
        queues = [q for q in self.by_key.values() if q.first_place < min_physical]
        if not queues:
            return
        batch = self._database.batch()
        for number, queue in enumerate(queues):
            step("queues whose first message was looked for", number, len(queues))
            self._raise_min(queue, _first(queue, min_physical), batch)
        if len(batch) and self._write:
            self._database.write(batch)

    def between(
        self, topics: Container[str], start: PhysicalOffset, end: PhysicalOffset
    ) -> Iterator[Callable[[], bool]]:
        """Return questions; see `engine.Queues`."""
        for part in in_steps(q for q in self.by_key.values() if q.topic in topics):
            yield partial(_any_between, part, start, end)

    def clean_steps(self, min_physical: PhysicalOffset) -> Steps:
        """Raise the minima and delete the units before them."""
        for part in in_steps(q for q in self.by_key.values() if q.first_place < min_physical):
            firsts = yield partial(_firsts, part, min_physical)
            batch = self._database.batch()
            for queue, first in zip(part, firsts, strict=True):
                self._raise_min(queue, first, batch)
                if queue.cleaned < queue.min_offset:
                    batch.delete_range(queue.key(0), queue.key(queue.min_offset))
                    queue.cleaned = queue.min_offset
            if len(batch):
                self._database.write(batch)

    def _raise_min(self, queue: RocksQueue, first: _First, batch: Batch) -> None:
        """Raise a queue's minimum in memory, and put what says so into a batch."""
        queue.min_offset, place = first
        if place is not None and place != queue.first_place:
            queue.first_place = place
            self._put_records(batch, queue)

    def truncate(
        self, physical_offset: PhysicalOffset, step: Step = unwatched
    ) -> dict[QueueKey, LastUnit]:
        """Take away the units of messages at `physical_offset` or later; return the last ones.

        Cost: nothing for a queue whose last message lies before.
        """
        batch = self._database.batch()
        lasts: dict[QueueKey, LastUnit] = {}
        for number, (key, queue) in enumerate(self.by_key.items()):
            step("queues cut", number, len(self.by_key))
            if queue.last_place >= physical_offset:
                lasts[key] = self._cut(queue, physical_offset)
                batch.delete_range(queue.key(queue.max_offset), keys.unit_keys_end(queue.prefix))
        if lasts or self._end > physical_offset:
            self._end = min(self._end, physical_offset)
            batch.put(CHECKPOINT_KEY, I64.pack(self._end), self._database.handle(OFFSETS))
            for key in lasts:
                self._put_records(batch, self.by_key[key])
            self._database.write(batch)
        return lasts

    @staticmethod
    def _cut(queue: RocksQueue, physical_offset: int) -> LastUnit:
        """Set the range of a queue to the units of messages before `physical_offset`."""
        first_gone, old = queue.first_at(physical_offset), queue.max_offset
        end = old if first_gone is None else first_gone.offset
        unit = LastUnit(old, queue.last_place, behind_fillers(queue.read, end, old))
        queue.max_offset = queue.end_before(end)  # a crash may leave the records ahead of the units
        queue.min_offset = min(queue.min_offset, queue.max_offset)
        last = queue.place_before(queue.max_offset)
        queue.last_place = -1 if last is None else last.physical_offset
        return unit

    def wipe_behind_ends(self, step: Step = unwatched) -> None:
        """Do nothing: what lies behind the `max` record of a queue is not taken for a unit."""

    def remove(self, topic: str, queue_id: int) -> None:
        """Delete a queue."""
        queue = self.by_key.pop((topic, queue_id), None)
        if queue is not None:
            batch = self._database.batch()
            batch.delete_range(queue.key(0), keys.unit_keys_end(queue.prefix))
            offsets = self._database.handle(OFFSETS)
            for which in (keys.MAX, keys.MIN):
                batch.delete(keys.record_key(queue.prefix, which), offsets)
            self._database.write(batch)

    def hide_topic(self, topic: str) -> None:
        """Forget the queues of a topic; see `engine.Queues.hide_topic`."""
        for key in [key for key in self.by_key if key[0] == topic]:
            del self.by_key[key]

    def delete_topic(self, topic: str) -> None:
        """Delete all queues of a topic; see `engine.Queues.delete_topic`."""
        for key in [key for key in self.by_key if key[0] == topic]:
            self.remove(*key)

    def flush(self) -> None:
        """Do `flush_steps` here and now."""
        steps.run(self.flush_steps())

    def flush_steps(self) -> Steps:
        """Make durable every unit that was put; about 10 ms if there are some."""
        if self._opened is not None:
            yield self._opened.flush

    def seal(self) -> None:
        """Flush; loading is quick as it is."""
        self.flush()

    def close(self) -> None:
        """Close the database."""
        self.by_key.clear()
        self._end = -1
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _any_between(queues: Iterable[RocksQueue], start: int, end: int) -> bool:
    """Return whether a queue has a message in a part of the log."""
    for queue in queues:
        first = queue.first_at(start) if queue.last_place >= start else None
        if first is not None and start <= first.physical_offset < end:
            return True
    return False


def _firsts(queues: Iterable[RocksQueue], min_physical: int) -> list[_First]:
    return [_first(queue, min_physical) for queue in queues]


def _first(queue: RocksQueue, min_physical: int) -> _First:
    """Return the first message of a queue that the log still has."""
    end = queue.max_offset  # before the look: it may grow meanwhile
    first = queue.first_at(min_physical) if queue.last_place >= min_physical else None
    return (end, None) if first is None else (QueueOffset(first.offset), first.physical_offset)
