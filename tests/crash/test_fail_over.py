"""Two NameServers and two brokers: any one of them is killed, and clients go on.

What holds, with the clients' default settings unless said below:

* A NameServer that is killed delays nothing: routes are known, and the next question goes to the
  other one at once.
* A broker that is killed leaves the routes with its connection; a message that was on its way goes
  to the other broker. Nobody waits longer than `GAP_SECONDS_MAX` for an acknowledgement.
* What the killed broker had acknowledged is consumed once it is there again: at the latest after
  the refresh of the routes (30 s by default, 2 s here) and the next sharing out of the queues
  (20 s by default, 2 s here).
"""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.interop import link
from tests.interop.clusters import Cluster
from tests.interop.peers import wait_until
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import (
    Admin,
    ClientSettings,
    ConsumerSettings,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from sprocket.rocketmq.model.message import Message

TOPIC = "FailOver"
GAP_SECONDS_MAX = 5.0
"""The longest wait for an acknowledgement: a lost connection is noticed at once, a send is tried
again within 50 ms, on a machine that does other things beside."""
BACK_SECONDS_MAX = LONG_SECONDS
STEADY_COUNT = 100
"""Messages after which what happened before counts as survived."""
CLIENT = ClientSettings(route_refresh_ms=2_000)


class Stream:
    """One producer that never stops, and one consumer."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []
        self.received: Counter[bytes] = Counter()
        self.gap_seconds = 0.0
        self.is_over = False

    async def produce(self, producer: Producer) -> None:
        """Send one message after the other; none may be refused."""
        number = 0
        while not self.is_over:
            body = b"%d" % number
            started = time.perf_counter()
            await producer.send(Message(topic=TOPIC, body=body))
            self.gap_seconds = max(self.gap_seconds, time.perf_counter() - started)
            self.acknowledged.append(body)
            number += 1
            await asyncio.sleep(0.002)

    async def consume(self, messages: list[ReceivedMessage]) -> None:
        """Note what arrived."""
        self.received.update(one.body for one in messages)

    async def steady(self) -> None:
        """Wait until so many more are acknowledged and so many more have arrived."""
        sent, got = len(self.acknowledged) + STEADY_COUNT, self.received.total() + STEADY_COUNT
        async with asyncio.timeout(BACK_SECONDS_MAX):
            while len(self.acknowledged) < sent or self.received.total() < got:
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Send no more, and wait until all that was acknowledged has arrived."""
        self.is_over = True
        async with asyncio.timeout(BACK_SECONDS_MAX):
            while set(self.acknowledged) - set(self.received):
                await asyncio.sleep(0.01)


@pytest.mark.slow
def test_one_of_each_may_be_killed(tmp_path: Path) -> None:
    """First one NameServer, then a broker, then the other NameServer; the broker comes back."""
    cluster = Cluster(tmp_path)
    try:
        names = [cluster.nameserver(), cluster.nameserver()]
        brokers = {name: cluster.broker(name, names) for name in ("a", "b")}
        asyncio.run(_scenario(cluster, names, brokers))
    finally:
        cluster.close()


async def _scenario(cluster: Cluster, names: list[str], brokers: dict[str, str]) -> None:
    stream = Stream()
    settings = ConsumerSettings(rebalance_ms=2_000)
    async with Admin(names, client=CLIENT) as admin:
        await admin.create_topic(TOPIC, queues=4)
    consumer = PushConsumer(
        names,
        group="g",
        listener=stream.consume,
        start="first",
        settings=settings,
        client=CLIENT,
    )
    await consumer.subscribe(TOPIC)
    async with consumer, Producer(names, client=CLIENT) as producer:
        producing = asyncio.ensure_future(stream.produce(producer))
        try:
            await stream.steady()
            cluster.kill(names[0])
            await stream.steady()
            back = await asyncio.to_thread(cluster.nameserver, address=names[0])
            assert back == names[0]
            cluster.kill(brokers["b"])
            await stream.steady()
            await asyncio.to_thread(wait_until, lambda: knows(names[0], b'"a"'), "a to register")
            cluster.kill(names[1])
            await stream.steady()
            port = int(brokers["b"].rpartition(":")[2])
            await asyncio.to_thread(cluster.broker, "b", names, port=port)
            await stream.steady()
        finally:
            stream.is_over = True
            await producing
        await stream.end()
    assert stream.gap_seconds < GAP_SECONDS_MAX
    print(
        f"{len(stream.acknowledged)} acknowledged, longest wait {stream.gap_seconds:.2f} s, "
        f"{stream.received.total() - len(stream.received)} delivered twice"
    )


def knows(nameserver: str, name: bytes) -> bool:
    """Say whether a NameServer has heard of a broker."""
    with link.Link(nameserver) as connection:
        return name in connection.call(link.CLUSTER_INFO, {}).body
