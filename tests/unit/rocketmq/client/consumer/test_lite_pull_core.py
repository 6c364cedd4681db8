"""A lite consumer's offsets follow what is done, where that is wanted."""

import asyncio
from typing import Any

import pytest

from sprocket.rocketmq.client.consumer.lite_pull_core import LitePlan, LitePullCore
from sprocket.rocketmq.client.consumer.rebalance import averagely
from sprocket.rocketmq.client.consumer.subscriptions import Subscriptions
from sprocket.rocketmq.client.network import Lease
from sprocket.rocketmq.client.settings import ConsumerSettings
from sprocket.rocketmq.codec.bodies import client_bodies
from sprocket.rocketmq.codec.codes import RequestCode


@pytest.mark.parametrize("automatic", [False, True])
def test_a_queue_that_goes_is_committed_if_that_is_automatic(world: Any, automatic: bool) -> None:
    """Up to what is done; and brokers know what kind of consumer it is."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        for number in range(3):
            world.cluster.store("t", 0, b"%d" % number)
        lease = Lease("consumer", world.names, world.reach)
        lease.begin()
        subscriptions = Subscriptions()
        plan = LitePlan(
            group="g",
            start="first",
            is_auto_commit=automatic,
            strategy=averagely,
            on_rebalance=None,
            settings=ConsumerSettings(commit_ms=100_000, batch_messages_max=2),
        )
        parts = LitePullCore(plan, lease, subscriptions)
        parts.begin()
        subscriptions.add("t", "*", None)
        await parts.share_out("t")
        assert len(await parts.polling.poll(5)) == 2
        assert len(await parts.polling.poll(5)) == 1
        parts.assignment.give_up(world.queue(0))
        await asyncio.sleep(1)
        assert world.cluster.committed == ({("g", "t", 0): 2} if automatic else {})
        sent = [one for one in world.cluster.requests if one.code == RequestCode.HEART_BEAT]
        (data,) = client_bodies.decode_heartbeat(sent[-1].body).consumers
        assert (data.consume_type, data.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")
        await parts.end()
        await lease.end()

    world.run(main)
