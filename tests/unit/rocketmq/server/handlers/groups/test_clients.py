"""Clients enter by heartbeat, are told when their group changes, and lock queues."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.waits import LONG_SECONDS

from sprocket.rocketmq.settings import GroupSettings


def heartbeat(client_id: str, *topics: str, group: str = "g", **more: Any) -> bytes:
    """Return a heartbeat of one consumer group and one producer group."""
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
    body = {
        "clientID": client_id,
        "consumerDataSet": [
            {
                "groupName": group,
                "messageModel": more.pop("model", "CLUSTERING"),
                "subscriptionDataSet": subscriptions,
                "unitMode": False,
            }
        ],
        "producerDataSet": [{"groupName": "pg"}],
    }
    return json.dumps(body | more).encode()


async def members(lab: Any, group: str = "g") -> list[str]:
    """Return the sorted ids of a group's members, empty when it has none."""
    answer = await lab.broker.call(38, {"consumerGroup": group})
    if answer.code == 1:
        return []
    return sorted(json.loads(answer.body)["consumerIdList"])


def test_a_heartbeat_makes_a_member_and_the_retry_topic(on_node: Callable[..., None]) -> None:
    """The group is listed, its retry topic is there and in the routes, the version is 479."""

    async def scenario(lab: Any) -> None:
        assert await members(lab) == []
        answer = await lab.broker.call(34, None, heartbeat("c1", "T"))
        assert (answer.code, answer.version) == (0, 479)
        assert answer.ext_map() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        assert await members(lab) == ["c1"]
        config = await lab.broker.call(351, {"topic": "%RETRY%g"})
        assert json.loads(config.body)["readQueueNums"] == 1
        while (await lab.names.call(105, {"topic": "%RETRY%g"})).code != 0:
            await asyncio.sleep(0)

    on_node(scenario)


def test_everybody_is_told_when_a_group_changes(on_node: Callable[..., None]) -> None:
    """On joining, on a new topic, on leaving, on a lost connection; not on a plain repeat."""

    async def scenario(lab: Any) -> None:
        first, second = await lab.connect(), await lab.connect()

        async def told(client: Any) -> bool:
            push = await asyncio.wait_for(client.pushed.get(), LONG_SECONDS)
            assert push.is_oneway
            return (push.code, push.ext_map()) == (40, {"consumerGroup": "g"})

        await first.call(34, None, heartbeat("c1", "T"))
        assert await told(first)
        await second.call(34, None, heartbeat("c2", "T"))
        assert await told(first)
        assert await told(second)
        await first.call(34, None, heartbeat("c1", "T"))
        assert first.pushed.empty()
        await first.call(34, None, heartbeat("c1", "T", "U"))
        assert await told(first)
        assert await told(second)
        await second.call(35, {"clientID": "c2", "consumerGroup": "g", "producerGroup": "pg"})
        assert await told(first)
        assert await members(lab) == ["c1"]
        await second.call(34, None, heartbeat("c2", "T", "U"))
        assert await told(first)
        second.peer.close()
        assert await told(first)
        assert await members(lab) == ["c1"]

    on_node(scenario)


def test_broadcasting_members_are_not_told(on_node: Callable[..., None]) -> None:
    """Each of them consumes everything: there is nothing to share."""

    async def scenario(lab: Any) -> None:
        await lab.broker.call(34, None, heartbeat("c1", "T", model="BROADCASTING"))
        other = await lab.connect()
        await other.call(34, None, heartbeat("c2", "T", model="BROADCASTING"))
        assert await members(lab) == ["c1", "c2"]
        assert lab.broker.pushed.empty()

    on_node(scenario)


def test_short_heartbeats_compare_fingerprints(on_node: Callable[..., None]) -> None:
    """A changed fingerprint is reported once; without subscriptions the known ones stay."""

    async def scenario(lab: Any) -> None:
        async def changed(fingerprint: int, *topics: str, **more: Any) -> str:
            body = heartbeat("c1", *topics, heartbeatFingerprint=fingerprint, **more)
            answer = await lab.broker.call(34, None, body)
            return str(answer.ext_map()["IS_SUB_CHANGE"])

        assert await changed(5, "T") == "false"
        assert await changed(5, withoutSub=True) == "false"
        assert await changed(6, "T") == "true"
        assert await changed(6, "T") == "false"

    on_node(scenario)


def test_groups_that_may_not_be_made_are_skipped(on_node: Callable[..., None]) -> None:
    """The answer is a success all the same, as RocketMQ's is."""

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(34, None, heartbeat("c1", "T"))).code == 0
        assert await members(lab) == []

    on_node(scenario, groups=GroupSettings(auto_create=False))


def test_a_body_that_cannot_be_read_is_refused(on_node: Callable[..., None]) -> None:
    """The remark says what was wrong, and the connection goes on."""

    async def scenario(lab: Any) -> None:
        for code in (34, 41, 42, 46):
            for body in (b"", b"{", b"[]", b'{"consumerDataSet":7,"mqSet":7,"subscriptionData":7}'):
                answer = await lab.broker.call(code, None, body)
                wanted = 0 if (code, body) == (46, b"") else 1
                assert (code, body, answer.code) == (code, body, wanted)
                assert bool(answer.remark) == bool(wanted)
        assert (await lab.broker.call(34, None, heartbeat("c1", "T"))).code == 0

    on_node(scenario)


def test_filters_that_can_be_had(on_node: Callable[..., None]) -> None:
    """A consumer whose filter cannot be had is told before it starts."""

    async def scenario(lab: Any) -> None:
        def body(kind: str | None, text: str = "a") -> bytes:
            subscription = {"topic": "T", "subString": text, "expressionType": kind}
            return json.dumps(
                {"clientId": "c", "group": "g", "subscriptionData": subscription}
            ).encode()

        assert (await lab.broker.call(46, None, body("TAG"))).code == 0
        assert (await lab.broker.call(46, None, body(None))).code == 0
        assert (await lab.broker.call(46, None, body("SQL92"))).code == 0
        answer = await lab.broker.call(46, None, body("SQL92", "a >"))
        assert (answer.code, "expected a property" in answer.remark) == (23, True)
        answer = await lab.broker.call(46, None, body("KLINGON"))
        assert (answer.code, "KLINGON" in answer.remark) == (1, True)
        await lab.broker.call(25, None, b"enablePropertyFilter=false\n")
        answer = await lab.broker.call(46, None, body("SQL92"))
        assert (answer.code, "SQL92" in answer.remark) == (1, True)

    on_node(scenario)


def test_queues_are_locked_for_one_client(on_node: Callable[..., None]) -> None:
    """Another one gets what is left, and everything after an unlock."""

    async def scenario(lab: Any) -> None:
        def body(client: str, *queues: int) -> bytes:
            mq_set = [
                {"topic": "T", "brokerName": "broker-a", "queueId": queue} for queue in queues
            ]
            return json.dumps({"clientId": client, "consumerGroup": "g", "mqSet": mq_set}).encode()

        async def lock(client: str, *queues: int) -> list[int]:
            answer = await lab.broker.call(41, None, body(client, *queues))
            return [one["queueId"] for one in json.loads(answer.body)["lockOKMQSet"]]

        assert await lock("a", 0, 1) == [0, 1]
        assert await lock("b", 1, 2) == [2]
        assert (await lab.broker.call(42, None, body("a", 0, 1))).code == 0
        assert await lock("b", 0, 1) == [0, 1]
        lab.clock.advance(60_000)
        assert await lock("a", 0) == [0]

    on_node(scenario)
