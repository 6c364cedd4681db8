"""What a channel has delivered and its client has not acknowledged."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sprocket.rabbitmq.broker.queues import BrokerQueue, QueueConsumer, QueueEntry
from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.errors import RequestRefused


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
        held = self._held
        for tag, one in enumerate(entries, first_tag):
            held[tag] = (consumed, one)

    def take(self, tag: int) -> Held:
        """Take one message. Raises RequestRefused: the client does not have it."""
        found = self._held.pop(tag, None)
        if found is None:
            raise _unknown(tag)
        return Held(tag, *found)

    def take_parts(self, count: int, tag: int = 0) -> Iterator[list[Held]]:
        """Take all up to a tag, in parts of up to `count` messages, in order.

        Each is taken when it is asked for. What is delivered meanwhile is not among them.

        Args:
            count: How many.
            tag: Of a message that the client has; 0 is all that it has now.

        Raises:
            RequestRefused: It does not have that message.
        """
        held = self._held
        if tag and tag not in held:
            raise _unknown(tag)
        last = tag or next(reversed(held), 0)
        # Either costs no more than what was delivered since the last time, or what is held.
        tags: Sequence[int] = range(self._first_tag, last + 1)
        if len(tags) > 2 * len(held):
            tags = [one for one in held if one <= last]
        for at in range(0, len(tags), count):
            some = tags[at : at + count]
            self._first_tag = some[-1] + 1
            yield [Held(one, *held.pop(one)) for one in some if one in held]

    def put_back(self, taken: Iterable[Held]) -> None:
        """Have the client hold again what was taken, with the tags of before."""
        self._held.update({one.tag: (one.consumed, one.entry) for one in taken})
        self._held = dict(sorted(self._held.items(), key=lambda item: item[0]))
        self._first_tag = next(iter(self._held), self._first_tag)


def _unknown(tag: int) -> RequestRefused:
    return RequestRefused(ReplyCode.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
