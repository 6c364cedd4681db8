"""What a channel has delivered and its client has not acknowledged."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from sprocket.base.errors import RequestRefused
from sprocket.rabbitmq.broker.queues import BrokerQueue, QueueConsumer, QueueEntry
from sprocket.rabbitmq.codec.amqp import ReplyCode


class ConsumedQueue(NamedTuple):
    """A consumer and its queue; a get is one, too, for the one message that it got."""

    queue: BrokerQueue
    consumer: QueueConsumer


class Held(NamedTuple):
    """A message that a client has."""

    tag: int
    consumed: ConsumedQueue
    entry: QueueEntry


class UnackedDeliveries:
    """Messages by delivery tag, in the order of the tags."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ConsumedQueue, QueueEntry]] = {}
        self._first_tag = 1
        """None has a smaller one."""
        self._limited_count = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def first_tag(self) -> int | None:
        """The tag of what the client has had for the longest time; None if it has nothing."""
        return next(iter(self._held), None)

    def add(self, first_tag: int, consumed: ConsumedQueue, entries: Sequence[QueueEntry]) -> None:
        """Note that messages were delivered with the tags from `first_tag` on."""
        if not self._held:
            self._first_tag = first_tag
        if len(entries) == 1:
            self._held[first_tag] = (consumed, entries[0])
        else:
            self._held.update(enumerate([(consumed, one) for one in entries], first_tag))

    def take(self, tag: int, *, is_multiple: bool) -> list[Held]:
        """Take what a client means by a tag, in the order of the tags.

        Args:
            tag: Of one message that it has; 0 with `is_multiple` is all.
            is_multiple: Whether it means all up to that tag.

        Raises:
            RequestRefused: It does not have that message.
        """
        held = self._held
        if not is_multiple:
            found = held.pop(tag, None)
            if found is None:
                raise _unknown(tag)
            return [Held(tag, *found)]
        if tag == 0:
            return self.take_all()
        if tag not in held:
            raise _unknown(tag)
        first = self._first_tag
        # Either costs no more than what was delivered since the last time, or what is held.
        tags: Iterable[int] = range(first, tag + 1)
        if tag - first > 2 * len(held):
            tags = [one for one in held if one <= tag]
        taken = [Held(one, *held.pop(one)) for one in tags if one in held]
        self._first_tag = tag + 1
        return taken

    def take_each(self, tags: Sequence[int]) -> tuple[list[Held], RequestRefused | None]:
        """Take single messages; with the first one that is not there it ends, and says so."""
        pop = self._held.pop
        taken: list[Held] = []
        for tag in tags:
            found = pop(tag, None)
            if found is None:
                return taken, _unknown(tag)
            taken.append(Held(tag, *found))
        return taken, None

    def take_all(self) -> list[Held]:
        """Take everything, in the order of the tags."""
        taken = [Held(tag, *found) for tag, found in self._held.items()]
        self._held.clear()
        return taken

    def take_parts(self, count: int) -> Iterator[list[Held]]:
        """Take everything, and give it in parts of up to `count` messages, in order."""
        taken, self._held = self._held, {}
        left = iter(taken.items())
        while part := [Held(tag, *found) for tag, found in islice(left, count)]:
            yield part

    def put_back(self, taken: Iterable[Held]) -> None:
        """Have the client hold again what was taken, with the tags of before."""
        self._held.update({one.tag: (one.consumed, one.entry) for one in taken})
        self._held = dict(sorted(self._held.items(), key=lambda item: item[0]))
        self._first_tag = next(iter(self._held), self._first_tag)


def _unknown(tag: int) -> RequestRefused:
    return RequestRefused(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
