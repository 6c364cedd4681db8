"""What an administrator asks of a consumer goes there and back."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.unit.rocketmq.server.handlers.groups.test_clients import heartbeat
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerStatus
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.route import MessageQueue


async def pushed(client: Any, code: int) -> Any:
    """Wait for a question of the broker's."""
    while (push := await asyncio.wait_for(client.pushed.get(), LONG_SECONDS)).code != code:
        assert push.code == 40
    return push


async def consumer(lab: Any, client_id: str = "c1", **more: Any) -> Any:
    """Return a consumer's connection."""
    client = await lab.connect()
    await client.call(34, None, heartbeat(client_id, "T"), **more)
    return client


def test_running_info_is_passed_on_both_ways(on_node: Callable[..., None]) -> None:
    """The fields of the question, the code and the body of the answer."""

    async def scenario(lab: Any) -> None:
        client = await consumer(lab)
        fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
        answer = lab.broker.send(307, fields)
        question = await pushed(client, 307)
        assert question.ext_map() == fields
        client.peer.send(response(question, 0, body=(b'{"x":1}',)))
        told = await asyncio.wait_for(answer, LONG_SECONDS)
        assert (told.code, told.body) == (0, b'{"x":1}')
        answer = lab.broker.send(307, fields)
        question = await pushed(client, 307)
        client.peer.send(response(question, 1, remark="not now"))
        told = await asyncio.wait_for(answer, LONG_SECONDS)
        assert (told.code, told.remark) == (1, "not now")

    on_node(scenario)


def test_who_cannot_be_asked_is_said(on_node: Callable[..., None]) -> None:
    """Not there, too old, gone before the answer."""

    async def scenario(lab: Any) -> None:
        fields = {"consumerGroup": "g", "clientId": "c1"}
        for code in (307, 309):
            answer = await lab.broker.call(code, fields)
            assert (answer.code, answer.remark) == (1, "The Consumer <g> <c1> not online")
        old = await consumer(lab, "old", version=-61)
        answer = await lab.broker.call(307, fields | {"clientId": "old"})
        assert answer.code == 1
        assert "too low" in answer.remark
        old.peer.close()
        client = await consumer(lab)
        pending = lab.broker.send(307, fields)
        await pushed(client, 307)
        client.peer.close()
        told = await asyncio.wait_for(pending, LONG_SECONDS)
        assert told.code == 1
        assert "closed" in told.remark

    on_node(scenario)


def test_a_message_is_tried_by_a_listener(on_node: Callable[..., None]) -> None:
    """The stored record goes along, and where it is from."""

    async def scenario(lab: Any) -> None:
        client = await consumer(lab)
        sent = await lab.message()
        fields = {"consumerGroup": "g", "clientId": "c1", "msgId": sent.ext_map()["msgId"]}
        answer = lab.broker.send(309, fields | {"topic": "T", "brokerName": "x"})
        question = await pushed(client, 309)
        assert question.ext_map() == {
            **fields,
            "brokerName": "broker-a",
            "topic": "T",
            "topicSysFlag": "0",
            "groupSysFlag": "0",
        }
        assert record.decode(question.body).body == b"hello"
        client.peer.send(response(question, 0, body=(b'{"consumeResult":"CR_SUCCESS"}',)))
        assert (
            await asyncio.wait_for(answer, LONG_SECONDS)
        ).body == b'{"consumeResult":"CR_SUCCESS"}'
        gone = fields["msgId"][:-8] + "00FFFFF0"
        for bad in (None, "short", gone):
            wrong = dict(fields) | ({} if bad is None else {"msgId": bad})
            if bad is None:
                del wrong["msgId"]
            told = await lab.broker.call(309, wrong)
            assert (bad, told.code) == (bad, 1)
            assert told.remark

    on_node(scenario)


def test_flags_of_topic_and_group_go_with_a_message(on_node: Callable[..., None]) -> None:
    """As they are; those of what is gone do not."""

    async def scenario(lab: Any) -> None:
        client = await consumer(lab)
        sent = await lab.message()
        group = {"groupName": "g", "groupSysFlag": 3}
        assert (await lab.broker.call(200, None, json.dumps(group).encode())).code == 0
        fields = {"consumerGroup": "g", "clientId": "c1", "msgId": sent.ext_map()["msgId"]}
        for flag in ("3", None):
            answer = lab.broker.send(309, fields | {"topic": "T"})
            question = await pushed(client, 309)
            assert question.ext_map().get("groupSysFlag") == flag
            client.peer.send(response(question, 0))
            await asyncio.wait_for(answer, LONG_SECONDS)
            assert (await lab.broker.call(207, {"groupName": "g"})).code == 0

    on_node(scenario)


def test_where_consumers_are_is_collected(on_node: Callable[..., None]) -> None:
    """Of all members, or of one; who does not know, or says nonsense, is left out."""

    async def scenario(lab: Any) -> None:
        answer = await lab.broker.call(223, {"topic": "T", "group": "g"})
        assert answer.code == 1
        clients = {name: await consumer(lab, name) for name in ("a", "b", "c")}
        queue = MessageQueue("T", "broker-a", 0)
        pending = lab.broker.send(223, {"topic": "T", "group": "g"})
        for name, client in clients.items():
            question = await pushed(client, 221)
            assert question.ext_map() == {"topic": "T", "group": "g"}
            body = bodies.encode(ConsumerStatus(offsets={queue: 7})) if name == "a" else b"nonsense"
            client.peer.send(response(question, int(name == "b"), body=(body,)))
        told = await asyncio.wait_for(pending, LONG_SECONDS)
        assert told.code == 0
        assert told.body == (
            b'{"consumerTable":{"a":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}},'
            b'"messageQueueTable":{}}'
        )
        pending = lab.broker.send(223, {"topic": "T", "group": "g", "clientAddr": "b"})
        question = await pushed(clients["b"], 221)
        clients["b"].peer.send(response(question, 1))
        assert (
            json.loads((await asyncio.wait_for(pending, LONG_SECONDS)).body)["consumerTable"] == {}
        )
        answer = await lab.broker.call(223, {"topic": "T", "group": "g", "clientAddr": "x"})
        assert json.loads(answer.body)["consumerTable"] == {}

    on_node(scenario)
