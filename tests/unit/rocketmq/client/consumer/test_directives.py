"""A consumer does what a broker asks of it, and says what it is doing."""

import asyncio
import json
from typing import Any

import pytest

from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.consumer import PushConsumer
from sprocket.rocketmq.client.consumer.delivery import DeliverLater
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerStatus, QueueOffsets
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.headers import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
    ResetOffset,
)

Got = list[ReceivedMessage]
RESET = ResetOffset(topic="t", group="g", timestamp=0, is_force=True)


def consumer(world: Any, listener: Any, *, orderly: bool = False) -> PushConsumer:
    """Return a consumer of group `g`."""
    return PushConsumer(
        world.names,
        group="g",
        listener=listener,
        orderly=orderly,
        start="first",
        settings=ConsumerSettings(commit_ms=100_000),
        **world.reach,
    )


def fill(world: Any, count: int) -> None:
    """Put messages 0 to count − 1 into the one queue of topic `t`."""
    world.cluster.topics["t"] = 1
    for number in range(count):
        world.cluster.store("t", 0, b"%d" % number)


async def ask(world: Any, code: RequestCode, header: Any, body: bytes = b"") -> Any:
    """Ask the one member of the group; return its answer."""
    world.cluster.ask(world.cluster.members["g"][0], code, header, body)
    before = len(world.cluster.answers)
    await world.until(lambda: len(world.cluster.answers) > before)
    return world.cluster.answers[-1]


@pytest.mark.parametrize("orderly", [False, True])
def test_a_reset_moves_what_is_held(world: Any, orderly: bool) -> None:
    """Back or forth, after the listener has returned; the new offset is stored at once."""

    async def main() -> None:
        got: Got = []

        async def listener(messages: Got) -> None:
            await asyncio.sleep(1)
            got.extend(messages)

        fill(world, 40)
        async with consumer(world, listener, orderly=orderly) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 40)
            tasks = len(asyncio.all_tasks())
            offsets = {world.queue(0): 30, world.queue(5): 7}
            body = bodies.encode(QueueOffsets(offsets))
            member = world.cluster.members["g"][0]
            code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            world.cluster.ask(member, code, RESET, body, oneway=True)
            await world.until(lambda: world.cluster.committed.get(("g", "t", 0)) == 30)
            await world.until(lambda: len(got) == 50)
            assert len(asyncio.all_tasks()) == tasks
            assert ("g", "t", 5) not in world.cluster.committed
        assert [int(one.body) for one in got[40:]] == list(range(30, 40))
        assert world.cluster.committed["g", "t", 0] == 40

    world.run(main)


def test_a_status_tells_how_far_it_is(world: Any) -> None:
    """From memory, of the topic that was asked for."""

    async def main() -> None:
        got: Got = []
        fill(world, 5)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 5)
            code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
            answer = await ask(world, code, GetConsumerStatus(topic="t", group="g"))
            assert bodies.decode_request(ConsumerStatus, answer.body).offsets == {world.queue(0): 5}
            answer = await ask(world, code, GetConsumerStatus(topic="other", group="g"))
            assert bodies.decode_request(ConsumerStatus, answer.body).offsets == {}

    world.run(main)


@pytest.mark.parametrize("stacks", [False, True])
def test_a_running_info_tells_what_it_does(world: Any, stacks: bool) -> None:
    """Its subscriptions, what it holds of each queue, and how it did; if asked, where it is."""

    async def main() -> None:
        hangs = asyncio.Event()

        async def listener(messages: Got) -> None:
            if messages[0].queue_offset:
                await hangs.wait()

        fill(world, 1)
        async with consumer(world, listener) as reader:
            await reader.subscribe("t", "*")
            await world.until(lambda: world.cluster.requests[-1].code == RequestCode.PULL_MESSAGE)
            await asyncio.sleep(1)
            for number in range(1, 5):
                world.cluster.store("t", 0, b"%d" % number)
            await asyncio.sleep(1)
            header = GetConsumerRunningInfo(
                consumer_group="g",
                client_id=world.cluster.members["g"][0],
                jstack_enable=stacks,
            )
            answer = await ask(world, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            hangs.set()
        info = fastjson.read(answer.body)
        ((queue, held),) = info["mqTable"].items()
        assert (queue["topic"], queue["queueId"]) == ("t", 0)
        cached = (
            held["cachedMsgCount"], held["cachedMsgMinOffset"], held["cachedMsgMaxOffset"]
        )  # fmt: skip
        assert cached == (4, 1, 4)
        assert held["commitOffset"] == 1
        assert abs(held["lastPullTimestamp"] - world.clock.now_ms()) < 10_000
        assert (held["locked"], held["lastLockTimestamp"]) == (False, 0)
        assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info["properties"]["PROP_CONSUMEORDERLY"] == "false"
        assert info["properties"]["PROP_NAMESERVER_ADDR"] == world.names
        assert {one["topic"] for one in info["subscriptionSet"]} == {"t", "%RETRY%g"}
        assert info["statusTable"]["t"]["consumeOKTPS"] > 0
        assert ("test_directives" in info.get("jstack", "")) == stacks

    world.run(main)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (None, "CR_SUCCESS"),
        (DeliverLater("closed"), "CR_LATER"),
        (ValueError("bug"), "CR_THROW_EXCEPTION"),
    ],
)
def test_one_message_can_be_tried(world: Any, error: Exception | None, result: str) -> None:
    """The listener gets it as if it had come from its queue; nothing else happens."""

    async def main() -> None:
        got: Got = []

        async def listener(messages: Got) -> None:
            got.extend(messages)
            await asyncio.sleep(0.2)
            if error is not None:
                raise error

        world.cluster.topics["t"] = 1
        world.cluster.store("%RETRY%g", 7, b"0", world.encoded(RETRY_TOPIC="t"))
        (stored,) = world.cluster.log["%RETRY%g", 7]
        async with consumer(world, listener, orderly=True) as reader:
            await reader.subscribe("t")
            header = ConsumeMessageDirectly(consumer_group="g", broker_name="b", msg_id="m")
            answer = await ask(world, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, stored)
            said = json.loads(answer.body)
        assert [(one.topic, one.body, one.queue.broker_name) for one in got] == [("t", b"0", "b")]
        assert (said["consumeResult"], said["order"]) == (result, True)
        assert 190 <= said["spentTimeMills"] <= 300
        assert ("remark" in said) == (error is not None)

    world.run(main)


@pytest.mark.parametrize(
    ("code", "header", "body"),
    [
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeMessageDirectly(consumer_group="g"), b"no"),
        (RequestCode.GET_CONSUMER_RUNNING_INFO, ConsumeMessageDirectly(consumer_group="g"), b""),
    ],
)
def test_what_cannot_be_understood_is_refused(
    world: Any, code: RequestCode, header: Any, body: bytes
) -> None:
    """With a reason; the consumer goes on."""

    async def main() -> None:
        got: Got = []
        fill(world, 1)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            answer = await ask(world, code, header, body)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark
            member = world.cluster.members["g"][0]
            reset = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            world.cluster.ask(member, reset, RESET, b"no", oneway=True)
            await world.until(lambda: len(got) == 1)

    world.run(main)


def test_a_loop_cannot_be_tried(world: Any) -> None:
    """There is no listener to give the message to."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with PushConsumer(world.names, group="g", **world.reach) as reader:
            await reader.subscribe("t")
            header = ConsumeMessageDirectly(consumer_group="g")
            answer = await ask(world, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, b"")
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "this consumer has no listener",
        )

    world.run(main)
