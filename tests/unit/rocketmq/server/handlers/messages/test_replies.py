"""A reply finds the client that waits for it, and the replier learns whether it did."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.rocketmq.server.handlers.groups.test_clients import heartbeat
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.record import properties, record

TOPIC = "DefaultCluster_REPLY_TOPIC"


def reply_ext(client_id: str | None = "c1", **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a reply with short names."""
    text = "UNIQ_KEY\x01R\x02CORRELATION_ID\x01cid\x02MSG_TYPE\x01reply\x02"
    if client_id is not None:
        text += f"REPLY_TO_CLIENT\x01{client_id}\x02"
    base = {"a": "p", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 1, "g": 7, "h": 3, "i": text}
    return base | changes


async def stored(lab: Any) -> list[Any]:
    """Return the replies that were stored."""
    answer = await lab.broker.call(
        11,
        {
            "consumerGroup": "looking",
            "topic": TOPIC,
            "queueId": 0,
            "queueOffset": 0,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "subscription": "*",
        },
    )
    return record.decode_all(answer.body)


def test_a_reply_is_pushed_and_stored(on_node: Callable[..., None]) -> None:
    """With everything of it, and the times and addresses that the client shows."""

    async def scenario(lab: Any) -> None:
        waiting = await lab.connect()
        await waiting.call(34, None, heartbeat("c1", "T"))
        answer = lab.broker.send(325, reply_ext(j=2), b"answer")
        while (push := await asyncio.wait_for(waiting.pushed.get(), LONG_SECONDS)).code != 326:
            assert push.code == 40
        fields = push.ext_map()
        found = properties.decode(fields.pop("properties"))
        assert push.body == b"answer"
        assert found.pop("PUSH_REPLY_TIME") == fields.pop("storeTimestamp")
        assert found == {
            "UNIQ_KEY": "R",
            "CORRELATION_ID": "cid",
            "MSG_TYPE": "reply",
            "REPLY_TO_CLIENT": "c1",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }
        assert fields.pop("bornHost") == lab.broker.peer.local_address
        assert fields == {
            "producerGroup": "p",
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "1",
            "bornTimestamp": "7",
            "flag": "3",
            "reconsumeTimes": "2",
            "unitMode": "false",
            "storeHost": lab.node.addresses.broker,
        }
        assert not answer.done()
        waiting.peer.send(response(push, 0))
        told = await asyncio.wait_for(answer, LONG_SECONDS)
        (one,) = await stored(lab)
        assert (told.code, told.remark) == (0, None)
        assert told.ext_map()["msgId"] == one.offset_message_id
        assert "CLUSTER" not in one.properties
        assert one.properties["CORRELATION_ID"] == "cid"

    on_node(scenario)


def test_a_reply_that_reaches_nobody_is_stored_and_told(on_node: Callable[..., None]) -> None:
    """No client named, none there, one that refuses, one that leaves."""

    async def scenario(lab: Any) -> None:
        answer = await lab.broker.call(324, LONG | {"properties": "UNIQ_KEY\x01R\x02"}, b"x")
        assert (answer.code, answer.remark) == (
            1,
            "reply message properties[REPLY_TO_CLIENT] is null",
        )
        assert answer.ext_map()["queueOffset"] == "0"
        answer = await lab.broker.call(325, reply_ext("nobody"), b"x")
        assert answer.code == 1
        assert answer.remark == "push reply message fail, channel of <nobody> not found."
        for refuse in (True, False):
            waiting = await lab.connect()
            await waiting.call(34, None, heartbeat("c1", group="own"))
            told = lab.broker.send(325, reply_ext(), b"x")
            while (push := await asyncio.wait_for(waiting.pushed.get(), LONG_SECONDS)).code != 326:
                pass
            if refuse:
                waiting.peer.send(response(push, 1))
            else:
                waiting.peer.close()
            answer = await asyncio.wait_for(told, LONG_SECONDS)
            assert answer.code == 1
            assert answer.remark.startswith("push reply message to c1 fail")
        assert len(await stored(lab)) == 4

    on_node(scenario)


def test_a_disk_that_is_behind_does_not_keep_a_reply_back(on_node: Callable[..., None]) -> None:
    """It is pushed, and not stored: the message id says so. The code is that of the push."""

    async def scenario(lab: Any) -> None:
        waiting = await lab.connect()
        await waiting.call(34, None, heartbeat("c1", group="own"))
        pressure = lab.node.pressure
        pressure.weigh(pressure.bytes_max)
        told = lab.broker.send(325, reply_ext(), b"x")
        while (push := await asyncio.wait_for(waiting.pushed.get(), LONG_SECONDS)).code != 326:
            pass
        waiting.peer.send(response(push, 0))
        answer = await asyncio.wait_for(told, LONG_SECONDS)
        assert (answer.code, answer.ext_map()["msgId"]) == (0, "0")
        answer = await lab.broker.call(325, reply_ext("nobody"), b"x")
        assert (answer.code, answer.ext_map()["msgId"]) == (1, "0")
        pressure.weigh(0)
        assert (await lab.broker.call(325, reply_ext("nobody"), b"x")).ext_map()["msgId"] != "0"
        assert len(await stored(lab)) == 1

    on_node(scenario)


def test_a_reply_without_a_body_is_refused(on_node: Callable[..., None]) -> None:
    """As a send is, and nothing is pushed."""

    async def scenario(lab: Any) -> None:
        assert (await lab.broker.call(325, reply_ext())).code == 1
        assert (await lab.broker.call(325, reply_ext(b="a b"), b"x")).code == 29

    on_node(scenario)


LONG = {
    "producerGroup": "p",
    "topic": TOPIC,
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": 4,
    "queueId": 0,
    "sysFlag": 0,
    "bornTimestamp": 7,
    "flag": 0,
}
