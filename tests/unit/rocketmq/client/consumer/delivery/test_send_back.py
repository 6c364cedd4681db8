"""Failed messages go back to a broker that takes them, by name or as they are."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.consumer.delivery import SendBack
from sprocket.rocketmq.client.consumer.delivery.listener import DEAD_LETTER_LEVEL
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.record import properties, record

BACK = RequestCode.CONSUMER_SEND_MSG_BACK
SEND = RequestCode.SEND_MESSAGE_V2

Part = Callable[[SendBack, list[ReceivedMessage]], Coroutine[Any, Any, None]]


def run(
    world: Any, count: int, part: Part, plan: ConsumerPlan | None = None, **of_all: Any
) -> None:
    """Store messages, and run a part of a test with them as pulled."""

    async def main() -> None:
        for number in range(count):
            world.cluster.store("t", 0, b"%d" % number, **of_all)
        stored = [record.decode(one) for one in world.cluster.log["t", 0]]
        messages = [ReceivedMessage(one, world.queue(0)) for one in stored]
        instance = world.instance()
        await instance.routes.find("t")
        wanted = plan or ConsumerPlan(group="g")
        back = SendBack(wanted, instance.connections, instance.routes, world.clock)
        await part(back, messages)
        await instance.close()

    world.run(main)


def asked(world: Any, code: RequestCode, header: type[Any]) -> list[Any]:
    """Return the headers of all requests of a code."""
    return [one.header(header) for one in world.cluster.requests if one.code == code]


@pytest.mark.parametrize("level", [0, 5, DEAD_LETTER_LEVEL])
def test_each_message_is_named_by_its_place_in_the_log(world: Any, level: int) -> None:
    """The broker reads it there, and counts how often it was delivered."""

    async def part(back: SendBack, messages: list[ReceivedMessage]) -> None:
        world.cluster.on[BACK] = lambda peer, command: peer.send(response(command, 0))
        assert await back(messages, level) == []
        named = asked(world, BACK, headers.SendMessageBack)
        assert [one.offset for one in named] == [one.stored.physical_offset for one in messages]
        assert {(one.group, one.origin_topic) for one in named} == {("g", "t")}
        assert {(one.delay_level, one.max_reconsume_times) for one in named} == {(level, 7)}

    run(world, 2, part, ConsumerPlan(group="g", settings=ConsumerSettings(retries_max=7)))


def test_what_the_broker_cannot_find_is_sent_whole(world: Any) -> None:
    """To the retry topic: same body, packed as it was, with what it takes to count on."""

    async def part(back: SendBack, messages: list[ReceivedMessage]) -> None:
        world.cluster.topics["%RETRY%g"] = 1
        messages[0].redeliveries = 2
        assert await back(messages, 0) == []
        (sent,) = asked(world, SEND, headers.SendMessageV2)
        pairs = properties.decode(sent.properties)
        assert (sent.topic, sent.sys_flag) == ("%RETRY%g", 0x301)
        assert (sent.reconsume_times, sent.max_reconsume_times) == (3, 16)
        assert pairs["RETRY_TOPIC"] == "t"
        assert pairs["DELAY"] == "5"
        assert pairs["ORIGIN_MESSAGE_ID"] == messages[0].stored.offset_message_id
        assert pairs["color"] == "red"
        assert "TRAN_MSG" not in pairs
        assert world.cluster.requests[-1].body == messages[0].stored.stored_body

    encoded = world.encoded(color="red", TRAN_MSG="true")
    run(world, 1, part, encoded=encoded, sys_flag=0x301 | 0x8)


def test_a_hopeless_message_is_beyond_the_limit(world: Any) -> None:
    """So that the broker puts it to the dead letters, without a delay."""

    async def part(back: SendBack, messages: list[ReceivedMessage]) -> None:
        world.cluster.topics["%RETRY%g"] = 1
        assert await back(messages, DEAD_LETTER_LEVEL) == []
        (sent,) = asked(world, SEND, headers.SendMessageV2)
        assert (sent.reconsume_times, sent.max_reconsume_times) == (4, 3)
        assert world.cluster.seen.count(BACK) == 0

    settings = ConsumerSettings(retries_max=3)
    run(world, 1, part, ConsumerPlan(group="g", settings=settings, is_orderly=True))


def test_a_message_that_came_back_keeps_its_origin(world: Any) -> None:
    """Its topic and first id are those of the message that was sent by its producer."""

    async def part(back: SendBack, messages: list[ReceivedMessage]) -> None:
        world.cluster.topics["%RETRY%g"] = 1
        again = ReceivedMessage(messages[0].stored, world.queue(0, "%RETRY%g"))
        again.stored.properties.update(ORIGIN_MESSAGE_ID="first")
        assert await back.send(again, 0)
        (sent,) = asked(world, SEND, headers.SendMessageV2)
        assert properties.decode(sent.properties)["ORIGIN_MESSAGE_ID"] == "first"

    run(world, 1, part)


@pytest.mark.parametrize("orderly", [False, True])
def test_what_nobody_takes_is_returned(world: Any, orderly: bool) -> None:
    """In order: after one that failed no other is given back, so that none overtakes it."""

    async def part(back: SendBack, messages: list[ReceivedMessage]) -> None:
        world.cluster.on[BACK] = lambda peer, command: (
            peer.send(response(command, 0))
            if command.header(headers.SendMessageBack).offset == 0
            else world.cluster.refuse(peer, command, ResponseCode.SYSTEM_ERROR, "no")
        )
        assert await back(messages, 0) == (messages if orderly else messages[1:])
        assert world.cluster.seen.count(BACK) == (0 if orderly else 2)
        await world.cluster.stop()
        await asyncio.sleep(1)
        assert await back(messages, 0) == messages

    run(world, 3, part, ConsumerPlan(group="g", is_orderly=orderly))
