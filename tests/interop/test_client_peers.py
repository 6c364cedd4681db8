"""The Python client does the same with Sprocket and with the real RocketMQ 5.3.3.

Every test runs against both. Against RocketMQ it needs the jars of `make peers`, or a folder with
them named by SPROCKET_ROCKETMQ_LIB; without them those runs are skipped by name.
"""

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest
from tests.interop import peers
from tests.interop.both import SECONDS_MAX, Peer, run, until

from sprocket.rocketmq.client import (
    Admin,
    ConsumerSettings,
    Message,
    Producer,
    ProducerSettings,
    Puller,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    blocking,
)
from sprocket.rocketmq.codec.record import record

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-client"),  # one worker, or each would start brokers anew
]

PATIENT = ProducerSettings(timeout_ms=240_000)
"""Longer than a Java broker takes to restart on a busy machine."""


def test_what_was_sent_can_be_looked_at(peer: Peer, topic: str) -> None:
    """One by one, packed, as a batch, one-way: found by key and by both ids, as it was sent."""

    async def main() -> None:
        async with Admin(peer.nameserver) as admin, Producer(peer.nameserver) as producer:
            await admin.create_topic(topic, queues=2)
            plain = await producer.send(Message(topic, b"plain", tag="A", keys=["k1", "k2"]))
            large = await producer.send(Message(topic, b"large" * 2000, keys=["big"]))
            batch = await producer.send_batch(
                [Message(topic, b"%d" % n, tag="AB"[n % 2], keys=[f"b{n}"]) for n in range(5)],
                sharding_key="s",
            )
            await producer.send_oneway(Message(topic, b"one-way", keys=["ow"]))
            for key, body in (("k2", b"plain"), ("big", b"large" * 2000), ("ow", b"one-way")):
                found: list[ReceivedMessage] = []
                while not found:  # the index follows some milliseconds later
                    found = await admin.query_by_key(topic, key)
                assert [one.body for one in found] == [body]
            for sent, body in ((plain, b"plain"), (large, b"large" * 2000)):
                for message_id in (sent.message_id, sent.offset_message_id):
                    seen = await admin.view(message_id, topic)
                    assert seen is not None
                    assert (seen.body, seen.message_id) == (body, sent.message_id)
            assert len({one.message_id for one in batch}) == 5
            assert len({one.queue for one in batch}) == 1
            for number, sent in enumerate(batch):
                seen = await admin.view(sent.message_id, topic)
                assert seen is not None
                assert (seen.body, seen.tag) == (b"%d" % number, "AB"[number % 2])
                assert seen.queue_offset == sent.queue_offset
            assert topic in await admin.topics()
            queues = await admin.queues(topic)
            assert sum([await admin.max_offset(queue) for queue in queues]) == 8

    run(main)


def test_a_topic_is_created_by_the_first_send(peer: Peer, topic: str) -> None:
    """With as many queues as the producer asks for."""

    async def main() -> None:
        settings = ProducerSettings(topic_queues=3)
        async with Producer(peer.nameserver, settings=settings) as producer:
            await producer.send(Message(topic, b"x"))
        async with Admin(peer.nameserver) as admin:
            route = await admin.route(topic)
            assert [queue.write_queues for queue in route.queues] == [3]

    run(main)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_group_shares_out_what_it_wants(peer: Peer, topic: str, orderly: bool) -> None:
    """Only the wanted tag, none left out, by a queue's lock none twice; then nothing is left."""

    async def main() -> None:
        async with Admin(peer.nameserver) as admin:
            await admin.create_topic(topic, queues=4)
        got: Counter[str] = Counter()
        numbers: dict[int, list[int]] = defaultdict(list)

        async def listener(messages: list[ReceivedMessage]) -> None:
            await asyncio.sleep(0)
            for message in messages:
                got[message.message_id] += 1
                numbers[message.queue.queue_id].append(message.queue_offset)

        group: dict[str, Any] = {
            "group": f"g_{topic}",
            "listener": listener,
            "orderly": orderly,
            "start": "first",
        }
        sent = []
        async with PushConsumer(peer.nameserver, **group) as first:
            await first.subscribe(topic, "A")
            async with PushConsumer(peer.nameserver, **group) as second:
                await second.subscribe(topic, "A")
                await until(
                    lambda: (
                        [
                            sum(queue.topic == topic for queue in member.queues)
                            for member in (first, second)
                        ]
                        == [2, 2]
                    ),
                    "two members with two queues each",
                )
                async with Producer(peer.nameserver) as producer:
                    sent = await asyncio.gather(
                        *[
                            producer.send_soon(
                                Message(topic, b"%d" % number, tag="AB"[number % 2]),
                                sharding_key=f"key {number % 10}",
                            )
                            for number in range(1000)
                        ]
                    )
                await until(lambda: len(got) == 500, "500 messages")
        assert set(got) == {one.message_id for one in sent[::2]}
        if orderly:  # without locks two members may for a moment hold one queue
            assert set(got.values()) == {1}
            assert all(offsets == sorted(offsets) for offsets in numbers.values())
        rest: list[ReceivedMessage] = []
        group["listener"] = rest.extend
        async with PushConsumer(peer.nameserver, **group) as third:
            await third.subscribe(topic, "A")
            await until(lambda: sum(q.topic == topic for q in third.queues) == 4, "four queues")
            async with Producer(peer.nameserver) as producer:
                last = await producer.send(Message(topic, b"last", tag="A"))
            await until(lambda: bool(rest), "the last message")
        assert [one.message_id for one in rest] == [last.message_id]

    run(main)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_killed_broker_costs_nothing(peer: Peer, topic: str, orderly: bool) -> None:
    """Killed with -9 under load and started again: all arrives, each key in its order."""

    async def main() -> None:
        async with Admin(peer.nameserver) as admin:
            await admin.create_topic(topic, queues=4)
        bodies: dict[str, bytes] = {}

        def listener(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                bodies.setdefault(message.message_id, message.body)

        consumer = PushConsumer(
            peer.nameserver,
            group=f"g_{topic}",
            listener=listener,
            orderly=orderly,
            start="first",
        )
        count = 5_000
        async with consumer, Producer(peer.nameserver, settings=PATIENT) as producer:
            await consumer.subscribe(topic)
            sends = []
            for number in range(count):
                await producer.drain()
                sends.append(
                    producer.send_soon(
                        Message(topic, b"%d" % number), sharding_key=f"key {number % 25}"
                    )
                )
                if number == 2_500:
                    await until(lambda: len(bodies) > 100, "the stream to flow")
                    peer.kill_broker()
                    sends.append(producer.send_soon(Message(topic, b"-1")))
                if number == 4_000:
                    await asyncio.get_running_loop().run_in_executor(None, peer.start_broker)
            sent = await asyncio.gather(*sends)
            await until(lambda: len(bodies) >= count + 1, "all messages")
        assert set(bodies) == {one.message_id for one in sent}
        by_key: dict[int, list[int]] = defaultdict(list)
        for body in bodies.values():
            by_key[int(body) % 25 if int(body) >= 0 else -1].append(int(body))
        assert all(numbers == sorted(numbers) for numbers in by_key.values())

    run(main)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_failing_listener_gets_its_message_again(peer: Peer, topic: str, orderly: bool) -> None:
    """In place, or from the retry topic where the broker has one, under its own topic."""

    async def main() -> None:
        seen: list[tuple[str, bytes, int]] = []

        def listener(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                seen.append((message.topic, message.body, message.reconsume_times))
                if message.reconsume_times == 0:
                    raise ValueError("not the first time")

        settings = ConsumerSettings(redeliver_ms=200, suspend_ms=200, batch_messages_max=1)
        async with Producer(peer.nameserver) as producer:
            await producer.send(Message(topic, b"x"))
        consumer = PushConsumer(
            peer.nameserver,
            group=f"g_{topic}",
            listener=listener,
            orderly=orderly,
            start="first",
            settings=settings,
        )
        async with consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(seen) == 2, "a second delivery")
        assert seen == [(topic, b"x", 0), (topic, b"x", 1)]

    run(main)


@pytest.mark.parametrize("start", ["first", "last", "time"])
def test_a_new_group_starts_where_it_says(peer: Peer, topic: str, start: str) -> None:
    """Before everything, behind everything, or at a time."""

    async def main() -> None:
        got: list[ReceivedMessage] = []
        async with Producer(peer.nameserver) as producer:
            queue = (await producer.send(Message(topic, b"0"))).queue
            async with Admin(peer.nameserver) as admin:
                sent = await producer.send(Message(topic, b"1"), queue=queue)
                old = await admin.view(sent.message_id, topic)
                assert old is not None
                at_ms = old.stored_at_ms + 1
                assert await admin.offset_by_time(queue, at_ms) == 2
            await asyncio.sleep(0.01)
            if start == "time":
                await producer.send(Message(topic, b"2"), queue=queue)
            begin: Any = at_ms if start == "time" else start
            consumer = PushConsumer(
                peer.nameserver, group=f"g_{topic}", listener=got.extend, start=begin
            )
            async with consumer:
                await consumer.subscribe(topic)
                await until(lambda: queue in consumer.queues, "the queue")
                if start != "time":
                    await producer.send(Message(topic, b"2"), queue=queue)
                wanted = [b"0", b"1", b"2"] if start == "first" else [b"2"]
                await until(lambda: len(got) >= len(wanted), "its messages")
        assert [one.body for one in got] == wanted

    run(main)


def test_a_puller_gets_the_stored_bytes(peer: Peer, topic: str) -> None:
    """Every record decodes to what was sent; offsets outside the queue are told apart."""

    async def main() -> None:
        async with Producer(peer.nameserver) as producer:
            queue = (await producer.send(Message(topic, b"0", tag="A"))).queue
            for number in range(1, 100):
                producer.send_soon(Message(topic, b"%d" % number, tag="A"), queue=queue)
        async with Puller(peer.nameserver) as puller:
            assert queue in await puller.queues(topic)
            offset, bodies = 0, []
            while offset < 100:
                found = await puller.pull(queue, offset, tags="A")
                assert found.status is PullStatus.FOUND
                bodies += [one.body for one in record.decode_all(found.body)]
                offset = found.next_offset
            assert bodies == [b"%d" % number for number in range(100)]
            assert (await puller.min_offset(queue), await puller.max_offset(queue)) == (0, 100)
            assert (await puller.pull(queue, 100)).status is PullStatus.NO_NEW_MESSAGE
            moved = await puller.pull(queue, 500)
            assert (moved.status, moved.next_offset) == (PullStatus.OFFSET_MOVED, 100)
            missed = await puller.pull(queue, 0, tags="B")
            assert missed.status is PullStatus.NO_MATCH
            assert missed.next_offset > 0

    run(main)


def test_the_blocking_clients_do_the_same(peer: Peer, topic: str) -> None:
    """A producer and a consumer without an event loop."""
    with blocking.Admin(peer.nameserver) as admin:
        admin.create_topic(topic, queues=2)
    got: list[ReceivedMessage] = []
    with blocking.Producer(peer.nameserver) as producer:
        sends = [producer.send_soon(Message(topic, b"%d" % number)) for number in range(100)]
        ids = {one.result(SECONDS_MAX).message_id for one in sends}
    with blocking.PushConsumer(
        peer.nameserver, group=f"g_{topic}", listener=got.extend, start="first"
    ) as consumer:
        consumer.subscribe(topic)
        peers.wait_until(lambda: len(got) == 100, "100 messages", seconds=SECONDS_MAX)
    assert {one.message_id for one in got} == ids
