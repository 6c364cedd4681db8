"""The blocking clients do what the awaited ones do, from any thread."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.blocking import Admin, Producer, Puller, PushConsumer
from sprocket.rocketmq.client.brokers import PullStatus
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ConsumerSettings, ProducerSettings
from sprocket.rocketmq.model.message import Message
from sprocket.runtime import driver
from sprocket.runtime.blocking import Portal


@pytest.fixture
def names(world: Any) -> Iterator[str]:
    """Serve the cluster over real sockets in a thread; return the NameServer's address."""
    cluster = world.cluster
    cluster.serve = driver.serve
    with Portal() as portal:

        async def start() -> None:
            for name in ("names_address", "broker_address"):
                setattr(cluster, name, "127.0.0.1:0")
                await cluster.start_one("127.0.0.1:0")
                setattr(cluster, name, f"127.0.0.1:{cluster._servers[-1].port}")

        portal.call(start)
        yield cluster.names_address
        portal.call(cluster.stop)


def test_sends_of_every_kind(world: Any, names: str) -> None:
    """One by one, soon, as a batch, one-way; errors are raised where they belong."""
    world.cluster.topics["t"] = 1
    with Producer(names, settings=ProducerSettings(unanswered_messages_max=4)) as sender:
        assert sender.send(Message("t", b"0"), sharding_key="k").queue_offset == 0
        futures = [sender.send_soon(Message("t", b"%d" % n), sharding_key="k") for n in range(20)]
        assert [one.result(10).queue_offset for one in futures] == list(range(1, 21))
        batch = sender.send_batch([Message("t", b"a"), Message("t", b"b")], sharding_key="k")
        assert [one.queue_offset for one in batch] == [21, 22]
        sender.send_oneway(Message("t", b"last"))
        with pytest.raises(InvalidMessage):
            sender.send(Message("t", b""))
        with pytest.raises(InvalidMessage):
            sender.send_soon(Message("", b"x"))
        sender.flush()


def test_a_listener_may_block_in_threads_of_its_own(world: Any, names: str) -> None:
    """Calls overlap, do not hold up the loop, and one that fails is repeated."""
    world.cluster.topics["t"] = 2
    with Producer(names) as sender:
        for number in range(2):
            sender.send(Message("t", b"%d" % number), queue=world.queue(number))
    got: SimpleQueue[tuple[bytes, str]] = SimpleQueue()
    both = threading.Barrier(2, timeout=10)

    def listener(messages: list[ReceivedMessage]) -> None:
        (message,) = messages
        if message.reconsume_times == 0:
            both.wait()
            if message.body == b"0":
                raise ValueError("once")
        got.put((message.body, threading.current_thread().name))

    settings = ConsumerSettings(redeliver_ms=10)
    with PushConsumer(names, group="g", listener=listener, start="first", settings=settings) as c:
        c.subscribe("t")
        seen = [got.get(timeout=10) for _ in range(2)]
        assert {body for body, _ in seen} == {b"0", b"1"}
        assert all(name.startswith("sprocket-listener") for _, name in seen)
        assert len(c.queues) == 2
        c.unsubscribe("t")
    assert world.cluster.committed["g", "t", 0] == 1


def test_admin_and_puller(world: Any, names: str) -> None:
    """Every method has its twin."""
    with Admin(names) as looking:
        looking.create_topic("t", 1)
        with Producer(names) as sender:
            sent = sender.send(Message("t", b"x", keys=["k"]))
        (queue,) = looking.queues("t")
        assert looking.topics() == ["t"]
        assert list(looking.cluster().brokers) == ["b"]
        assert len(looking.route("t").queues) == 1
        assert (looking.min_offset(queue), looking.max_offset(queue)) == (0, 1)
        assert looking.offset_by_time(queue, 0) == 0
        assert [one.body for one in looking.query_by_key("t", "k")] == [b"x"]
        found = looking.view(sent.message_id, "t")
        assert found is not None
        assert found.body == b"x"
    with Puller(names) as reading:
        assert reading.queues("t") == [queue]
        assert (reading.min_offset(queue), reading.max_offset(queue)) == (0, 1)
        assert reading.offset_by_time(queue, 0) == 0
        pulled = reading.pull(queue, 0)
        assert (pulled.status, pulled.next_offset) == (PullStatus.FOUND, 1)


def test_closing_twice_is_allowed(names: str) -> None:
    """The second close does nothing."""
    sender = Producer(names)
    sender.start()
    sender.close()
    sender.close()
