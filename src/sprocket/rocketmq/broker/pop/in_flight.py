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

Invariants

1. All that lies before what is committed is settled.
2. No message of a queue is in two pops that are not settled.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypedDict

import msgspec
from msgspec import Struct

from sprocket.base.checksum import crc31
from sprocket.base.errors import WireError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot

COUNT_MAX = 32
"""Messages of one pop, RocketMQ's limit."""


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
    """

    id: PopId
    invisible_ms: int
    differences: Sequence[int]
    settled: int = 0

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


class _File(TypedDict, total=False):
    dataVersion: object
    pops: dict[str, dict[int, list[tuple[int, int, int, list[int], int, int]]]]
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

    Threads: event loop only.
    """

    def __init__(self, place: Place, offsets: ConsumerOffsets) -> None:
        self._offsets = offsets
        self._queues: dict[PoppedQueue, _Queue] = {}
        self._due: list[tuple[int, PoppedQueue, PopId]] = []
        self.table = ConfigTable(config_table.POPS, place, self._snapshot)
        lines = self.table.load(_File, self._read)
        for _, name, queue_id, start, popped_at_ms, invisible_ms, differences, settled in lines:
            row = start, popped_at_ms, invisible_ms, differences, settled
            self._put(_queue(name, queue_id), _pop(row))
        for key in list(self._queues):
            self._commit(key)
        if self.table.is_void:
            self.table.journal.is_behind = True

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
        start: int,
        offsets: Sequence[int],
        popped_at_ms: int,
        invisible_ms: int,
    ) -> Pop:
        """Note that messages were popped.

        Args:
            key: Whose and of which queue.
            start: Where the queue was read from; all before the first of them is not wanted.
            offsets: Their queue offsets, rising; `COUNT_MAX` at most.
            popped_at_ms: When, wall time. Two pops that begin at the same offset are told apart
                by it: another pop of the same offset must be later.
            invisible_ms: For how long nobody else gets them.

        Raises:
            DiskFull, DiskFailed: Nothing is noted.
        """
        assert len(offsets) <= COUNT_MAX, "more than a pop may have"
        pop = Pop(PopId(start, popped_at_ms), invisible_ms, [offset - start for offset in offsets])
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
            self._write(key, pop)
            if pop.is_settled:
                self._commit(key)
        return found

    def settle_offset(self, key: PoppedQueue, offset: int) -> None:
        """Settle a message, whichever pop has it now: that of its handle is not known any more.

        Raises:
            DiskFull, DiskFailed: It may come again.
        """
        queue = self._queues.get(key)
        for pop in () if queue is None else queue.pops.values():
            if offset in pop.open_offsets:
                self.settle(key, pop.id, [offset])
                return

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
                pop.settled = (1 << len(pop.differences)) - 1
                self._write(key, pop)
        self._queues.pop(key, None)

    def forget_all(self, *, topic: str = "", group: str = "") -> None:
        """Forget what is in flight of a topic or of a group, which was deleted; as `forget`."""
        for key in [key for key in self._queues if topic == key.topic or group == key.group]:
            self.forget(key)

    def queues(self) -> Iterator[PoppedQueue]:
        """Give the queues of which something is in flight."""
        yield from self._queues

    def _put(self, key: PoppedQueue, pop: Pop) -> None:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        if queue.add(pop):
            heapq.heappush(self._due, (pop.due_at_ms, key, pop.id))

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

    def _write(self, key: PoppedQueue, pop: Pop) -> None:
        self.table.count_change(1)
        self.table.journal.append(
            f"{key.topic}@{key.group}",
            key.queue_id,
            pop.id.start,
            pop.id.popped_at_ms,
            pop.invisible_ms,
            pop.differences,
            pop.settled,
        )
        self.table.journal.is_behind = True

    def _snapshot(self) -> Snapshot:
        return Snapshot(members={"pops": self._entries()})

    def _entries(self) -> Iterator[str]:
        named: dict[str, list[PoppedQueue]] = {}
        for key in list(self._queues):
            named.setdefault(f"{key.topic}@{key.group}", []).append(key)
        for name, keys in named.items():
            queues = {
                key.queue_id: [_row(key, pop) for pop in self._queues[key].pops.values()]
                for key in keys
                if key in self._queues
            }
            yield fastjson.entry(name, queues)

    def _read(self, content: _File) -> None:
        for name, queues in content.get("pops", {}).items():
            for queue_id, rows in queues.items():
                key = _queue(name, queue_id)
                for start, popped_at_ms, invisible_ms, differences, settled, checksum in rows:
                    pop = _pop((start, popped_at_ms, invisible_ms, differences, settled))
                    if checksum != _checksum(key, pop):
                        raise WireError(f"a pop of {name} does not fit its checksum")
                    self._put(key, pop)


_Row = tuple[int, int, int, Sequence[int], int]


def _row(key: PoppedQueue, pop: Pop) -> list[object]:
    return [*_members(pop), _checksum(key, pop)]


def _checksum(key: PoppedQueue, pop: Pop) -> int:
    """Return what a flipped bit of the file would not fit; lines of the journal have their own."""
    return crc31(msgspec.json.encode([*key, *_members(pop)]))


def _members(pop: Pop) -> list[object]:
    return [
        pop.id.start,
        pop.id.popped_at_ms,
        pop.invisible_ms,
        [*pop.differences],
        pop.settled,
    ]


def _pop(row: _Row) -> Pop:
    """Return the pop that a row of the file or a line of the journal is. Raises WireError."""
    start, popped_at_ms, invisible_ms, differences, settled = row
    if not 0 < len(differences) <= COUNT_MAX:
        raise WireError(f"a pop of {len(differences)} messages, expected 1 to {COUNT_MAX}")
    return Pop(PopId(start, popped_at_ms), invisible_ms, differences, settled)


def _queue(name: str, queue_id: int) -> PoppedQueue:
    topic, _, group = name.partition("@")
    return PoppedQueue(topic, group, queue_id)
