"""Our clients and a pair of the real RocketMQ: they go on at the slave when the master dies."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.clusters import Cluster

from sprocket.rocketmq.client import Admin, Message, Producer, ReceivedMessage
from sprocket.rocketmq.client.consumer import Puller, PushConsumer
from sprocket.rocketmq.client.network import PullStatus
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.route import MessageQueue

COUNT = 400
TOPIC = "read-twice"


@pytest.fixture
def cluster(tmp_path: Path, jars: Path) -> Iterator[Cluster]:
    """Return a cluster without any process."""
    found = Cluster(tmp_path, jars)
    yield found
    found.close()


async def send(nameserver: str) -> None:
    """Make the topic and send to it."""
    async with Admin(nameserver) as admin:
        await admin.topic.create(TOPIC, queues=2)
    async with Producer(nameserver, group="load") as producer:
        for number in range(COUNT):
            await producer.send(Message(TOPIC, b"%d" % number))


def knows_topic(slave: str) -> bool:
    """Say whether a slave has the settings of the topic, which it asks for now and then."""
    with link.Link(slave) as connection:
        return TOPIC.encode() in connection.call(RequestCode.GET_ALL_TOPIC_CONFIG, {}).body


def test_reading_goes_on_at_the_slave(cluster: Cluster) -> None:
    """What was consumed is not consumed again but for a minute's offsets; nothing is missing."""
    nameserver = cluster.real_nameserver()
    both = {"slaveReadEnable": "true", "inSyncReplicas": 1}
    master = cluster.real_broker("pair", [nameserver], {"brokerRole": "ASYNC_MASTER", **both})
    asyncio.run(send(nameserver))
    slave = cluster.real_broker(
        "pair-1",
        [nameserver],
        {"brokerName": "pair", "brokerId": 1, "brokerRole": "SLAVE", **both},
    )
    peers.wait_until(lambda: knows_topic(slave), "the slave with the topic", seconds=120)

    async def main() -> None:
        queues = [MessageQueue(TOPIC, "pair", number) for number in range(2)]
        async with Puller(nameserver, replica="prefer") as puller:
            await puller.queues(TOPIC)
            async with asyncio.timeout(60):
                while sum([await puller.max_offset(queue) for queue in queues]) < COUNT:
                    await asyncio.sleep(0.2)
        got: list[ReceivedMessage] = []
        async with PushConsumer(
            nameserver, group="readers", listener=got.extend, start="first"
        ) as consumer:
            await consumer.subscribe(TOPIC)
            async with asyncio.timeout(60):
                while len(got) < COUNT:
                    await asyncio.sleep(0.05)
            cluster.kill(master)
            async with PushConsumer(
                nameserver, group="late-readers", listener=got.extend, start="first"
            ) as late:
                await late.subscribe(TOPIC)
                async with asyncio.timeout(90):
                    while len(got) < 2 * COUNT:
                        await asyncio.sleep(0.05)
        numbers = sorted(int(one.body) for one in got)
        assert numbers == sorted([*range(COUNT), *range(COUNT)])
        async with Puller(nameserver, replica="prefer") as puller:
            await puller.queues(TOPIC)
            found = await puller.pull(queues[0], 0)
            assert found.status is PullStatus.FOUND
            assert record.decode_all(found.body)[0].queue_offset == 0

    asyncio.run(main())
    cluster.stop(slave)
