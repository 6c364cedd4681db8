"""The blocking lite consumer does what the awaited one does."""

import contextlib
from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client import ClientSettings
from sprocket.rocketmq.client.blocking import LitePullConsumer, Producer
from sprocket.rocketmq.model.message import Message


def fill(world: Any, names: str, count: int) -> None:
    """Put messages 0 to count − 1 into the one queue of topic `t`."""
    world.cluster.topics["t"] = 1
    with Producer(names) as sender:
        for number in range(count):
            sender.send(Message("t", b"%d" % number))


def test_it_polls_and_goes_where_it_is_told(world: Any, names: str) -> None:
    """Every method reaches the loop and comes back with its result."""
    fill(world, names, 10)
    queue = world.queue(0)
    settings = ClientSettings(route_refresh_ms=10_000)
    with LitePullConsumer(
        names, group="g", start="first", auto_commit=False, client=settings
    ) as consumer:
        assert consumer.topic_queues("t") == [queue]
        consumer.assign([queue])
        assert [one.body for one in consumer.poll()] == [b"%d" % number for number in range(10)]
        assert consumer.position(queue) == 10
        consumer.seek(queue, 8)
        consumer.pause(queue)
        assert consumer.poll(10) == []
        consumer.resume(queue)
        bodies = []
        for message in consumer:
            bodies.append(message.body)
            if len(bodies) == 2:
                break
        assert bodies == [b"8", b"9"]
        consumer.commit()
        consumer.seek_to_begin(queue)
        assert consumer.committed(queue) == 10
        assert len(consumer.poll()) == 10
        consumer.seek_to_end()
        assert consumer.queues == [queue]
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 10)
        assert consumer.offset_by_time(queue, 0) == 0
        assert consumer.watch_topic("t", lambda _: None) == [queue]
    assert world.cluster.committed == {("g", "t", 0): 10}


def test_it_subscribes_and_commits_what_is_done(world: Any, names: str) -> None:
    """At the close, unless an error ends it."""
    fill(world, names, 3)
    with (
        contextlib.suppress(ValueError),
        LitePullConsumer(names, group="g", start="first") as consumer,
    ):
        consumer.subscribe("t")
        assert len(consumer.poll()) == 3
        raise ValueError("no")
    assert world.cluster.committed["g", "t", 0] == 0
    with LitePullConsumer(names, group="g", start="first") as consumer:
        consumer.subscribe("t")
        assert len(consumer.poll()) == 3
        consumer.unsubscribe("t")
        consumer.subscribe("t")
        assert len(consumer.poll()) == 3
    assert world.cluster.committed["g", "t", 0] == 3


def test_its_close_may_leave_undone_what_was_given_last(world: Any, names: str) -> None:
    """As at the end of a block that an error ends."""
    fill(world, names, 3)
    for is_done, committed in ((False, 0), (True, 3)):
        consumer = LitePullConsumer(names, group="g", start="first")
        consumer.start()
        consumer.subscribe("t")
        assert len(consumer.poll()) == 3
        consumer.close(is_done=is_done)
        assert world.cluster.committed["g", "t", 0] == committed


def test_it_subscribes_before_it_is_open(world: Any, names: str) -> None:
    """What was subscribed to is read from the start on, and nothing that was taken back."""
    fill(world, names, 3)
    consumer = LitePullConsumer(names, group="g", start="first")
    with pytest.raises(InvalidMessage):
        consumer.subscribe("t", " || ")
    consumer.subscribe("t")
    consumer.subscribe("other")
    consumer.unsubscribe("other")
    assert consumer.queues == []
    with consumer:
        assert len(consumer.poll()) == 3
        assert consumer.queues == [world.queue(0)]
    assert consumer.queues == []
