"""Producers, requests with replies and admins do the same with Sprocket and RocketMQ 5.3.3.

The other half of `test_client_peers`, with its peers.
"""

import asyncio
from typing import Any

import pytest
from tests.interop.both import SECONDS_MAX, Peer, run, until

from sprocket.base.errors import BrokerRefused
from sprocket.rocketmq.client import (
    Admin,
    Client,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
    SendStatus,
    blocking,
    reply_to,
    split_batch,
)
from sprocket.rocketmq.errors import NoRoute, NoSuchGroup, ReplyTimeout
from sprocket.rocketmq.model.group import SubscriptionGroup

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-client"),  # one worker, or each would start brokers anew
]


async def found_by_key(admin: Admin, topic: str, key: str) -> list[ReceivedMessage]:
    """Return the messages with a key as soon as the index has them."""
    async with asyncio.timeout(SECONDS_MAX):
        while not (found := await admin.message.by_key(topic, key)):
            await asyncio.sleep(0.02)
        return found


def test_every_way_to_send(peer: Peer, topic: str) -> None:
    """By selector, packed in three ways, late, as a long list, one-way: all is stored as said."""

    async def main() -> None:
        async with Client(peer.nameserver) as client, Admin(client) as admin:
            await admin.create_topic(topic, queues=4)
            async with Producer(client) as producer:
                for number in range(8):
                    sent = await producer.send(
                        Message(topic, b"%d" % number),
                        selector=lambda queues, message: queues[int(message.body) % 4],
                    )
                    assert (sent.queue.queue_id, sent.status) == (number % 4, SendStatus.OK)
                many = [Message(topic, b"x" * 500, keys=[f"many{n}"]) for n in range(300)]
                parts = list(split_batch(many, bytes_max=64 << 10))
                results = [one for part in parts for one in await producer.send_batch(part)]
                assert (len(results), len({one.message_id for one in results})) == (300, 300)
                await producer.send_oneway(
                    Message(topic, b"one-way", keys=["ow"]), sharding_key="k"
                )
            for method in ("zlib", "lz4", "zstd"):
                settings = ProducerSettings(compress_method=method, compress_bytes_min=100)
                async with Producer(client, settings=settings) as producer:
                    await producer.send(Message(topic, b"a" * 5000, keys=[method]))
                    await producer.send(Message(topic, b"tiny", keys=[f"{method}2"]))
                (one,) = await found_by_key(admin, topic, method)
                assert one.body == b"a" * 5000
                assert len(one.stored.stored_body) < 500
            assert [one.body for one in await found_by_key(admin, topic, "many299")] == [b"x" * 500]
            assert [one.body for one in await found_by_key(admin, topic, "ow")] == [b"one-way"]

    run(main)


def test_a_delayed_message_comes_later(peer: Peer, topic: str) -> None:
    """Level 1 is one second."""
    got: list[ReceivedMessage] = []

    async def main() -> None:
        async with Admin(peer.nameserver) as admin, Producer(peer.nameserver) as producer:
            await admin.create_topic(topic, queues=1)
            consumer = PushConsumer(
                peer.nameserver, group=f"g_{topic}", listener=got.extend, start="first"
            )
            async with consumer:
                await consumer.subscribe(topic)
                await until(lambda: any(q.topic == topic for q in consumer.queues), "a queue")
                await producer.send(Message(topic, b"late", delay_level=1))
                await producer.send(Message(topic, b"now"))
                await until(lambda: len(got) == 2, "both messages")
        assert [one.body for one in got] == [b"now", b"late"]
        assert got[1].stored_at_ms - got[1].born_at_ms >= 900

    run(main)


def test_a_request_is_answered(peer: Peer, topic: str) -> None:
    """The reply comes to who waits; without a consumer the request times out."""

    async def main() -> None:
        async with Client(peer.nameserver) as client, Producer(client) as asking:
            async with Admin(client) as admin:
                await admin.create_topic(topic, queues=1)
            with pytest.raises(ReplyTimeout, match="no reply came"):
                await asking.request(Message(topic, b"nobody"), timeout_ms=300)
            async with Producer(peer.nameserver, group="answers") as answering:

                async def listener(messages: list[ReceivedMessage]) -> None:
                    for one in messages:
                        await answering.send(reply_to(one, b"re: " + one.body, tag="T"))

                consumer = PushConsumer(
                    peer.nameserver, group=f"g_{topic}", listener=listener, start="last"
                )
                async with consumer:
                    await consumer.subscribe(topic)
                    await until(lambda: any(q.topic == topic for q in consumer.queues), "a queue")
                    both = await asyncio.gather(
                        asking.request(Message(topic, b"1"), timeout_ms=60_000),
                        asking.request(Message(topic, b"2"), timeout_ms=60_000, sharding_key="k"),
                    )
        assert [(one.body, one.tag) for one in both] == [(b"re: 1", "T"), (b"re: 2", "T")]
        assert all(int(one.properties["PUSH_REPLY_TIME"]) > 0 for one in both)

    run(main)


def test_topics_from_creation_to_deletion(peer: Peer, topic: str) -> None:
    """Set up, counted, closed to writers, deleted."""

    async def main() -> None:
        async with Admin(peer.nameserver) as admin, Producer(peer.nameserver) as producer:
            await admin.topic.create(topic, 2, read_queues=2)
            (name,) = (await admin.cluster()).brokers
            sent = await producer.send(Message(topic, b"x"))
            config = (await admin.topic.config(topic))[name]
            assert (config.name, config.write_queues, config.perm) == (topic, 2, 6)
            assert topic in [one.name for one in await admin.topic.configs(name)]
            stats = await admin.topic.stats(topic)
            assert len(stats.queues) == 2
            assert stats.queues[sent.queue].max_offset == 1
            assert stats.queues[sent.queue].last_update_at_ms > 0
            (cluster,) = (await admin.cluster()).clusters
            assert topic in await admin.topic.names(cluster=cluster)
            await admin.topic.set_permission(topic, 4)
            assert [one.perm for one in (await admin.topic.config(topic)).values()] == [4]
            assert await admin.offset.earliest_at_ms(sent.queue) == (
                stats.queues[sent.queue].last_update_at_ms
            )
            await admin.topic.delete(topic)
            with pytest.raises(NoRoute):
                await admin.topic.route(topic)
            with pytest.raises(BrokerRefused):
                await admin.topic.create("TBW102")

    run(main)


def test_groups_from_creation_to_deletion(peer: Peer, topic: str) -> None:
    """Set up, watched while they consume, asked and told, moved, deleted."""
    group, got = f"g_{topic}", list[ReceivedMessage]()

    async def main() -> None:
        async with (
            Admin(peer.nameserver) as admin,
            Producer(peer.nameserver, group="pp") as producer,
        ):
            await admin.create_topic(topic, queues=1)
            await admin.group.create(SubscriptionGroup(name=group, retry_times_max=3))
            (there,) = (await admin.group.get(group)).values()
            assert there.retry_times_max == 3
            with pytest.raises(NoSuchGroup, match=f"did you mean {group}"):
                await admin.group.get(f"{group}_unknown")
            assert group in await admin.group.names()
            for number in range(5):
                await producer.send(Message(topic, b"%d" % number, keys=[f"k{number}"]))
            assert len(await admin.group.producers("pp")) == 1
            with pytest.raises(NoSuchGroup, match="no producer of group 'nobody'"):
                await admin.group.producers("nobody")
            assert await admin.group.consumers(group) is None
            consumer = PushConsumer(
                peer.nameserver, group=group, listener=got.extend, start="first"
            )
            async with consumer:
                await consumer.subscribe(topic)
                await until(lambda: len(got) == 5, "five messages")
                members = await admin.group.consumers(group)
                assert members is not None
                assert topic in {one.topic for one in members.subscriptions}
                assert len(members.connections) == 1
            progress = await admin.group.progress(group)
            (queue,) = [one for one in progress.queues if one.topic == topic]
            assert (progress.queues[queue].consumer_offset, progress.lag) == (5, 0)
            assert (await admin.group.progress(group, topic)).lag == 0
            assert topic in await admin.group.topics(group)
            assert group in await admin.topic.groups(topic)
            await admin.group.clone_offsets(group, f"{group}_2", topic)
            assert await admin.offset.committed(f"{group}_2", queue) == 5
            assert await admin.group.reset_offsets(group, topic, "first") == {queue: 0}
            async with PushConsumer(peer.nameserver, group=group, listener=got.extend) as consumer:
                await consumer.subscribe(topic)
                await until(lambda: len(got) == 10, "the five messages again")
            await admin.offset.commit(group, queue, 2)
            assert await admin.offset.committed(group, queue) == 2
            await admin.group.delete(group)
            assert group not in await admin.group.names()

    run(main)


def test_brokers_and_nameservers(peer: Peer, topic: str) -> None:
    """Status, settings, counts, values by key; a broker is closed to producers and opened again."""

    async def main() -> None:
        async with (
            Admin(peer.nameserver) as admin,
            Producer(peer.nameserver, group="pp") as producer,
        ):
            await admin.create_topic(topic, queues=1)
            (name,) = (await admin.cluster()).brokers
            sent = await producer.send(Message(topic, b"x", tag="A"))
            status = await admin.broker.status(name)
            assert status.version.startswith("V5")
            assert min(status.put_tps) >= 0
            assert status.log_max_offset > status.log_min_offset
            config = await admin.broker.config(name)
            assert config["brokerName"] == name
            await admin.broker.update_config(name, {"fileReservedTime": "47"})
            assert (await admin.broker.config(name))["fileReservedTime"] == "47"
            assert "pp" in await admin.broker.producers(name)
            units = await admin.broker.queue_units(sent.queue, 0)
            assert (units.max_offset, len(units.units)) == (1, 1)
            assert (await admin.broker.consume_stats(name)).total_lag >= 0
            await admin.broker.clean_expired_queues(name)
            await admin.nameserver.put("n", "k", "v")
            assert await admin.nameserver.get("n", "k") == "v"
            assert await admin.nameserver.values("n") == {"k": "v"}
            await admin.nameserver.delete("n", "k")
            assert await admin.nameserver.get("n", "k") is None
            assert await admin.nameserver.values("nowhere") == {}
            assert peer.nameserver in await admin.nameserver.config()
            assert await admin.nameserver.wipe_write_permission(name) > 0
            assert [one.perm for one in (await admin.route(topic)).queues] == [4]
            assert await admin.nameserver.add_write_permission(name) > 0
            assert [one.perm for one in (await admin.route(topic)).queues] == [6]

    run(main)


def test_the_blocking_admin_and_producer_do_the_same(peer: Peer, topic: str) -> None:
    """With one thread for both."""
    with blocking.Client(peer.nameserver) as client, blocking.Admin(client) as admin:
        admin.topic.create(topic, 1)
        with blocking.Producer(client) as producer:
            choose: Any = lambda queues, _: queues[0]  # noqa: E731
            assert producer.send(Message(topic, b"x"), selector=choose).queue_offset == 0
        (stats,) = admin.topic.stats(topic).queues.values()
        assert stats.max_offset == 1
        admin.topic.delete(topic)
