"""The lanes of one topic: which message goes into which."""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from sprocket.base.errors import ClientError, InvalidMessage
from sprocket.rocketmq.client.producer.broker_faults import BrokerFaults
from sprocket.rocketmq.client.producer.dialing import Dialer
from sprocket.rocketmq.client.producer.outgoing import Outgoing
from sprocket.rocketmq.client.producer.send_lanes import FreeLane, OrderedLane
from sprocket.rocketmq.client.producer.send_request import SendRequests
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
            raise InvalidMessage(f"the selector gave {queue!r}, which is none of the queues it got")
        return queue


Place = str | MessageQueue | Selection
"""How the queue of a message is decided: by its key, by name, or by the sender's function."""


def queue_at(place: Place, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the queue that a message goes to. Raises InvalidMessage if its selector fails."""
    if isinstance(place, str):
        return queue_of_key(place, queues)
    return place.choose(queues) if isinstance(place, Selection) else place


class TopicLanes:
    """Takes the messages of one topic, with or without a key, and gives each its lane.

    Which queue a key belongs to depends on how many queues there are. When that changes, keyed
    messages are held until all earlier ones are answered; then the new queues count. Without
    that, two messages of one key could lie in two queues and be read in the wrong order.

    Args:
        first: Index of the queue that the free lane begins with.
        post: Writes requests.
        dialer: Knows connections.
        faults: Says which brokers to avoid with messages that may go anywhere.
    """

    def __init__(
        self, first: int, post: SendRequests, dialer: Dialer, faults: BrokerFaults | None = None
    ) -> None:
        self._post = post
        self._dialer = dialer
        self._free = FreeLane((), first, post, dialer, faults)
        self._lanes: dict[MessageQueue, OrderedLane] = {}
        self._queues: Sequence[MessageQueue] = ()
        self._next_queues: Sequence[MessageQueue] | None = None
        self._held: deque[tuple[Outgoing, Place]] = deque()
        self._unrouted: deque[Outgoing] = deque()

    @property
    def is_routed(self) -> bool:
        """Whether there is a queue to send to."""
        return bool(self._queues)

    @property
    def has_unrouted(self) -> bool:
        """Whether messages wait for a first route."""
        return bool(self._unrouted or self._held)

    @property
    def free(self) -> FreeLane:
        """The lane for messages that may go anywhere."""
        return self._free

    def routed(self, queues: Sequence[MessageQueue]) -> None:
        """Take the queues of a new route; without any, the old ones stay."""
        if not queues:
            return
        self._free.queues = queues
        if list(queues) == list(self._queues):
            self._next_queues = None
            self._release()
        elif self._is_quiet():
            self._adopt(queues)
        else:
            self._next_queues = queues
        unrouted, self._unrouted = self._unrouted, deque()
        for one in unrouted:
            self._free.put(one)

    def put(self, one: Outgoing, place: Place | None) -> None:
        """Take a message.

        Args:
            one: Ready to send.
            place: How its queue is decided; None for any queue.
        """
        if place is None:
            if self._queues:
                self._free.put(one)
            else:
                self._unrouted.append(one)
        elif not self._queues or self._next_queues is not None or self._held:
            self._held.append((one, place))
        else:
            self._put_ordered(one, place)

    def expire(self) -> None:
        """End the messages here whose deadline has passed."""
        self._free.expire()
        for lane in list(self._lanes.values()):
            lane.expire()
        self._unrouted = deque(self._post.unexpired(self._unrouted))
        if self._held:
            alive = set(map(id, self._post.unexpired([one for one, _ in self._held])))
            self._held = deque(pair for pair in self._held if id(pair[0]) in alive)

    def abandon(self, error: ClientError) -> None:
        """End every message here that is not on the wire."""
        self._free.abandon(error)
        for lane in self._lanes.values():
            lane.abandon(error)
        for one in [*self._unrouted, *[one for one, _ in self._held]]:
            self._post.fail(one, error)
        self._unrouted.clear()
        self._held.clear()

    def note_error(self, error: ClientError) -> None:
        """Note why the messages that have no queue yet cannot go."""
        for one in [*self._unrouted, *[one for one, _ in self._held]]:
            one.error = str(error)

    def _put_ordered(self, one: Outgoing, place: Place) -> None:
        try:
            lane = self._lane(place)
        except ClientError as error:
            self._post.fail(one, error)
        else:
            lane.put(one)

    def _lane(self, place: Place) -> OrderedLane:
        queue = queue_at(place, self._queues)
        lane = self._lanes.get(queue)
        if lane is None:
            lane = OrderedLane(queue, self._post, self._dialer, self._emptied)
            self._lanes[queue] = lane
        return lane

    def _is_quiet(self) -> bool:
        return all(lane.is_empty for lane in self._lanes.values())

    def _emptied(self) -> None:
        if self._next_queues is not None and self._is_quiet():
            self._adopt(self._next_queues)

    def _adopt(self, queues: Sequence[MessageQueue]) -> None:
        self._queues = queues
        self._next_queues = None
        self._lanes = {}
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, deque()
        for one, place in held:
            self._put_ordered(one, place)
