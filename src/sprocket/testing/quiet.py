"""When a broker in the test process is quiet: nothing more will happen by itself.

It is quiet when all sends are answered, queues and index have what the log has, no delay is due,
the disk thread has nothing to do, and every consumer that is there has done with all that its group
is subscribed to. Consumers live in the machine's time, in this process or another; each is asked,
with RocketMQ's GET_CONSUMER_RUNNING_INFO, what it still holds, so it works for any client but SDKs
of RocketMQ 5: those have done with what they were given. What waits for its delay is quiet.

Not waited for: messages that a producer of this process has not sent yet, and what an application
polls by itself (`LitePullConsumer`, a puller).
"""

import asyncio
from collections.abc import Iterable

from sprocket.base.clock import SystemClock
from sprocket.base.errors import WireError
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.broker.groups import ConnectedGroup
from sprocket.rocketmq.broker.pop import PoppedQueue
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import RunningInfo
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import GetConsumerRunningInfo
from sprocket.rocketmq.model.group import BROADCASTING, CONSUME_PASSIVELY
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.server.client_links import CalledClient
from sprocket.runtime.driver import Peer

LOOK_SECONDS = 0.005
"""Between two looks; a look costs about a millisecond for each consumer."""

_ANSWER_SECONDS = 5.0


class NotQuiet(AssertionError):
    """Something was still going on when the time was over; the text says what."""


async def settle(node: Node, seconds: float) -> None:
    """Wait until a broker is quiet, for this many seconds of the machine's time at most.

    Raises:
        NotQuiet: Something was still going on then.

    Threads: the broker's event loop only.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    quiet_at = -1
    while True:
        end = node.broker.store.end
        why = _busy(node) or await _consuming(node)
        if not why and quiet_at == end == node.broker.store.end:
            return
        quiet_at = -1 if why else end
        if why and clock.monotonic() > deadline:
            raise NotQuiet(f"not quiet after {seconds:g} s: {why}")
        await asyncio.sleep(LOOK_SECONDS if why else 0)


def _busy(node: Node) -> str:
    """Say what the broker is doing, nothing if it is not."""
    broker = node.broker
    store = broker.store
    if broker.commits.waiting_count:
        return f"{broker.commits.waiting_count} sends wait for their answer"
    if store.dispatched < store.end:
        return f"{store.end - store.dispatched} bytes of the log are not in their queues yet"
    if broker.thread.waiting_count:
        return f"the disk thread has {broker.thread.waiting_count} jobs to do"
    due_ms = broker.next_due_ms()
    if due_ms is not None and due_ms <= 0:
        return "a delayed message is due"
    return ""


async def _consuming(node: Node) -> str:
    """Say what consumers have not done with, nothing if they have done with everything."""
    for name in node.broker.members.consumer_groups():
        group = node.broker.members.consumers(name)
        if group is None or not group.clients or group.consume_type != CONSUME_PASSIVELY:
            continue
        waiting = [
            MessageQueue(topic, node.broker_name, number)
            for topic in group.subscriptions
            for number in _queues_with_messages(node, topic)
        ]
        if waiting and (why := await _behind(node, group, waiting)):
            return f"group {name}: {why}"
    return ""


def _not_given(node: Node, group: ConnectedGroup, waiting: Iterable[MessageQueue]) -> str:
    """Say which queue has messages that no SDK was given yet: none can be asked what it holds."""
    for queue in waiting:
        end = node.broker.store.queue_range(queue.topic, queue.queue_id).max
        key = PoppedQueue(queue.topic, group.name, queue.queue_id)
        given = node.broker.in_flight.next_offset(key)
        if given is None:
            given = node.broker.offsets.get(key.group, key.topic, key.queue_id) or 0
        if given < end:
            return f"{queue} has messages that nobody was given yet"
    return ""


async def _behind(node: Node, group: ConnectedGroup, waiting: Iterable[MessageQueue]) -> str:
    """Say which queue of a group has messages that its members have not done with."""
    if any(isinstance(link, CalledClient) for link in group.clients):
        return _not_given(node, group, waiting)
    told = [
        await _ask(node, group.name, peer, client.client_id)
        for peer, client in list(group.clients.items())
        if isinstance(peer, Peer)
    ]
    needs_all = group.message_model == BROADCASTING
    for queue in waiting:
        end = node.broker.store.queue_range(queue.topic, queue.queue_id).max
        done = [_is_done(one, queue, end) for one in told]
        if not (all(done) if needs_all else any(done)):
            return f"{queue} has messages that are not consumed yet"
    return ""


def _is_done(info: RunningInfo | None, queue: MessageQueue, end: int) -> bool:
    held = None if info is None else info.queues.get(queue)
    return held is not None and not held.cached_count and held.commit_offset >= end


def _queues_with_messages(node: Node, topic: str) -> Iterable[int]:
    config = node.broker.topics.get(topic)
    for number in range(0 if config is None else config.read_queues):
        first, end = node.broker.store.queue_range(topic, number)
        if first < end:
            yield number


async def _ask(node: Node, group: str, peer: Peer, client_id: str) -> RunningInfo | None:
    """Return what a consumer holds, None if it does not say."""
    ended: asyncio.Future[Command | None] = asyncio.get_running_loop().create_future()
    header = GetConsumerRunningInfo(consumer_group=group, client_id=client_id, jstack_enable=False)
    node.channels.call(
        peer,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        header,
        b"",
        _ANSWER_SECONDS,
        lambda answer, _: ended.set_result(answer),
    )
    answer = await ended
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return None
    try:
        return bodies.decode(RunningInfo, answer.body)
    except WireError:
        return None
