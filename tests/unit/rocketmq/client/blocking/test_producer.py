"""The blocking producer does what the awaited one does, from any thread."""

import contextlib
import threading
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import InvalidMessage, NotConnected
from sprocket.rocketmq.client import PackedBatch, ProducerSettings
from sprocket.rocketmq.client.blocking import Producer
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.record.batch import join
from sprocket.rocketmq.model.message import Message


def test_sends_of_every_kind(world: Any, names: str) -> None:
    """One by one, soon, as a batch, one-way; errors are raised where they belong."""
    world.cluster.topics["t"] = 1
    with Producer(names, settings=ProducerSettings(unanswered_messages_max=4)) as sender:
        assert sender.send(Message("t", b"0"), sharding_key="k").queue_offset == 0
        futures = [sender.send_soon(Message("t", b"%d" % n), sharding_key="k") for n in range(20)]
        assert [one.result(LONG_SECONDS).queue_offset for one in futures] == list(range(1, 21))
        batch = sender.send_batch([Message("t", b"a"), Message("t", b"b")], sharding_key="k")
        assert [one.queue_offset for one in batch] == [21, 22]
        body = join([(0, b"c", b"UNIQ_KEY\x01K\x02")])
        packed = [
            sender.send_packed(PackedBatch("t", body, "K"), queue=batch[0].queue) for _ in range(9)
        ]
        assert [one.result(LONG_SECONDS)[0].queue_offset for one in packed] == list(range(23, 32))
        assert sender.queues("t") == [batch[0].queue]
        sender.send_oneway(Message("t", b"last"))
        with pytest.raises(InvalidMessage):
            sender.send(Message("t", b""))
        with pytest.raises(InvalidMessage):
            sender.send_soon(Message("", b"x"))
        sender.flush()


def test_it_says_how_much_is_unanswered(world: Any, names: str) -> None:
    """Open or not; and `drain` waits until there is room."""
    world.cluster.topics["t"] = 1

    async def release() -> None:
        answer()

    answer = world.hold(RequestCode.SEND_MESSAGE_V2)
    sender = Producer(names, settings=ProducerSettings(unanswered_messages_max=4))
    assert (sender.unanswered, sender.is_full) == (0, False)
    with sender:
        sender.drain()
        futures = [sender.send_soon(Message("t", b"x")) for _ in range(4)]
        assert (sender.unanswered, sender.is_full) == (4, True)
        drained = threading.Event()

        def drain() -> None:
            sender.drain()
            drained.set()

        waiting = threading.Thread(target=drain)
        waiting.start()
        assert not drained.wait(0.02)
        world.portal.call(release)
        assert drained.wait(LONG_SECONDS)
        waiting.join()
        sender.flush()
        assert sorted(one.result(0).queue_offset for one in futures) == [0, 1, 2, 3]
    assert (sender.unanswered, sender.is_full) == (0, False)


def held_back(world: Any, names: str) -> Producer:
    """Return a producer that has begun, of a broker that does not answer what is sent."""
    world.cluster.topics["t"] = 1
    world.hold(RequestCode.SEND_MESSAGE_V2)
    sender = Producer(names)
    sender.start()
    return sender


def test_it_may_give_up_what_is_not_answered(world: Any, names: str) -> None:
    """At its close, if it is told to; what was accepted ends with an error."""
    sender = held_back(world, names)
    future = sender.send_soon(Message("t", b"x"))
    sender.close(flush=False)
    with pytest.raises(NotConnected, match="closed before an answer came"):
        future.result(0)


def test_an_interrupt_ends_it_as_cancelling_ends_the_awaited_one(world: Any, names: str) -> None:
    """Who presses Ctrl-C does not wait for brokers that do not answer; other errors wait."""
    sender = held_back(world, names)
    future = sender.send_soon(Message("t", b"x"))
    sender.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    with pytest.raises(NotConnected, match="closed before an answer came"):
        future.result(0)


def test_an_error_does_not_cut_off_what_was_accepted(world: Any, names: str) -> None:
    """The block ends when the outcome of all is known."""
    world.cluster.topics["t"] = 1
    with contextlib.suppress(ValueError), Producer(names) as sender:
        future = sender.send_soon(Message("t", b"x"))
        raise ValueError("no")
    assert future.result(0).queue_offset == 0
