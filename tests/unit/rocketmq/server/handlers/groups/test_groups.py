"""Requests about groups and their clients."""

import json
from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ConsumerConnection,
    ConsumerData,
    GroupConfigs,
    GroupSubscription,
    GroupTable,
    HeartbeatData,
    ProducerConnection,
    ProducerTable,
)
from sprocket.rocketmq.model.group import Subscription, SubscriptionGroup

SUBSCRIPTION = Subscription.parse("T", "a||b", version=7)
HEARTBEAT = bodies.encode(
    HeartbeatData(
        client_id="me",
        producers=["pg"],
        consumers=[ConsumerData(group="cg", subscriptions=[SUBSCRIPTION])],
    )
)


def test_groups_are_made_changed_and_deleted(on_node: Callable[..., None]) -> None:
    """One by one and many at once; the table has them all."""

    async def scenario(lab: Any) -> None:
        call = lab.broker.call
        one = SubscriptionGroup(name="g", retry_times_max=3)
        assert (await call(200, {}, bodies.encode(one))).code == 0
        assert bodies.decode_group((await call(352, {"group": "g"})).body) == one
        more = [SubscriptionGroup(name="h"), SubscriptionGroup(name="g")]
        assert (await call(225, {}, bodies.encode(GroupConfigs(more)))).code == 0
        table = bodies.decode(GroupTable, (await call(201)).body)
        found = {group.name: group for group in table.groups}
        assert (found["g"].retry_times_max, "h" in found, "TOOLS_CONSUMER" in found) == (
            16,
            True,
            True,
        )
        for name in ("g", "never was"):
            assert (await call(207, {"groupName": name, "cleanOffset": "true"})).code == 0
        table = bodies.decode(GroupTable, (await call(201)).body)
        assert "g" not in {group.name for group in table.groups}
        for code, body in ((200, b"{}"), (225, b'{"groupConfigList":[{}]}'), (200, b"")):
            assert (await call(code, {}, body)).code == 1

    on_node(scenario)


def test_a_group_that_is_asked_for_is_made(on_node: Callable[..., None]) -> None:
    """As the real broker does; a name that cannot be is refused."""

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(352, {"group": "new"})).code == 0
        assert (await lab.broker.call(352, {"group": "a b"})).code == 26

    on_node(scenario)


def test_clients_are_told(on_node: Callable[..., None]) -> None:
    """Who consumes what, who produces, and since when."""

    async def scenario(lab: Any) -> None:
        call = lab.broker.call
        assert (await call(203, {"consumerGroup": "cg"})).code == 206
        assert (await call(204, {"producerGroup": "pg"})).code == 1
        assert json.loads((await call(328)).body) == {"data": {}}
        await call(34, {}, HEARTBEAT)
        host, port = lab.broker.peer.local_address, lab.broker.peer.address
        consumers = bodies.decode(
            ConsumerConnection, (await call(203, {"consumerGroup": "cg"})).body
        )
        (client,) = consumers.connections
        assert (client.client_id, client.language, client.version) == ("me", "PYTHON", 479)
        assert client.address in (host, port)
        assert client.claimed_by is None
        assert consumers.subscriptions == [SUBSCRIPTION]
        answer = await call(204, {"producerGroup": "pg"})
        assert bodies.decode(ProducerConnection, answer.body).connections == [client]
        lab.clock.advance(5000)
        producers = bodies.decode(ProducerTable, (await call(328)).body).groups
        assert producers["pg"][0].seen_at_ms == lab.clock.now_ms() - 5000
        answer = await call(345, {"group": "cg", "topic": "T"})
        assert bodies.decode(GroupSubscription, answer.body).subscription == SUBSCRIPTION

    on_node(scenario)
