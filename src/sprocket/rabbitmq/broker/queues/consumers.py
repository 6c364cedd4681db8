"""The consumers of a queue, and whose turn it is."""

from bisect import insort
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from sprocket.rabbitmq.broker.queues.levels import QueueEntry
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable


class Receiver(Protocol):
    """What messages are given to: a channel."""

    def room(self, *, no_ack: bool) -> int:
        """Return how many messages it takes at the moment, for one of its consumers."""

    def deliver(self, consumer: "QueueConsumer", entries: Sequence[QueueEntry]) -> None:
        """Take messages; some may have been delivered before, as they say."""

    def cancelled(self, consumer: "QueueConsumer") -> None:
        """Note that the queue of a consumer is gone."""


class QueueConsumer:
    """A consumer of a queue.

    Args:
        tag: What its client calls it.
        receiver: Its channel.
        no_ack: Whether what it was given counts as acknowledged.
        is_exclusive: Whether it wants to be alone.
        prefetch: How many messages it may have unacknowledged; 0 is any number.
        priority: Those with a higher one are served first.
        arguments: As its client has given them.
    """

    __slots__ = (
        "arguments",
        "is_exclusive",
        "is_waiting",
        "no_ack",
        "prefetch",
        "priority",
        "receiver",
        "tag",
        "unacked_count",
    )

    def __init__(
        self,
        tag: str,
        receiver: Receiver,
        *,
        no_ack: bool = False,
        is_exclusive: bool = False,
        prefetch: int = 0,
        priority: int = 0,
        arguments: FieldTable = NO_FIELDS,
    ) -> None:
        self.arguments = arguments
        self.tag = tag
        self.receiver = receiver
        self.no_ack = no_ack
        self.is_exclusive = is_exclusive
        self.prefetch = prefetch
        self.priority = priority
        self.unacked_count = 0
        self.is_waiting = False
        """Whether it is out of the round until it has room again."""

    def room(self) -> int:
        """Return how many messages it takes at the moment."""
        room = self.receiver.room(no_ack=self.no_ack)
        if self.prefetch and not self.no_ack:
            return min(room, self.prefetch - self.unacked_count)
        return room


class _Class:
    """The consumers of one priority."""

    __slots__ = ("count", "priority", "round")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.count = 0
        self.round: deque[QueueConsumer] = deque()
        """Those that are in the round: they had room when they were last looked at."""


class Consumers:
    """The consumers of a queue; the higher priorities first, in one priority by turns.

    Args:
        is_single_active: Whether one of them gets everything, until it is gone.
    """

    __slots__ = (
        "_all",
        "_classes",
        "_exclusive_count",
        "_is_single_active",
        "_turn",
        "single_active",
    )

    def __init__(self, *, is_single_active: bool) -> None:
        self.single_active: QueueConsumer | None = None
        """The consumer that gets everything, if only one at a time may."""
        self._is_single_active = is_single_active
        self._all: dict[QueueConsumer, None] = {}
        self._exclusive_count = 0
        self._classes: list[_Class] = []
        self._turn: deque[QueueConsumer] | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def all(self) -> list[QueueConsumer]:
        """All of them, in the order in which they came."""
        return list(self._all)

    @property
    def has_exclusive(self) -> bool:
        """Whether one of them wants to be alone."""
        return self._exclusive_count > 0

    def add(self, consumer: QueueConsumer) -> None:
        """Put one at the end of its priority."""
        self._all[consumer] = None
        self._exclusive_count += consumer.is_exclusive
        if not self._is_single_active:
            self._join(consumer)
        elif self.single_active is None:
            self.single_active = consumer
            self._join(consumer)

    def remove(self, consumer: QueueConsumer) -> None:
        """Take one out; where one is active at a time, the next in line is, then."""
        del self._all[consumer]
        self._exclusive_count -= consumer.is_exclusive
        if self._is_single_active and consumer is not self.single_active:
            return
        self._leave(consumer)
        if consumer is self.single_active:
            # Of equal ones max gives the first.
            self.single_active = max(self._all, key=lambda one: one.priority, default=None)
            if self.single_active is not None:
                self._join(self.single_active)

    def wake(self, consumer: QueueConsumer) -> bool:
        """Take one into the round again if it has room; say whether that is so."""
        if not consumer.is_waiting or consumer.room() <= 0:
            return False
        consumer.is_waiting = False
        self._class_of(consumer).round.append(consumer)
        return True

    def next(self, count: int) -> list[QueueConsumer]:
        """Return who is served next, `count` at most; nobody if none has room.

        They are of one priority, and have had their turn then; see `skip`.
        """
        for one in reversed(self._classes):
            turn, found = one.round, []
            for _ in range(len(turn)):
                consumer = turn.popleft()
                if consumer.room() <= 0:
                    consumer.is_waiting = True
                    continue
                turn.append(consumer)
                found.append(consumer)
                if len(found) == count:
                    break
            if found:
                self._turn = turn
                return found
        return []

    def skip(self, count: int) -> None:
        """Note that the last `count` of those that `next` gave were not served in their turn."""
        assert self._turn is not None, "nobody had a turn"
        self._turn.rotate(count)

    def _class_of(self, consumer: QueueConsumer) -> _Class:
        for one in self._classes:
            if one.priority == consumer.priority:
                return one
        new = _Class(consumer.priority)
        insort(self._classes, new, key=lambda one: one.priority)
        return new

    def _join(self, consumer: QueueConsumer) -> None:
        its = self._class_of(consumer)
        its.count += 1
        its.round.append(consumer)

    def _leave(self, consumer: QueueConsumer) -> None:
        its = self._class_of(consumer)
        its.count -= 1
        if not consumer.is_waiting:
            its.round.remove(consumer)
        consumer.is_waiting = False
        if not its.count:
            self._classes.remove(its)
