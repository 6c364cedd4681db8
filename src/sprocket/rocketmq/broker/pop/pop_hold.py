"""Pops that found nothing wait here until something arrives or their time is over.

One that waits is woken by a message in its queue, or in any queue of its topic if it wants all, or
in one of the group's retry topics, which have those messages that come again.

Source: RocketMQ `PopLongPollingService`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias, TypeVar

from sprocket.rocketmq.broker.groups import Link
from sprocket.rocketmq.broker.pop.pop_service import ALL_QUEUES, retry_topics
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.store.reput import Arrival
from sprocket.runtime.timers import Timer, Timers

K = TypeVar("K")

_Place: TypeAlias = tuple[str, str, int, bool]

QUEUE_COUNT_MAX = 1_024
"""Pops of one group that wait for one queue, or for all; RocketMQ's `popPollingSize`."""
COUNT_MAX = 100_000
"""Pops that wait; RocketMQ's `maxPopPollingSize`."""


@dataclass(slots=True, eq=False)
class HeldPop:
    """One pop that waits.

    Attributes:
        owner: The connection; `PopHold.drop(owner)` ends what it has here.
        topic: What it pops.
        group: Who.
        queue_id: Its queue; -1 for all.
        wanted: Which messages it wants; None for all.
        resume: Runs the pop again; called once. It is told whether its time is over.
        is_sign: Whether it only asks for a sign that something is there, and pops nothing.
    """

    owner: Link
    topic: str
    group: str
    queue_id: int
    wanted: MessageFilter | None
    resume: Callable[[bool], None]
    is_sign: bool = False

    @property
    def topics(self) -> Sequence[str]:
        """The topics whose messages wake it."""
        return [self.topic, *(name for _, name in retry_topics(self.topic, self.group))]

    @property
    def place(self) -> "_Place":
        """What has a limit of its own."""
        return self.topic, self.group, self.queue_id, self.is_sign


@dataclass(slots=True, eq=False)
class PopHold:
    """Every pop that waits.

    Threads: event loop only.
    """

    _timers: Timers
    _held: dict[HeldPop, Timer] = field(default_factory=dict, init=False)
    _by_topic: dict[tuple[str, bool], dict[HeldPop, None]] = field(default_factory=dict, init=False)
    """By the topic that wakes them; those that ask for a sign by themselves."""
    _by_owner: dict[Link, dict[HeldPop, None]] = field(default_factory=dict, init=False)
    _by_place: dict["_Place", dict[HeldPop, None]] = field(default_factory=dict, init=False)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._held)

    def count_of(self, topic: str, group: str, queue_id: int) -> int:
        """Return how many pops of a group wait for a queue, or for all with -1."""
        return len(self._by_place.get((topic, group, queue_id, False), ()))

    def hold(self, held: HeldPop, seconds: float) -> bool:
        """Let one pop wait for so long; False, and nothing is kept, if too many do already."""
        waiting = self._by_place.get(held.place, ())
        if self.count >= COUNT_MAX or len(waiting) >= QUEUE_COUNT_MAX:
            return False
        self._held[held] = self._timers.call_later(seconds, lambda: self._end(held, is_over=True))
        self._by_place.setdefault(held.place, {})[held] = None
        for topic in held.topics:
            self._by_topic.setdefault((topic, held.is_sign), {})[held] = None
        self._by_owner.setdefault(held.owner, {})[held] = None
        return True

    def arrived(self, arrival: Arrival) -> None:
        """Wake those who wait for what has come into a queue.

        Of a group no more pops than there are messages, but all that ask for a sign.
        """
        for held in [*self._by_topic.get((arrival.topic, True), ())]:
            if _is_for(held, arrival):
                self._end(held, is_over=False)
        waiting = self._by_topic.get((arrival.topic, False))
        if not waiting:
            return
        woken: Counter[str] = Counter()
        for held in [*waiting]:
            if woken[held.group] < len(arrival.tags_codes) and _is_for(held, arrival):
                woken[held.group] += 1
                self._end(held, is_over=False)

    def wake_topic(self, topic: str) -> None:
        """Wake those who wait for a topic: it was deleted, or a group is to go elsewhere."""
        for place in ((topic, False), (topic, True)):
            for held in [*self._by_topic.get(place, ())]:
                self._end(held, is_over=False)

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Wake a pop of a group that waits for a queue, and one that waits for all of the topic."""
        for place in product((topic,), (group,), (queue_id, ALL_QUEUES), (False, True)):
            for held in [*self._by_place.get(place, ())][:1]:
                self._end(held, is_over=False)

    def drop(self, owner: Link) -> None:
        """Forget the pops of a connection that closed."""
        for held in [*self._by_owner.get(owner, ())]:
            self._remove(held)

    def end_all(self) -> None:
        """End all that wait: the broker stops."""
        for held in [*self._held]:
            self._end(held, is_over=True)

    def _end(self, held: HeldPop, *, is_over: bool) -> None:
        self._remove(held)
        held.resume(is_over)

    def _remove(self, held: HeldPop) -> None:
        self._held.pop(held).cancel()
        for topic in held.topics:
            _discard(self._by_topic, (topic, held.is_sign), held)
        _discard(self._by_owner, held.owner, held)
        _discard(self._by_place, held.place, held)


def _is_for(held: HeldPop, arrival: Arrival) -> bool:
    """Tell whether one that waits may want what has come."""
    if arrival.topic != held.topic:
        return True  # it comes again, whatever its queue and tag
    if held.queue_id not in (ALL_QUEUES, arrival.queue_id):
        return False
    return held.wanted is None or held.wanted.by_hashes(arrival.tags_codes)


def _discard(table: dict[K, dict[HeldPop, None]], key: K, held: HeldPop) -> None:
    waiting = table[key]
    del waiting[held]
    if not waiting:
        del table[key]
