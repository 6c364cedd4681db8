"""The blocking puller has every method of the awaited one."""

from concurrent.futures import CancelledError
from typing import Any

import pytest

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.client import QueueSlice, SliceAnswer
from sprocket.rocketmq.client.blocking import Producer, Puller
from sprocket.rocketmq.client.network import PullStatus
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.model.message import Message


def test_every_method_has_its_twin(world: Any, names: str) -> None:
    """What the awaited puller says, the blocking one does."""
    world.cluster.topics["t"] = 1
    queue = world.queue(0)
    with Producer(names) as sender:
        sender.send(Message("t", b"x"))
    with Puller(names) as reading:
        assert reading.queues("t") == [queue]
        assert (reading.min_offset(queue), reading.max_offset(queue)) == (0, 1)
        assert reading.offset_by_time(queue, 0) == 0
        assert reading.topics() == ["t"]
        assert reading.min_offsets([queue]) == {queue: 0}
        assert reading.max_offsets([queue]) == {queue: 1}
        assert reading.offsets_by_time({queue: 0}) == {queue: 0}
        reading.commit(queue, 1)
        pulled = reading.pull(queue, 0)
        assert (pulled.status, pulled.next_offset) == (PullStatus.FOUND, 1)
        assert reading.pull_each({queue: 0}) == {queue: pulled}
        one = QueueSlice(queue, 0, 1)
        assert reading.pull_slices([one], bytes_max=1) == [SliceAnswer(one, pulled)]
        assert reading.pull_slices_soon([one], bytes_max=1).result() == [SliceAnswer(one, pulled)]


def test_what_is_begun_ends_with_the_client(world: Any, names: str) -> None:
    """Nobody waits for an answer that cannot come any more."""
    world.cluster.topics["t"] = 1
    world.cluster.on[RequestCode.PULL_MESSAGE] = lambda *_: None
    with Puller(names) as reading:
        begun = reading.pull_slices_soon([QueueSlice(world.queue(0), 0, 1)], bytes_max=1)
    with pytest.raises((NotConnected, CancelledError)):
        begun.result()
