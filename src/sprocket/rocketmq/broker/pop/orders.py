"""What groups have of queues that they consume in order: the next messages come when it is settled.

An *ordered pop* gets messages of a queue when all that the pop before got are acknowledged, or when
the time of those that are not is over. Then the same come again, from the first that is not
acknowledged on; nothing of it goes through a retry topic. Whoever asks with the same attempt gets
the same messages at once: the answer was lost on its way.

Two files hold it, both in `config/`:

* `consumerOrderInfo.json`, RocketMQ's own, replaced as a whole every few seconds and at stop;
* `sprocket.orders`, a journal of what came since: a line says all that a group has of a queue.

What was acknowledged is committed as soon as nothing before it is open. A process that dies, by
`kill -9` too, leaves its lines to the system; whoever promises more waits for this journal and that
of the offsets.

Invariants

1. Of a queue a group has one ordered pop, the last; all before its first message is settled.
2. What is acknowledged is committed before it is noted here, so that a crash between the two loses
   no message and gives none again that was acknowledged.

Source: RocketMQ `ConsumerOrderInfoManager`. Unlike it, what was acknowledged behind a message that
was not does not come again with that one; and an acknowledgement of a pop that is not known commits
nothing.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict

from msgspec import structs

from sprocket.base.clock import LogClock
from sprocket.base.errors import WireError
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.pop.in_flight import PoppedQueue
from sprocket.rocketmq.codec.config import declared, fastjson, tables
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot

KEEP_MS = 24 * 3_600_000
"""For how long the last pop of a queue is kept that nothing follows; RocketMQ's time."""
BITS_MAX = 63
"""Messages of an ordered pop: those acknowledged are the bits of a Java long. A pop has 32."""


class PopAttempt(NamedTuple):
    """An attempt to pop in order.

    Attributes:
        id: Names it, so that the same one gets the same messages again; None for one without.
        invisible_ms: For how long nobody else gets what it gets.
    """

    id: str | None
    invisible_ms: int


class _File(TypedDict, total=False):
    dataVersion: object
    table: dict[str, dict[int, tables.OrderedPop]]
    sprocketSequence: int | None


class Orders:
    """See the head of the module.

    Args:
        place: Where the store lies.
        offsets: What groups have committed; told how far they are.
        clock: That by which messages are popped: a wall clock that is set changes no wait.

    Attributes:
        table: File, journal and version.

    Threads: event loop only.
    """

    def __init__(self, place: Place, offsets: ConsumerOffsets, clock: LogClock) -> None:
        self._offsets = offsets
        self._clock = clock
        self._pops: dict[PoppedQueue, tables.OrderedPop] = {}
        self._ends: list[tuple[int, PoppedQueue]] = []
        """A heap of when queues may be popped from again, and of some times that count no more."""
        self._end_of: dict[PoppedQueue, int] = {}
        """The entry of `_ends` that counts, by queue."""
        self.table = ConfigTable(config_table.ORDERS, place, self._snapshot)
        for _, name, queue_id, pop in self.table.load(_File, self._read):
            if pop is None:
                self._pops.pop(_queue(name, queue_id), None)
            else:
                self._pops[_queue(name, queue_id)] = _checked(pop, name)
        for key in self._pops:
            self._expect_end(key)
        if self.table.is_void:
            self.table.journal.is_behind = True

    def __len__(self) -> int:
        """Return of how many queues something is kept."""
        return len(self._pops)

    def get(self, key: PoppedQueue) -> tables.OrderedPop | None:
        """Return the last ordered pop of a queue; None if none is known."""
        return self._pops.get(key)

    def blocked_ms(self, key: PoppedQueue, attempt: PopAttempt) -> int:
        """Return for how long an attempt gets nothing of a queue; 0 if it does now."""
        pop = self._pops.get(key)
        if pop is None or (pop.attempt_id is not None and pop.attempt_id == attempt.id):
            return 0
        if (pop.invisible_ms or 0) <= 0:
            pop = self._pops[key] = structs.replace(pop, invisible_ms=attempt.invisible_ms)
        return self._left_ms(pop)

    def settled(self, key: PoppedQueue) -> Collection[int]:
        """Return the queue offsets that are acknowledged behind one that is not."""
        pop = self._pops.get(key)
        if pop is None:
            return ()
        known = (*pop.settled_offsets, *(pop.settled_behind or ()))
        return {offset for offset in known if offset >= pop.next_offset}

    def add(
        self, key: PoppedQueue, offsets: Sequence[int], popped_at_ms: int, attempt: PopAttempt
    ) -> tables.OrderedPop:
        """Note that messages were popped, in place of what was kept of the queue.

        Args:
            key: Whose and of which queue.
            offsets: Their queue offsets, rising, with those among them that are `settled`.
            popped_at_ms: When, wall time; not that of the pop before.
            attempt: By whom.

        Raises:
            DiskFull, DiskFailed: Nothing is noted.
        """
        assert len(offsets) <= BITS_MAX, "more than a pop may have"
        settled = self.settled(key)
        old = self._pops.get(key)
        pop = tables.OrderedPop(
            attempt_id=attempt.id,
            settled=sum(1 << number for number, one in enumerate(offsets) if one in settled),
            invisible_ms=attempt.invisible_ms,
            popped_last_at_ms=popped_at_ms,
            differences=[offsets[0], *(one - offsets[0] for one in offsets[1:])],
            counts=None if old is None else _counts(old, attempt.id, offsets),
            popped_at_ms=popped_at_ms,
            settled_behind=sorted(one for one in settled if one > offsets[-1]) or None,
        )
        self._put(key, pop)
        return pop

    def acknowledge(self, key: PoppedQueue, popped_at_ms: int, offset: int) -> bool:
        """Settle a message; one of an earlier pop is not meant any more, and nothing happens.

        Returns:
            Whether the message was of the last pop.

        Raises:
            Refused: The last pop has no such message.
            DiskFull, DiskFailed: It may come again.
        """
        pop = self._pops.get(key)
        committed = self._offsets.get(key.group, key.topic, key.queue_id) or 0
        if pop is None or pop.popped_at_ms != popped_at_ms or offset < committed:
            return False
        if offset not in pop.offsets:
            raise Refused(
                Refusal.ILLEGAL_MESSAGE,
                f"offset {offset} is not of the last ordered pop of queue {key.queue_id} of topic "
                f"{key.topic}",
            )
        new = structs.replace(pop, settled=pop.settled | 1 << pop.offsets.index(offset))
        if new.next_offset > committed:
            self._offsets.commit(key.group, key.topic, key.queue_id, new.next_offset)
        self._put(key, new)
        return True

    def change_invisible(
        self, key: PoppedQueue, popped_at_ms: int, offset: int, invisible_ms: int
    ) -> int | None:
        """Have a message come again at another time.

        Returns:
            For how long it is invisible, counted from the time of its pop; None for one that is
            committed.

        Raises:
            DiskFull, DiskFailed: It comes when it was to.
        """
        if offset < (self._offsets.get(key.group, key.topic, key.queue_id) or 0):
            return None
        at_ms = max(0, self._clock.elapsed_ms(popped_at_ms)) + invisible_ms
        pop = self._pops.get(key)
        if pop is not None and pop.popped_at_ms == popped_at_ms:
            visible = {**(pop.visible_at_ms or {}), offset: popped_at_ms + at_ms}
            self._put(key, structs.replace(pop, visible_at_ms=visible))
        return at_ms

    def take_free(self, count: int) -> list[PoppedQueue]:
        """Return some queues whose messages come again now; each is given once for each time."""
        found: list[PoppedQueue] = []
        now_ms = self._clock.furthest_ms()
        while self._ends and self._ends[0][0] <= now_ms and len(found) < count:
            at_ms, key = heapq.heappop(self._ends)
            if self._end_of.get(key) != at_ms:
                continue
            del self._end_of[key]
            pop = self._pops.get(key)
            if pop is None or pop.is_settled:
                continue
            left_ms = self._left_ms(pop)
            if left_ms > 0:
                self._expect(key, now_ms + left_ms)
            else:
                found.append(key)
        return found

    def next_free_at_ms(self) -> int | None:
        """Return when messages of a queue come again that may not be settled; None without any."""
        return self._ends[0][0] if self._ends else None

    def forget(self, key: PoppedQueue) -> None:
        """Forget what a group has of a queue: it was sent elsewhere.

        Raises:
            DiskFull, DiskFailed: The queue may be closed for a while after the next start.
        """
        if key in self._pops:
            self.table.count_change(1)
            self.table.journal.append(f"{key.topic}@{key.group}", key.queue_id, None)
            self.table.journal.is_behind = True
            del self._pops[key]

    def forget_all(self, *, topic: str = "", group: str = "") -> None:
        """Forget all of a topic or of a group, which was deleted; as `forget`."""
        for key in [key for key in self._pops if topic == key.topic or group == key.group]:
            self.forget(key)

    def rows(self) -> Iterator[tables.OrderedRow]:
        """Give what groups have, for who follows, queue by queue; it may change meanwhile."""
        for key in list(self._pops):
            pop = self._pops.get(key)
            if pop is not None:
                yield f"{key.topic}@{key.group}", key.queue_id, pop

    def follow(self, found: Iterable[tables.OrderedRow]) -> None:
        """Make this like the table of the master that is followed.

        Args:
            found: What its `rows` gave.

        Raises:
            WireError: They are not those of a table; nothing is changed.
            DiskFull, DiskFailed: Some may not be like there.
        """
        wanted = {_queue(name, queue_id): _checked(pop, name) for name, queue_id, pop in found}
        for key in [key for key in self._pops if key not in wanted]:
            self.forget(key)
        for key, pop in wanted.items():
            if self._pops.get(key) != pop:
                self._put(key, pop)

    def _put(self, key: PoppedQueue, pop: tables.OrderedPop) -> None:
        self.table.count_change(1)
        self.table.journal.append(f"{key.topic}@{key.group}", key.queue_id, pop)
        self.table.journal.is_behind = True
        self._pops[key] = pop
        self._expect_end(key)

    def _left_ms(self, pop: tables.OrderedPop) -> int:
        """Return for how long something of a pop is invisible that is not settled."""
        if pop.is_settled:
            return 0
        visible, plain = pop.visible_at_ms or {}, pop.popped_at_ms + (pop.invisible_ms or 0)
        last = max(visible.get(offset, plain) for offset in pop.open_offsets)
        return max(0, last - pop.popped_at_ms - self._clock.elapsed_ms(pop.popped_at_ms))

    def _expect_end(self, key: PoppedQueue) -> None:
        """Have a queue looked at when all that is open of it comes again."""
        pop = self._pops[key]
        if not pop.is_settled:
            self._expect(key, self._clock.furthest_ms() + self._left_ms(pop))

    def _expect(self, key: PoppedQueue, at_ms: int) -> None:
        if at_ms < self._end_of.get(key, at_ms + 1):
            self._end_of[key] = at_ms
            heapq.heappush(self._ends, (at_ms, key))

    def _snapshot(self) -> Snapshot:
        now_ms = self._clock.now_ms()
        old = [
            key
            for key, pop in self._pops.items()
            if pop.is_settled and now_ms - pop.popped_last_at_ms > KEEP_MS
        ]
        for key in old:
            del self._pops[key]
        return Snapshot(members={"table": self._entries()})

    def _entries(self) -> Iterator[str]:
        named: dict[str, list[PoppedQueue]] = {}
        for key in list(self._pops):
            named.setdefault(f"{key.topic}@{key.group}", []).append(key)
        for name, keys in named.items():
            queues = {
                key.queue_id: declared.plain(self._pops[key]) for key in keys if key in self._pops
            }
            yield fastjson.entry(name, queues)

    def _read(self, content: _File) -> None:
        for name, queues in content.get("table", {}).items():
            for queue_id, pop in queues.items():
                if pop.differences:
                    self._pops[_queue(name, queue_id)] = _checked(pop, name)


def _counts(
    old: tables.OrderedPop, attempt_id: str | None, offsets: Iterable[int]
) -> Mapping[int, int]:
    """Return how often messages came before, by queue offset, of those that did."""
    before = old.counts or {}
    if old.attempt_id is not None and old.attempt_id == attempt_id:
        return before
    known = set(old.offsets)
    return {offset: before.get(offset, 0) + 1 for offset in offsets if offset in known}


def _checked(pop: tables.OrderedPop, name: str) -> tables.OrderedPop:
    if not 0 < len(pop.differences) <= BITS_MAX:
        raise WireError(
            f"an ordered pop of {name} has {len(pop.differences)} messages, "
            f"expected 1 to {BITS_MAX}"
        )
    return pop


def _queue(name: str, queue_id: int) -> PoppedQueue:
    topic, _, group = name.partition("@")
    return PoppedQueue(topic, group, queue_id)
