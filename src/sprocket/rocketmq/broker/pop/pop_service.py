"""Handling of a pop: the checks in RocketMQ's order, what each queue has, what is in flight then.

A group pops from a topic and from its own retry topics, where messages come that were not settled
in time. One pop in five looks at the retry topics first, so that neither can hold up the other.

Source: RocketMQ `PopMessageProcessor`.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from itertools import count
from typing import NamedTuple

from msgspec import Struct, structs

from sprocket.rocketmq.broker.delivery import PullService
from sprocket.rocketmq.broker.filters import FilterTurns
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Groups
from sprocket.rocketmq.broker.pop.in_flight import COUNT_MAX, InFlight, Pop, PopId, PoppedQueue
from sprocket.rocketmq.broker.pop.orders import Orders, PopAttempt
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.record_layout import PLACE
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.model.group import CLUSTERING, SQL92, TAG, Subscription
from sprocket.rocketmq.model.pop import (
    ORDERED_REVIVE_QUEUE,
    REVIVE_QUEUES,
    PopHandle,
    PopQuery,
    PopTopic,
    kind_of,
    retry_topic_v1,
    retry_topic_v2,
)
from sprocket.rocketmq.model.topic import READ, TopicConfig
from sprocket.rocketmq.settings import PullSettings
from sprocket.rocketmq.store.read import OffsetRange
from sprocket.rocketmq.store.store import Store

ALL_QUEUES = -1
RETRY_FIRST_PERCENT = 20
"""How many of a hundred look at the retry topics first, RocketMQ's `popFromRetryProbability`."""
LATE_MS_MAX = 500
"""A request that comes so long after its time is over is not served."""
FROM_LAST = 1
"""`PopQuery.init_mode` of a group that begins at the last message."""
ALL = "*"


class PopOutcome(Enum):
    """What a consumer is to do that has popped."""

    FOUND = auto()
    NOTHING = auto()
    """Wait for a message."""
    TOO_LATE = auto()
    """Its time is over."""


class PoppedPart(Struct, frozen=True):
    """What a pop got of one queue.

    Attributes:
        topic: Which topic of the group it is from.
        key: Which queue.
        start: Where it was read from; the first message is there, or behind what is not wanted.
        offsets: The queue offsets of the messages.
        runs: Their stored bytes, views of the log.
        bytes: How many.
        counts: If they are consumed in order: by queue offset how often messages came before, of
            those that did.
    """

    topic: PopTopic
    key: PoppedQueue
    start: int
    offsets: Sequence[int]
    runs: Sequence[memoryview]
    bytes: int
    counts: Mapping[int, int] | None = None


class Popped(Struct, frozen=True):
    """The outcome of a pop.

    Attributes:
        outcome: What came of it.
        parts: What it got of each queue.
        popped_at_ms: When.
        revive_queue: What handles name.
        rest: How many more messages the queues have that it looked at.
        wanted: Which messages it wants; None for all.
    """

    outcome: PopOutcome
    parts: Sequence[PoppedPart]
    popped_at_ms: int
    revive_queue: int
    rest: int
    wanted: MessageFilter | None


class Visibility(Struct, frozen=True):
    """What the handle of a message has that comes again at another time.

    Attributes:
        popped_at_ms: When it counts as popped, wall time.
        invisible_ms: For how long it is invisible from then on.
        revive_queue: That of the handle before.

    All are 0 for a message in order that is committed.
    """

    popped_at_ms: int = 0
    invisible_ms: int = 0
    revive_queue: int = 0


class _At(NamedTuple):
    """When something is popped, and which revive queue its handles name."""

    popped_at_ms: int
    revive_queue: int


class _Found(Struct, frozen=True):
    """What was read of one queue.

    Attributes:
        key: Which.
        part: The messages that the group gets; None without any.
        offsets: Their queue offsets, with those between them that are settled.
        start: Where it was read from.
        looked_to: Up to where; -1 if nothing was read.
        rest: How many messages are behind that.
    """

    key: PoppedQueue
    part: PoppedPart | None
    offsets: Sequence[int]
    start: int
    looked_to: int
    rest: int


class AckOutcome(Enum):
    """What came of an acknowledgement."""

    DONE = auto()
    FREE = auto()
    """In order; the next messages of the queue may be popped."""


@dataclass(slots=True, eq=False)
class PopService:
    """Gives messages to whoever pops, and takes acknowledgements.

    Threads: event loop only.
    """

    _store: Store
    _topics: Topics
    _groups: Groups
    _members: ClientManager
    _offsets: ConsumerOffsets
    _puller: PullService
    _turns: FilterTurns
    _in_flight: InFlight
    _orders: Orders
    _now_ms: Callable[[], int]
    """The log's time, which never goes back."""
    _settings: PullSettings
    _: KW_ONLY
    below: Callable[[int], int] = random.randrange
    """`below(n)` picks one of n."""
    _revive_queue: Iterator[int] = field(default_factory=count, init=False)
    _opened_at_ms: int = field(init=False)
    """Since when pops are made here; those before may be on the revive topic."""

    def __post_init__(self) -> None:
        self._opened_at_ms = self._now_ms()

    def pop(self, query: PopQuery, age_ms: int) -> Popped:
        """Check a pop and give what it asks for.

        Args:
            query: What is asked for.
            age_ms: For how long it has been on its way, or has waited, by the clock of the wall.

        Raises:
            Refused: A check failed.
            StoreError: The store could not be read, or it cannot be noted what was popped.
            TurnSpent: It filters by properties, and has to be tried again by `FilterTurns.later`.
        """
        now_ms = self._now_ms()
        if age_ms - query.poll_time > LATE_MS_MAX:
            return Popped(PopOutcome.TOO_LATE, (), now_ms, 0, 0, None)
        topic = self.check(query)
        wanted = self._wanted(query)
        if wanted is not None and wanted.cost:
            self._turns.check()
        found: list[_Found] = []
        left, rest = query.max_msg_nums, 0
        for kind, key in self._order(query, topic):
            one = self._read(kind, key, query, left, wanted)
            found.append(one)
            rest += one.rest
            left -= 0 if one.part is None else len(one.part.offsets)
        # Nothing has changed so far: what is read once more from the disk begins anew.
        got = [one for one in found if one.part is not None]
        now_ms = self._unused(now_ms, [(one.key, one.start) for one in got])
        queue = ORDERED_REVIVE_QUEUE if query.order else next(self._revive_queue) % REVIVE_QUEUES
        at = _At(now_ms, queue)
        parts = [self._noted(one.part, one, query, at) for one in got if one.part is not None]
        for one in found:
            self._begin(one)
            if one.looked_to >= 0:
                self._pass_over(one, is_ordered=bool(query.order))
        outcome = PopOutcome.FOUND if parts else PopOutcome.NOTHING
        return Popped(outcome, parts, now_ms, queue, rest, wanted)

    def _noted(self, part: PoppedPart, found: "_Found", query: PopQuery, at: "_At") -> PoppedPart:
        """Note that the messages of a part are popped."""
        if not query.order:
            of = PopId(part.start, at.popped_at_ms)
            self._in_flight.add(part.key, of, part.offsets, query.invisible_time, at.revive_queue)
            return part
        key, attempt = part.key, PopAttempt(query.attempt_id, query.invisible_time)
        pop = self._orders.add(key, found.offsets, at.popped_at_ms, attempt)
        if self._offsets.get(key.group, key.topic, key.queue_id) != found.start:
            self._offsets.commit_aside(key.group, key.topic, key.queue_id, found.start)
        return structs.replace(part, counts=pop.counts or {})

    def _begin(self, found: "_Found") -> None:
        """Commit where a group begins in a queue that is new to it."""
        group, topic, queue_id = found.key.group, found.key.topic, found.key.queue_id
        if self._offsets.get(group, topic, queue_id) is None:
            self._offsets.commit_aside(group, topic, queue_id, found.start)

    def _pass_over(self, found: "_Found", *, is_ordered: bool) -> None:
        """Have the next pop of a queue begin behind what the group does not want."""
        if not is_ordered:
            self._in_flight.pass_over(found.key, found.looked_to)
        elif found.part is None and found.looked_to > found.start:
            group, topic, queue_id = found.key.group, found.key.topic, found.key.queue_id
            self._offsets.commit_aside(group, topic, queue_id, found.looked_to)

    def acknowledge(self, key: PoppedQueue, handle: PopHandle, offset: int) -> AckOutcome:
        """Settle one message.

        One that is settled already, or is of a pop that nobody knows, is a success as well.

        Raises:
            Refused: It is consumed in order, and not a message of the last pop.
            DiskFull, DiskFailed: It may come again.
        """
        if handle.revive_queue == ORDERED_REVIVE_QUEUE:
            return self._acknowledge_ordered(key, handle, offset)
        of = PopId(handle.start, handle.popped_at_ms)
        if self._in_flight.knows(key, of):
            self._in_flight.settle(key, of, [offset])
        elif not self._in_flight.settle_offset(key, offset):
            self._note_late(key, handle, offset)
        return AckOutcome.DONE

    def _note_late(self, key: PoppedQueue, handle: PopHandle, offset: int) -> None:
        """Note an acknowledgement of a pop that may come yet on the revive topic."""
        if self._may_come(handle):
            of = PopId(handle.start, handle.popped_at_ms)
            queue = handle.revive_queue % REVIVE_QUEUES
            pop = Pop(of, handle.invisible_ms, (), revive_queue=queue)
            self._in_flight.note_late(key, pop, [offset])

    def _may_come(self, handle: PopHandle) -> bool:
        """Tell whether a pop that is not known may come on the revive topic."""
        due_at_ms = handle.popped_at_ms + handle.invisible_ms
        return handle.popped_at_ms <= self._opened_at_ms and self._now_ms() < due_at_ms

    def _acknowledge_ordered(self, key: PoppedQueue, handle: PopHandle, offset: int) -> AckOutcome:
        is_of_last = self._orders.acknowledge(key, handle.popped_at_ms, offset)
        if is_of_last and not self._orders.blocked_ms(key, PopAttempt(None, handle.invisible_ms)):
            return AckOutcome.FREE
        return AckOutcome.DONE

    def has_message(self, query: PopQuery) -> bool:
        """Tell whether a pop would look at a message now, whatever it wants. Raises Refused."""
        topic = self.check(query)
        return any(
            self._start(kind, key, query.init_mode) < self._store.queue_end(key.topic, key.queue_id)
            for kind, key in self._order(query, topic)
            if not self._is_blocked(key, query)
        )

    def peek(self, query: PopQuery) -> Popped:
        """Show what a pop would get; nothing changes, `rest` has what is shown. Raises as `pop`."""
        topic = self.check(query)
        now_ms = self._now_ms()
        parts: list[PoppedPart] = []
        left, rest = query.max_msg_nums, 0
        for kind, key in self._order(query, topic):
            found = self._read(kind, key, query, left, None)
            rest += max(0, self._store.queue_end(key.topic, key.queue_id) - found.start)
            if found.part is not None:
                parts.append(found.part)
                left -= len(found.part.offsets)
        outcome = PopOutcome.FOUND if parts else PopOutcome.NOTHING
        return Popped(outcome, parts, now_ms, 0, rest, None)

    def change_invisible(
        self, key: PoppedQueue, handle: PopHandle, offset: int, invisible_ms: int
    ) -> Visibility:
        """Have a message come again at another time, if it is not settled.

        Returns:
            What its handle has then.

        Raises:
            DiskFull, DiskFailed: It comes when it was to.
        """
        if handle.revive_queue == ORDERED_REVIVE_QUEUE:
            popped_at_ms = handle.popped_at_ms
            left_ms = self._orders.change_invisible(key, popped_at_ms, offset, invisible_ms)
            return (
                Visibility()
                if left_ms is None
                else Visibility(popped_at_ms, left_ms, handle.revive_queue)
            )
        now_ms = self._unused(self._now_ms(), [(key, offset)])
        old = PopId(handle.start, handle.popped_at_ms)
        is_here = self._in_flight.is_open(key, old, offset)
        if is_here or (not self._in_flight.knows(key, old) and self._may_come(handle)):
            queue = handle.revive_queue % REVIVE_QUEUES
            new = PopId(offset, now_ms)
            self._in_flight.add(key, new, [offset], invisible_ms, queue)
        if is_here:
            self._in_flight.settle(key, old, [offset])
        elif not self._in_flight.knows(key, old):
            self._note_late(key, handle, offset)
        return Visibility(now_ms, invisible_ms, handle.revive_queue)

    def range_of(self, key: PoppedQueue) -> OffsetRange:
        """Return which messages a queue has.

        Raises:
            Refused: There is no such topic or queue.
        """
        topic = self._topics.existing(key.topic, "topic[{}] not exist, apply first please!")
        if not 0 <= key.queue_id < topic.read_queues:
            raise Refused(
                Refusal.ILLEGAL_MESSAGE,
                f"queueId[{key.queue_id}] is illegal, topic {topic.name} has "
                f"{topic.read_queues} read queues",
            )
        return self._store.queue_range(key.topic, key.queue_id)

    def check(self, query: PopQuery) -> TopicConfig:
        """Return the topic of a pop that passes all checks. Raises Refused."""
        if not self._topics.is_readable:
            raise Refused(Refusal.NO_PERMISSION, "the broker is closed to pops at the moment")
        if query.max_msg_nums > COUNT_MAX:
            raise Refused(
                Refusal.INVALID_ARGUMENT,
                f"{query.max_msg_nums} messages are asked for, {COUNT_MAX} may be",
            )
        if query.max_msg_nums < 0:
            raise Refused(Refusal.OTHER, f"{query.max_msg_nums} messages are asked for")
        topic = self._topics.existing(query.topic, "topic[{}] not exist, apply first please!")
        if not topic.perm & READ:
            raise Refused(Refusal.NO_PERMISSION, f"topic [{topic.name}] may not be read")
        if query.queue_id >= topic.read_queues:
            raise Refused(
                Refusal.INVALID_ARGUMENT,
                f"queueId[{query.queue_id}] is illegal, topic {topic.name} has "
                f"{topic.read_queues} read queues",
            )
        group = self._groups.find(query.consumer_group)
        if not group.consume_enable:
            raise Refused(
                Refusal.NO_PERMISSION, f"group [{group.name}] may not consume at the moment"
            )
        return topic

    def _wanted(self, query: PopQuery) -> MessageFilter | None:
        """Return which messages a pop wants; the group has that subscription from now on."""
        text, kind = query.exp or ALL, query.exp_type or TAG
        if not (text.replace("||", "") if kind == TAG else kind == SQL92):
            raise Refused(Refusal.UNREADABLE_SUBSCRIPTION, "the subscription cannot be parsed")
        subscription = Subscription.parse(query.topic, text, type=kind)
        wanted = self._puller.filter_of(subscription)
        self._members.register_for_pull(query.consumer_group, subscription, CLUSTERING)
        return wanted

    def _order(self, query: PopQuery, topic: TopicConfig) -> Iterator[tuple[PopTopic, PoppedQueue]]:
        """Give the queues to look at, in the order in which that is done."""
        own = [
            (kind_of(topic.name), PoppedQueue(topic.name, query.consumer_group, queue_id))
            for queue_id in self._queue_ids(query, topic)
        ]
        retries = [*self._retries(query)]
        if query.order:
            yield from own
        elif self.below(100) < RETRY_FIRST_PERCENT:
            yield from retries
            yield from own
        else:
            yield from own
            yield from retries

    def _queue_ids(self, query: PopQuery, topic: TopicConfig) -> Sequence[int]:
        """Return the queues of the topic itself, from any on if all are meant."""
        if query.queue_id >= 0:
            return [query.queue_id]
        first = self.below(max(1, topic.read_queues))
        return [*range(first, topic.read_queues), *range(first)]

    def _retries(self, query: PopQuery) -> Iterator[tuple[PopTopic, PoppedQueue]]:
        for kind, name in retry_topics(query.topic, query.consumer_group):
            found = self._topics.get(name)
            for queue_id in range(0 if found is None else found.read_queues):
                yield kind, PoppedQueue(name, query.consumer_group, queue_id)

    def _read(
        self,
        kind: PopTopic,
        key: PoppedQueue,
        query: PopQuery,
        left: int,
        wanted: MessageFilter | None,
    ) -> _Found:
        """Return what a pop gets of a queue; nothing changes."""
        start = self._start(kind, key, query.init_mode)
        if self._is_blocked(key, query):
            return _Found(key, None, (), start, -1, 0)
        if left <= 0:
            rest = max(0, self._store.queue_end(key.topic, key.queue_id) - start)
            return _Found(key, None, (), start, -1, rest)
        settled = self._orders.settled(key) if query.order else ()
        position = start
        while True:
            result = self._store.get_messages(
                key.topic,
                key.queue_id,
                position,
                max_count=left,
                wanted=wanted if key.topic == query.topic else None,
                max_bytes=self._settings.bytes_max,
                reader=key,
            )
            if result.filter_cost:
                self._turns.charge(result.filter_cost)
            rest = max(0, result.max_offset - result.next_offset)
            if not result.count:
                return _Found(key, None, (), start, result.next_offset, rest)
            offsets = [PLACE.unpack_from(record)[3] for record in result.records]
            if not settled or any(offset not in settled for offset in offsets):
                break
            position = result.next_offset
        part = PoppedPart(kind, key, start, offsets, result.runs, result.bytes)
        if settled:
            part = _without(part, settled, result.records)
        return _Found(key, part, offsets, start, result.next_offset, rest)

    def _is_blocked(self, key: PoppedQueue, query: PopQuery) -> bool:
        """Tell whether what is consumed in order of a queue must be settled first."""
        if not query.order:
            return False
        attempt = PopAttempt(query.attempt_id, query.invisible_time)
        return self._orders.blocked_ms(key, attempt) > 0

    def _start(self, kind: PopTopic, key: PoppedQueue, init_mode: int) -> int:
        """Return where the next pop of a queue begins."""
        target = self._offsets.take_reset(key.group, key.topic, key.queue_id)
        if target is not None:
            self._in_flight.forget(key)
            self._orders.forget(key)
            return target
        known = self._offsets.get(key.group, key.topic, key.queue_id)
        behind = self._in_flight.next_offset(key)
        if behind is not None:
            return max(behind, known or 0)
        if known is not None:
            return known
        low, high = self._store.queue_range(key.topic, key.queue_id)
        if kind is not PopTopic.NORMAL or init_mode != FROM_LAST or high <= low:
            return low
        first = self._store.get_messages(key.topic, key.queue_id, low, max_count=1)
        return low if low == 0 and not first.suggest_slave else high - 1

    def _unused(self, now_ms: int, starts: Sequence[tuple[PoppedQueue, int]]) -> int:
        """Return a time, now or soon, at which no pop was that begins at one of these."""
        while any(self._is_used(key, start, now_ms) for key, start in starts):
            now_ms += 1
        return now_ms

    def _is_used(self, key: PoppedQueue, start: int, at_ms: int) -> bool:
        ordered = self._orders.get(key)
        if ordered is not None and ordered.popped_at_ms == at_ms:
            return True
        return self._in_flight.knows(key, PopId(start, at_ms))


def _without(
    part: PoppedPart, settled: Collection[int], records: Sequence[memoryview]
) -> PoppedPart:
    """Return a part without messages that are settled."""
    left = [one for one in zip(part.offsets, records, strict=True) if one[0] not in settled]
    runs = [record for _, record in left]
    size = sum(len(record) for record in runs)
    return structs.replace(part, offsets=[offset for offset, _ in left], runs=runs, bytes=size)


def retry_topics(topic: str, group: str) -> Sequence[tuple[PopTopic, str]]:
    """Return the topics from which a group gets messages of a topic again."""
    return [
        (PopTopic.RETRY_V1, retry_topic_v1(topic, group)),
        (PopTopic.RETRY_V2, retry_topic_v2(topic, group)),
    ]
