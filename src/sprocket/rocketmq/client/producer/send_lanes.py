"""Where messages wait, and what keeps their order.

Theory of operation
-------------------
Every message that a producer accepts is an `Outgoing` in exactly one *lane* until its sender has
the outcome:

* The **free lane** of a topic takes messages without a key. Each goes to the next queue at once,
  thousands are on the wire together, and one that failed goes out again while others pass it.
* An **ordered lane** belongs to one queue and takes the messages whose key, or whose sender, chose
  that queue. It has one request on the wire at a time; what comes meanwhile goes on together, as
  one batch. So nothing can overtake: neither at the broker (RocketMQ serves the requests of one
  connection with several threads) nor after a failure, because what failed goes out again before
  anything else of that queue.

A lane without a connection *stalls*: it leaves its `pump` with the dialer, which calls it when the
broker can be reached. A request without an answer may have been carried out; it is sent again with
the same unique keys. So a message is stored at least once, and of two messages of one ordered lane
the first record of the earlier one comes before the first record of the later one.

A message ends with an answer that stores it, with a refusal that repeating cannot change, or at its
deadline: while its request is sent by the request's deadline, in a lane by `expire`. After a
message that was given up the later ones continue without it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.producer.broker_faults import BrokerFaults
from sprocket.rocketmq.client.producer.dialing import Dialer
from sprocket.rocketmq.client.producer.outgoing import BATCH_MESSAGES_MAX, Outgoing
from sprocket.rocketmq.client.producer.place import queue_at
from sprocket.rocketmq.client.producer.send_request import SendRequests
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.remoting import Channel


class OrderedLane:
    """The messages for one queue, in their order; tells `emptied` when the last one has ended."""

    def __init__(
        self, queue: MessageQueue, post: SendRequests, dialer: Dialer, emptied: Callable[[], None]
    ) -> None:
        self.queue = queue
        self._post = post
        self._dialer = dialer
        self._emptied = emptied
        self._waiting: deque[Outgoing] = deque()
        self._flying: list[Outgoing] = []
        self._is_due = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_empty(self) -> bool:
        """Whether every message it was given has ended."""
        return not self._waiting and not self._flying

    def put(self, one: Outgoing) -> None:
        """Take a message after the others."""
        self._waiting.append(one)
        if not self._flying and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pump_due)

    def pump(self) -> None:
        """Send the next request, if none is on the wire and there is something to send."""
        if self._flying or self._is_due or not self._waiting:
            return
        channel = self._dialer.channel(self.queue.broker_name)
        if channel is None:
            self._dialer.stall(self.queue.broker_name, self.pump)
            return
        self._flying = self._take()
        self._post.send(channel, self.queue, self._flying, self._answered)

    def _pump_due(self) -> None:
        self._is_due = False
        self.pump()

    def _take(self) -> list[Outgoing]:
        """Remove what goes into the next request."""
        waiting = self._waiting
        taken = [waiting.popleft()]
        if taken[0].is_alone:
            return taken
        left = self._post.settings.batch_bytes_max - taken[0].wire_size
        while waiting and not waiting[0].is_alone and len(taken) < BATCH_MESSAGES_MAX:
            left -= waiting[0].wire_size
            if left < 0:
                break
            taken.append(waiting.popleft())
        return taken

    def _answered(
        self, sent: list[Outgoing], command: Command | None, error: ClientError | None
    ) -> None:
        self._flying = []
        again = self._post.complete(self.queue, sent, command, error)
        if command is not None and self._post.is_stored(command):
            self._dialer.trust(self.queue.broker_name)
        elif again.messages:
            self._dialer.doubt(self.queue.broker_name, is_silent=command is None)
        if again.messages:
            self._waiting.extendleft(reversed(again.messages))
        if not self._waiting:
            self._emptied()
        elif again.pause_s:
            self._is_due = True
            self._loop.call_later(again.pause_s, self._pump_due)
        else:
            self.pump()

    def expire(self) -> None:
        """End the waiting messages whose deadline has passed."""
        if self._waiting:
            error = self._dialer.error(self.queue.broker_name)
            if error is not None:
                self._waiting[0].error = str(error)
            self._waiting = deque(self._post.unexpired(self._waiting))
            if self.is_empty:
                self._emptied()

    def abandon(self, error: ClientError) -> None:
        """End every message that is not on the wire."""
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            self._post.fail(one, error)


class FreeLane:
    """The messages of one topic that may go to any of its queues, in any order.

    Its `queues`, at least one when it is given a message, may be replaced; `first` is the index of
    the one to begin with. Without `faults`, only the broker that failed last is avoided.
    """

    def __init__(
        self,
        queues: Sequence[MessageQueue],
        first: int,
        post: SendRequests,
        dialer: Dialer,
        faults: BrokerFaults | None = None,
    ) -> None:
        self.queues = queues
        self._next = first
        self._post = post
        self._dialer = dialer
        self._faults = faults
        self._waiting: deque[Outgoing] = deque()
        self._again: list[Outgoing] = []
        self._again_timer: asyncio.Handle | None = None
        self._on_answer = self._answered  # one bound method for all, not one for each message
        self._loop = asyncio.get_running_loop()

    def put(self, one: Outgoing) -> None:
        """Take a message, and send it at once if a broker can be reached."""
        self._waiting.append(one)
        self.pump()

    def pump(self) -> None:
        """Send what waits."""
        waiting = self._waiting
        while waiting:
            queue, channel = self._choose(waiting[0].last_broker)
            if channel is None:
                for name in {queue.broker_name for queue in self.queues}:
                    self._dialer.stall(name, self.pump)
                return
            self._post.send(channel, queue, [waiting.popleft()], self._on_answer)

    def _answered(
        self, sent: list[Outgoing], command: Command | None, error: ClientError | None
    ) -> None:
        queue = sent[0].queue
        assert queue is not None, "an answer to what was sent"
        is_stored = command is not None and self._post.is_stored(command)
        if self._faults is not None:
            is_probed = self._post.settings.probe_brokers  # then what cannot be reached is asked
            self._faults.note(
                queue.broker_name,
                self._post.clock.monotonic() - sent[0].sent_at,
                is_failed=not is_stored,
                is_reachable=is_stored or (error is not None and not is_probed),
            )
        again = self._post.complete(queue, sent, command, error, is_ordered=False)
        if is_stored:
            self._dialer.trust(queue.broker_name)
        elif again.messages:
            self._dialer.doubt(queue.broker_name, is_silent=command is None)
        if again.messages:
            self._again += again.messages
            if self._again_timer is None:
                self._again_timer = (
                    self._loop.call_later(again.pause_s, self._pump_again)
                    if again.pause_s
                    else self._loop.call_soon(self._pump_again)
                )

    def _choose(self, failed_broker: str) -> tuple[MessageQueue, Channel | None]:
        """Return the next queue in turn that can be reached, best on another broker."""
        queues = self.queues
        count = len(queues)
        best: tuple[MessageQueue, Channel] | None = None
        best_rank = 0
        for _ in range(count):
            self._next = (self._next + 1) % count
            queue = queues[self._next]
            name = queue.broker_name
            channel = self._dialer.channel(name)
            if channel is None:
                self._dialer.dial(name)
                continue
            rank = 3 if name != failed_broker else 1
            if self._faults is not None and rank == 3 and not self._faults.is_available(name):
                rank = 2 if self._faults.is_reachable(name) else 1
            if rank == 3:
                return queue, channel
            if rank > best_rank:
                best, best_rank = (queue, channel), rank
        return best or (queues[self._next % count], None)

    def _pump_again(self) -> None:
        self._again_timer = None
        again, self._again = self._again, []
        self._waiting.extendleft(reversed(again))
        self.pump()

    def expire(self) -> None:
        """End the waiting messages whose deadline has passed."""
        if self._waiting:
            for name in {queue.broker_name for queue in self.queues}:
                if (error := self._dialer.error(name)) is not None:
                    self._waiting[0].error = str(error)
            self._waiting = deque(self._post.unexpired(self._waiting))

    def abandon(self, error: ClientError) -> None:
        """End every message that is not on the wire."""
        waiting, self._waiting = [*self._again, *self._waiting], deque()
        self._again = []
        for one in waiting:
            self._post.fail(one, error)


class TopicLanes:
    """Takes the messages of one topic, with or without a key, and gives each its lane.

    Which queue a key belongs to depends on how many queues there are. When that changes, keyed
    messages are held until all earlier ones are answered; then the new queues count. Without
    that, two messages of one key could lie in two queues and be read in the wrong order.
    """

    def __init__(
        self, first: int, post: SendRequests, dialer: Dialer, faults: BrokerFaults | None
    ) -> None:
        self._post = post
        self._dialer = dialer
        self._free = FreeLane((), first, post, dialer, faults)
        self._lanes: dict[MessageQueue, OrderedLane] = {}
        self._queues: Sequence[MessageQueue] = ()
        self._next_queues: Sequence[MessageQueue] | None = None
        self._held: deque[Outgoing] = deque()
        """Wait for the first route, or, with a key, until the new queues count."""

    @property
    def is_routed(self) -> bool:
        """Whether there is a queue to send to."""
        return bool(self._queues)

    @property
    def is_waited_for(self) -> bool:
        """Whether messages wait for a route."""
        return bool(self._held)

    def routed(self, queues: Sequence[MessageQueue]) -> None:
        """Take the queues of a new route; without any, the old ones stay."""
        if not queues:
            return
        self._free.queues = queues
        if list(queues) == list(self._queues):
            self._next_queues = None
            self._release()
        elif self._is_idle():
            self._adopt(queues)
        else:
            self._next_queues = queues

    def put(self, one: Outgoing) -> None:
        """Take a message."""
        is_in_order = one.place is None or (self._next_queues is None and not self._held)
        if self._queues and is_in_order:
            self._pass_on(one)
        else:
            self._held.append(one)

    def expire(self) -> None:
        """End the messages here whose deadline has passed."""
        self._free.expire()
        for lane in list(self._lanes.values()):
            lane.expire()
        if self._held:
            self._held = deque(self._post.unexpired(self._held))

    def abandon(self, error: ClientError) -> None:
        """End every message here that is not on the wire."""
        self._free.abandon(error)
        for lane in self._lanes.values():
            lane.abandon(error)
        for one in self._held:
            self._post.fail(one, error)
        self._held.clear()

    def note_error(self, error: ClientError) -> None:
        """Note why the messages that have no queue yet cannot go."""
        for one in self._held:
            one.error = str(error)

    def _pass_on(self, one: Outgoing) -> None:
        """Give a message to its lane."""
        if one.place is None:
            self._free.put(one)
            return
        try:
            queue = queue_at(one.place, self._queues)
        except ClientError as error:
            self._post.fail(one, error)
            return
        lane = self._lanes.get(queue)
        if lane is None:
            lane = OrderedLane(queue, self._post, self._dialer, self._emptied)
            self._lanes[queue] = lane
        lane.put(one)

    def _is_idle(self) -> bool:
        return all(lane.is_empty for lane in self._lanes.values())

    def _emptied(self) -> None:
        if self._next_queues is not None and self._is_idle():
            self._adopt(self._next_queues)

    def _adopt(self, queues: Sequence[MessageQueue]) -> None:
        self._queues = queues
        self._next_queues = None
        self._lanes = {}
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, deque()
        for one in held:
            self._pass_on(one)
