"""What was popped and is not settled: messages that wait for their acknowledgement, by queue.

A pop is settled message by message: by an acknowledgement, or because the message was put where the
group gets it again. A group goes on in a queue at `next_offset`; what is committed for it is where
its oldest pop begins that is not settled.

Two files hold it, both in `config/` and both ours:

* `sprocketPops.json`, replaced as a whole every few seconds and at stop;
* `sprocket.pops`, a journal of what came since: a line for each pop, and for each time that some of
  it was settled. Each line says all of a pop.

A process that dies, by `kill -9` too, leaves its lines to the system: nothing comes again that was
acknowledged, and what was not comes again when it is due. After a power loss lines may be lost that
were not synced; whoever promises more waits for that (`table.journal`).

A third place knows pops, RocketMQ's own: the revive topic in the log. What goes there and comes
from there is told in `revive_log`.

Invariants

1. All that lies before what is committed is settled.
2. No message of a queue is in two pops that are not settled.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, TypedDict

import msgspec
from msgspec import Struct

from sprocket.base import log
from sprocket.base.checksum import crc31
from sprocket.base.errors import WireError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.codec.config import fastjson, tables
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot

COUNT_MAX = 32
"""Messages of one pop, RocketMQ's limit."""
LATE_MAX = 100_000
"""Pops of which acknowledgements are kept for whoever goes on with the folder."""
LATE_KEEP_MS = 3_600_000
"""So long after a pop was due such are kept: its checkpoint may come late."""

_log = log.get_limited_logger(__name__)


class PoppedQueue(NamedTuple):
    """A queue of a topic, as one group consumes it."""

    topic: str
    group: str
    queue_id: int


class PopId(NamedTuple):
    """Which pop of a queue: where it begins, and when it was."""

    start: int
    popped_at_ms: int


class Pop(Struct):
    """One pop.

    Attributes:
        id: Which.
        invisible_ms: For how long nobody else gets its messages.
        differences: How far each message is from where the pop begins.
        settled: A bit for each message that is.
        revive_queue: That of RocketMQ's revive topic which its handles name.
        is_written: Whether a checkpoint of it is on the way to that topic.
        copied: A bit for each message that is to be settled by a copy of it.
        copied_to: Where the log ends behind these copies: it has them if it is so long.
    """

    id: PopId
    invisible_ms: int
    differences: Sequence[int]
    settled: int = 0
    revive_queue: int = 0
    is_written: bool = False
    copied: int = 0
    copied_to: int = 0

    @property
    def due_at_ms(self) -> int:
        """When what is not settled may come again."""
        return self.id.popped_at_ms + self.invisible_ms

    @property
    def end(self) -> int:
        """The offset behind its last message."""
        return self.id.start + self.differences[-1] + 1

    @property
    def is_settled(self) -> bool:
        """Whether all its messages are."""
        return self.settled == (1 << len(self.differences)) - 1

    @property
    def open_offsets(self) -> list[QueueOffset]:
        """The queue offsets of its messages that are not settled."""
        return [
            QueueOffset(self.id.start + difference)
            for number, difference in enumerate(self.differences)
            if not self.settled >> number & 1
        ]

    def settle(self, offset: int) -> bool:
        """Settle one message; tell whether it is of this pop and was not settled."""
        try:
            bit = 1 << self.differences.index(offset - self.id.start)
        except ValueError:
            return False
        if self.settled & bit:
            return False
        self.settled |= bit
        return True


_Row: TypeAlias = tables.PopRow
"""A pop as a line of the journal has it: see `codec.config.tables.PopLine`."""

_FORGOTTEN: Final[_Row] = (-1, 0, 0, [0], 1, 0, 0, 0, False, False)
"""The line after which nothing is known of a queue: a group that was sent back goes on where it is
then, not behind what it had popped. It follows lines by which each pop is settled."""


_FileRow: TypeAlias = tuple[int, int, int, list[int], int, int, int, int, bool, bool, int]
"""The same with its checksum."""


class _File(TypedDict, total=False):
    dataVersion: object
    pops: dict[str, dict[int, list[_FileRow]]]
    epoch: int
    sprocketSequence: int | None


class _Queue:
    """The pops of a queue, in the order in which they were made."""

    def __init__(self) -> None:
        self.pops: dict[PopId, Pop] = {}
        self.starts: list[PopId] = []
        """A heap of those of `pops` and of some that are gone."""
        self.end = 0
        """Behind the last message of any."""

    def add(self, pop: Pop) -> bool:
        """Keep a pop, in place of what is kept of it; tell whether nothing was."""
        is_new = pop.id not in self.pops
        self.pops[pop.id] = pop
        if is_new:
            heapq.heappush(self.starts, pop.id)
            self.end = max(self.end, pop.end)
        return is_new

    def floor(self) -> int | None:
        """Return where the oldest pop begins that is not settled; drops those before it."""
        while self.starts:
            pop = self.pops.get(self.starts[0])
            if pop is not None and not pop.is_settled:
                return pop.id.start
            self.pops.pop(heapq.heappop(self.starts), None)
        return None


class InFlight:
    """See the head of the module.

    Args:
        place: Where the store lies.
        offsets: What groups have committed; told how far they are.
        log_end: Where the log ends.

    Attributes:
        table: File, journal and version.
        epoch: Marks what this table has on the revive topic; another one when RocketMQ was here.

    Threads: event loop only.
    """

    def __init__(self, place: Place, offsets: ConsumerOffsets, log_end: int) -> None:
        self._offsets = offsets
        self._log_end = log_end
        self._void: dict[tuple[PoppedQueue, PopId], Pop] = {}
        self._queues: dict[PoppedQueue, _Queue] = {}
        self._due: list[tuple[int, PoppedQueue, PopId]] = []
        self._acks: dict[tuple[PoppedQueue, PopId], Pop] = {}
        self.epoch = 0
        self.table = ConfigTable(config_table.POPS, place, self._snapshot)
        self._clock = place.clock
        for line in self.table.load(_File, self._read):
            self._take_row(_queue(line[1], line[2]), line[3:])
        for (key, _), pop in self._void.items():
            self._write(key, pop)  # or the copies would come to count once the log has grown
        self._void.clear()
        self._begin(is_foreign=offsets.table.is_void)
        for key in list(self._queues):
            self._commit(key)
        if self.table.is_void:
            self.table.journal.is_behind = True

    def _begin(self, *, is_foreign: bool) -> None:
        """Forget all if RocketMQ was here meanwhile: what is in flight is on its topic."""
        is_stale = is_foreign and bool(self._queues or self._acks)
        if is_foreign:
            self._queues.clear()
            self._due.clear()
            self._acks.clear()
        if is_foreign or not self.epoch:
            self.epoch = max(self.epoch + 1, self._clock.now_ms())
        if is_stale:
            self.table.journal.is_behind = True
            self.table.flush()

    def __len__(self) -> int:
        """Return how many pops are kept."""
        return sum(len(queue.pops) for queue in self._queues.values())

    def next_offset(self, key: PoppedQueue) -> int | None:
        """Return where the next pop of a queue begins; None if nothing of it is in flight."""
        queue = self._queues.get(key)
        return None if queue is None else queue.end

    def count(self, key: PoppedQueue) -> int:
        """Return how many messages of a queue are in flight."""
        queue = self._queues.get(key)
        if queue is None:
            return 0
        return sum(len(pop.differences) - pop.settled.bit_count() for pop in queue.pops.values())

    def add(
        self,
        key: PoppedQueue,
        of: PopId,
        offsets: Sequence[int],
        invisible_ms: int,
        revive_queue: int = 0,
    ) -> Pop:
        """Note that messages were popped.

        Args:
            key: Whose and of which queue.
            of: Where the queue was read from, all before the first of them is not wanted; and
                when, wall time: another pop that begins at the same offset must be later.
            offsets: Their queue offsets, rising; `COUNT_MAX` at most.
            invisible_ms: For how long nobody else gets them.
            revive_queue: What their handles name.

        Raises:
            DiskFull, DiskFailed: Nothing is noted.
        """
        assert len(offsets) <= COUNT_MAX, "more than a pop may have"
        differences = [offset - of.start for offset in offsets]
        pop = Pop(of, invisible_ms, differences, revive_queue=revive_queue)
        self._write(key, pop)
        self._put(key, pop)
        return pop

    def pass_over(self, key: PoppedQueue, offset: int) -> None:
        """Have the next pop of a queue begin at `offset`: the group does not want what is before.

        Where something is in flight this is known to this process only; another looks once more.
        """
        queue = self._queues.get(key)
        if queue is not None:
            queue.end = max(queue.end, offset)
        elif (self._offsets.get(key.group, key.topic, key.queue_id) or 0) < offset:
            self._offsets.commit_aside(key.group, key.topic, key.queue_id, offset)

    def settle(self, key: PoppedQueue, of: PopId, offsets: Iterable[int]) -> list[int]:
        """Settle messages of a pop; return those that were not settled before.

        Raises:
            DiskFull, DiskFailed: Nothing is settled for good: what is noted here may come again.
        """
        queue = self._queues.get(key)
        pop = None if queue is None else queue.pops.get(of)
        if pop is None:
            return []
        found = [offset for offset in offsets if pop.settle(offset)]
        if found:
            if pop.is_written:
                self.note_late(key, pop, found)
            self._write(key, pop)
            if pop.is_settled:
                self._commit(key)
        return found

    def note_copies(self, key: PoppedQueue, of: PopId, offsets: Iterable[int], end: int) -> None:
        """Note copies of messages of a pop that are about to be written to the log.

        After a kill they count as settled if the log has the copies, so that none is copied twice;
        until then they are not. `settle` follows once the copies are stored.

        Args:
            key: Of which queue.
            of: Which pop.
            offsets: Of the messages.
            end: Where the log will end behind the copies; 0 if there are none after all.

        Raises:
            DiskFull, DiskFailed: A kill may have them copied twice.
        """
        queue = self._queues.get(key)
        pop = None if queue is None else queue.pops.get(of)
        if pop is None:
            return
        differences = [offset - of.start for offset in offsets]
        pop.copied = sum(1 << pop.differences.index(difference) for difference in differences)
        pop.copied_to = end
        if not end:
            pop.copied = 0
        self._write(key, pop)

    def settle_offset(self, key: PoppedQueue, offset: int) -> bool:
        """Settle a message, whichever pop has it now; tell whether one has.

        That of its handle is not known any more, or not yet.

        Raises:
            DiskFull, DiskFailed: It may come again.
        """
        queue = self._queues.get(key)
        for pop in () if queue is None else queue.pops.values():
            if offset in pop.open_offsets:
                self.settle(key, pop.id, [offset])
                return True
        return False

    def note_late(self, key: PoppedQueue, pop: Pop, offsets: Sequence[int]) -> None:
        """Note acknowledgements of a pop whose checkpoint is on the way to the revive topic.

        They count when it comes; whoever goes on with the folder gets them too.

        Raises:
            DiskFull, DiskFailed: They are not noted.
        """
        known = self._acks.get((key, pop.id))
        before = () if known is None else known.differences
        differences = sorted({*before, *(offset - pop.id.start for offset in offsets)})
        if differences[0] < 0 or len(differences) > COUNT_MAX:
            return  # no pop has such messages
        if known is None and len(self._acks) >= LATE_MAX:
            _log.error("acknowledgements of old pops are not kept: too many wait already")
            return
        late = Pop(pop.id, pop.invisible_ms, differences, revive_queue=pop.revive_queue)
        self._write(key, late, is_ack=True)
        self._acks[key, pop.id] = late

    def late_acks(self) -> list[tuple[PoppedQueue, Pop]]:
        """Return what `note_late` has noted: pops that have nothing but acknowledged messages."""
        return [(key, pop) for (key, _), pop in self._acks.items()]

    def take_in(self, key: PoppedQueue, pop: Pop, *, is_known: bool, grace_ms: int) -> None:
        """Take a pop in whose checkpoint has come on the revive topic.

        Args:
            key: Of which queue.
            pop: What it says.
            is_known: Whether the pop is in this table, or was until it was settled.
            grace_ms: So long after it is due acknowledgements of it may come.

        Raises:
            DiskFull, DiskFailed: It is not taken in.
        """
        late = self._acks.pop((key, pop.id), None)
        queue = self._queues.get(key)
        here = None if queue is None else queue.pops.get(pop.id)
        if here is not None:
            here.is_written = False  # whoever goes on with the folder does not see that record
            self._write(key, here)
        if here is not None or is_known:
            return
        for difference in () if late is None else late.differences:
            pop.settle(pop.id.start + difference)
        if not pop.is_settled:
            self._write(key, pop)
            self._put(key, pop, pop.due_at_ms + grace_ms)

    def unwritten(self) -> list[tuple[PoppedQueue, Pop]]:
        """Return the pops that are in flight and have no checkpoint on the way."""
        return [
            (key, pop)
            for key, queue in self._queues.items()
            for pop in queue.pops.values()
            if not pop.is_settled and not pop.is_written
        ]

    def note_written(self, written: Iterable[tuple[PoppedQueue, Pop]]) -> None:
        """Note that pops have a checkpoint now, and commit what was popped.

        Whoever goes on with the folder gets it from the revive topic.

        Raises:
            DiskFull, DiskFailed: Some may get another one.
        """
        for key, pop in written:
            pop.is_written = True
            self._write(key, pop)
        for key, queue in self._queues.items():
            if (self._offsets.get(key.group, key.topic, key.queue_id) or 0) < queue.end:
                self._offsets.commit_aside(key.group, key.topic, key.queue_id, queue.end)

    def knows(self, key: PoppedQueue, of: PopId) -> bool:
        """Tell whether a pop is kept: it is in flight, or one before it is."""
        queue = self._queues.get(key)
        return queue is not None and of in queue.pops

    def is_open(self, key: PoppedQueue, of: PopId, offset: int) -> bool:
        """Tell whether a message of a pop is in flight."""
        queue = self._queues.get(key)
        pop = None if queue is None else queue.pops.get(of)
        return pop is not None and offset in pop.open_offsets

    def take_due(self, now_ms: int, count: int) -> list[tuple[PoppedQueue, Pop]]:
        """Return some pops whose messages may come again; each is given once in a process."""
        found: list[tuple[PoppedQueue, Pop]] = []
        while self._due and self._due[0][0] <= now_ms and len(found) < count:
            _, key, of = heapq.heappop(self._due)
            queue = self._queues.get(key)
            pop = None if queue is None else queue.pops.get(of)
            if pop is not None and not pop.is_settled:
                found.append((key, pop))
        return found

    def put_back(self, key: PoppedQueue, pop: Pop, due_at_ms: int) -> None:
        """Have a pop that was due looked at again, as something failed."""
        heapq.heappush(self._due, (due_at_ms, key, pop.id))

    def next_due_at_ms(self) -> int | None:
        """Return when the next pop is due that may not be settled; None without any."""
        return self._due[0][0] if self._due else None

    def forget(self, key: PoppedQueue) -> None:
        """Forget what is in flight of a queue: the group was sent elsewhere.

        Raises:
            DiskFull, DiskFailed: Some of it may come again after the next start.
        """
        queue = self._queues.get(key)
        for pop in () if queue is None else [*queue.pops.values()]:
            if not pop.is_settled:
                if pop.is_written:
                    self.note_late(key, pop, pop.open_offsets)
                pop.settled = (1 << len(pop.differences)) - 1
                self._write(key, pop)
        if self._queues.pop(key, None) is not None:
            self._write_row(key, _FORGOTTEN)

    def forget_all(self, *, topic: str = "", group: str = "") -> None:
        """Forget what is in flight of a topic or of a group, which was deleted; as `forget`."""
        for key in [key for key in self._queues if topic == key.topic or group == key.group]:
            self.forget(key)

    def queues(self) -> Iterator[PoppedQueue]:
        """Give the queues of which something is in flight."""
        yield from self._queues

    def rows(self) -> Iterator[tables.PoppedRows]:
        """Give what is in flight for who follows, queue by queue; it may change meanwhile."""
        for key in list(self._queues):
            queue = self._queues.get(key)
            if queue is not None:
                pops = [_members(pop, is_ack=False) for pop in queue.pops.values()]
                yield f"{key.topic}@{key.group}", key.queue_id, pops

    def follow(self, found: Iterable[tables.PoppedRows]) -> None:
        """Make this like the table of the master that is followed; what that lacks is settled.

        The log has all that the master's had when it said so. Nobody pops here: whoever does later
        opens the folder anew.

        Args:
            found: What its `rows` gave.

        Raises:
            WireError: They are not those of a table; nothing is changed.
            DiskFull, DiskFailed: Some may not be like there.
        """
        wanted = {
            _queue(name, queue_id): {pop.id: pop for pop in map(_pop_of, rows)}
            for name, queue_id, rows in found
            if rows
        }
        for key, queue in list(self._queues.items()):
            pops = wanted.get(key, {})
            gone = [pop for of, pop in queue.pops.items() if of not in pops]
            end = max((pop.end for pop in pops.values()), default=-1)
            if any(pop.end > end for pop in gone):  # else those before the others were settled
                self.forget(key)
                continue
            for pop in gone:
                pop.settled = (1 << len(pop.differences)) - 1
                self._write(key, pop)
                del queue.pops[pop.id]
        for key, pops in wanted.items():
            queue = self._queues.setdefault(key, _Queue())
            for of, pop in pops.items():
                if queue.pops.get(of) != pop:
                    self._write(key, pop)
                    queue.pops[of] = pop
                    queue.end = max(queue.end, pop.end)

    def _put(self, key: PoppedQueue, pop: Pop, due_at_ms: int | None = None) -> None:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        if queue.add(pop):
            heapq.heappush(self._due, (due_at_ms or pop.due_at_ms, key, pop.id))

    def _commit(self, key: PoppedQueue) -> None:
        """Commit how far a group is in a queue."""
        queue = self._queues[key]
        floor = queue.floor()
        offset = queue.end if floor is None else floor
        if floor is None:
            del self._queues[key]
        topic, group, queue_id = key
        if self._offsets.of(group, topic).get(queue_id, -1) < offset:
            self._offsets.commit_aside(group, topic, queue_id, offset)

    def _write(self, key: PoppedQueue, pop: Pop, *, is_ack: bool = False) -> None:
        self._write_row(key, _members(pop, is_ack=is_ack))

    def _write_row(self, key: PoppedQueue, row: _Row) -> None:
        self.table.count_change(1)
        self.table.journal.append(f"{key.topic}@{key.group}", key.queue_id, *row)
        self.table.journal.is_behind = True

    def _snapshot(self) -> Snapshot:
        old_ms = self._clock.now_ms() - LATE_KEEP_MS
        self._acks = {at: pop for at, pop in self._acks.items() if pop.due_at_ms > old_ms}
        return Snapshot(members={"epoch": self.epoch, "pops": self._entries()})

    def _entries(self) -> Iterator[str]:
        named: dict[str, dict[int, list[object]]] = {}
        for key, queue in list(self._queues.items()):
            rows: list[object] = [_row(key, pop) for pop in queue.pops.values()]
            named.setdefault(f"{key.topic}@{key.group}", {})[key.queue_id] = rows
        for (key, _), pop in self._acks.items():
            queues = named.setdefault(f"{key.topic}@{key.group}", {})
            queues.setdefault(key.queue_id, []).append(_row(key, pop, is_ack=True))
        for name, queues in named.items():
            yield fastjson.entry(name, queues)

    def _read(self, content: _File) -> None:
        self.epoch = content.get("epoch", 0)
        for name, queues in content.get("pops", {}).items():
            for queue_id, rows in queues.items():
                key = _queue(name, queue_id)
                for row in rows:
                    if row[-1] != _checksum(key, row[:-1]):
                        raise WireError(f"a pop of {name} does not fit its checksum")
                    self._take_row(key, row[:-1])

    def _take_row(self, key: PoppedQueue, row: _Row) -> None:
        """Take a row of the file, or what a line of the journal has of a pop. Raises WireError."""
        if row[0] < 0:
            self._queues.pop(key, None)
            self._void = {at: pop for at, pop in self._void.items() if at[0] != key}
            return
        pop, is_ack = _pop_of(row), row[-1]
        of = pop.id
        has_copies = pop.copied_to <= self._log_end
        if has_copies:
            pop.settled |= pop.copied
        pop.copied = pop.copied_to = 0
        if is_ack:
            self._acks[key, of] = pop
            return
        self._put(key, pop)
        if has_copies:
            self._void.pop((key, of), None)
        else:
            self._void[key, of] = pop


def _pop_of(row: _Row) -> Pop:
    """Return what a row says. Raises WireError."""
    start, popped_at_ms, invisible_ms, differences, settled, copied, copied_to, *rest = row
    if not 0 < len(differences) <= COUNT_MAX:
        raise WireError(f"a pop of {len(differences)} messages, expected 1 to {COUNT_MAX}")
    revive_queue, is_written, _ = rest
    of = PopId(start, popped_at_ms)
    return Pop(
        of, invisible_ms, differences, settled, revive_queue, bool(is_written), copied, copied_to
    )


def _row(key: PoppedQueue, pop: Pop, *, is_ack: bool = False) -> list[object]:
    members = _members(pop, is_ack=is_ack)
    return [*members, _checksum(key, members)]


def _checksum(key: PoppedQueue, members: _Row) -> int:
    """Return what a flipped bit of the file would not fit; lines of the journal have their own."""
    return crc31(msgspec.json.encode([*key, *members]))


def _members(pop: Pop, *, is_ack: bool) -> _Row:
    return (
        pop.id.start,
        pop.id.popped_at_ms,
        pop.invisible_ms,
        [*pop.differences],
        pop.settled,
        pop.copied,
        pop.copied_to,
        pop.revive_queue,
        pop.is_written,
        is_ack,
    )


def _queue(name: str, queue_id: int) -> PoppedQueue:
    topic, _, group = name.partition("@")
    return PoppedQueue(topic, group, queue_id)
