"""How the queue of a message is decided: by a key, by name, by its sender's function, or not."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.producer.validation import check_place
from sprocket.rocketmq.model.hashes import cached_hash32
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue


def queue_of_key(key: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the queue for a sharding key: Java's hash of it, modulo the queues.

    Source: `SelectMessageQueueByHash`, whose remainder keeps the sign and is then made positive.
    """
    value = cached_hash32(key)
    count = len(queues)
    return queues[value % count if value >= 0 else -value % count]


Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""A user's own choice: gets all queues of the topic, in their order, and returns one of them."""


class Selection(Struct, frozen=True):
    """A message whose queue its sender's function is to choose."""

    selector: Selector
    message: Message

    def choose(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        """Return what the function says.

        Raises:
            InvalidMessage: It raised, or gave something else than one of the queues.
        """
        try:
            queue = self.selector(queues, self.message)
        except BaseException as error:  # it is the user's, and may raise anything
            raise InvalidMessage(f"the selector failed with {error!r}") from error
        if queue not in queues:
            raise InvalidMessage(f"the selector gave {queue!r}, not one of the queues it got")
        return queue


Place = str | MessageQueue | Selection
"""How the queue of a message is decided: by its key, by name, or by the sender's function."""


def queue_at(place: Place, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the queue that a message goes to. Raises InvalidMessage if its selector fails."""
    if isinstance(place, str):
        return queue_of_key(place, queues)
    return place.choose(queues) if isinstance(place, Selection) else place


def place_of(
    message: Message,
    sharding_key: str | None,
    queue: MessageQueue | None,
    selector: Selector | None,
) -> Place | None:
    """Return how the queue of a message is decided, None for any queue.

    Raises:
        InvalidMessage: As `check_place`; or the queue belongs to another topic.
    """
    check_place(sharding_key, queue, selector)
    if selector is not None:
        return Selection(selector, message)
    if queue is not None and queue.topic != message.topic:
        raise InvalidMessage(f"queue {queue} is not one of topic {message.topic}")
    return sharding_key if queue is None else queue
