"""Brokers share queues out as clients would, and say no to what they do not offer."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.rocketmq.server.handlers.groups.test_clients import heartbeat


def query(client_id: str = "c1", **changes: Any) -> bytes:
    """Return a query for an assignment."""
    body = {
        "topic": "T",
        "consumerGroup": "g",
        "clientId": client_id,
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    }
    return json.dumps(body | changes).encode()


async def assigned(lab: Any, **changes: Any) -> list[int] | None:
    """Return the numbers of the queues in an answer."""
    answer = await lab.broker.call(400, None, query(**changes))
    assert answer.code == 0
    found = json.loads(answer.body).get("messageQueueAssignments")
    if found is None:
        return None
    assert all(one["mode"] == "PULL" for one in found)
    return [one["messageQueue"]["queueId"] for one in found]


def test_members_share_the_queues(on_node: Callable[..., None]) -> None:
    """Without a client list, queues or a known strategy they keep what they have."""

    async def scenario(lab: Any) -> None:
        await lab.message()
        while (await lab.names.call(105, {"topic": "T"})).code != 0:
            await asyncio.sleep(0)
        assert await assigned(lab) is None
        await lab.broker.call(34, None, heartbeat("c1", "T"))
        other = await lab.connect()
        await other.call(34, None, heartbeat("c2", "T"))
        assert await assigned(lab) == [0, 1]
        assert await assigned(lab, client_id="c2") == [2, 3]
        assert await assigned(lab, strategyName="AVG_BY_CIRCLE") == [0, 2]
        assert await assigned(lab, client_id="stranger") == []
        assert await assigned(lab, strategyName="CONSISTENT_HASH") is None
        assert await assigned(lab, messageModel="BROADCASTING") == [0, 1, 2, 3]
        assert await assigned(lab, topic="none") is None
        assert await assigned(lab, topic="%LMQ%light") == [0]

    on_node(scenario)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"topic":"%RETRY%g","consumerGroup":"g","mode":"PULL"}', 16),
        (b'{"topic":"none","consumerGroup":"g","mode":"PULL"}', 17),
        (b'{"topic":"T","consumerGroup":"g","mode":"PUSH"}', 1),
        (b"nonsense", 1),
    ],
)
def test_modes_that_cannot_be_set(on_node: Callable[..., None], body: bytes, code: int) -> None:
    """Each by its code and a remark; a mode that is none by its name."""

    async def scenario(lab: Any) -> None:
        await lab.message()
        answer = await lab.broker.call(401, None, body)
        assert (answer.code, bool(answer.remark)) == (code, True)
        assert ("PUSH" in answer.remark) == (b"PUSH" in body)
        answer = await lab.broker.call(402)
        assert json.loads(answer.body) == {"messageRequestModeMap": {}}

    on_node(scenario)


def test_modes_that_were_set_are_told(on_node: Callable[..., None]) -> None:
    """By topic and group; a group need not be there."""

    async def scenario(lab: Any) -> None:
        await lab.message()
        body = {"topic": "T", "consumerGroup": "g", "mode": "PULL", "popShareQueueNum": -1}
        assert (await lab.broker.call(401, None, json.dumps(body).encode())).code == 0
        answer = await lab.broker.call(402)
        assert json.loads(answer.body) == {"messageRequestModeMap": {"T": {"g": body}}}

    on_node(scenario)


def test_a_query_that_says_nothing_is_refused(on_node: Callable[..., None]) -> None:
    """No topic, or no JSON."""

    async def scenario(lab: Any) -> None:
        for body in (b"", b"{}"):
            answer = await lab.broker.call(400, None, body)
            assert answer.code == 1
            assert answer.remark

    on_node(scenario)
