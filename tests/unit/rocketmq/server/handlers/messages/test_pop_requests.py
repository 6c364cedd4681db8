"""Consumers that pop, over the wire: messages once, and again if they are not acknowledged."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.broker.pop.pop_hold import QUEUE_COUNT_MAX
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.testing.disk import SimulatedDisk

FOUND, FAILED, TIMED_OUT, FULL, NO_MESSAGE, NOTHING = 0, 1, 210, 209, 208, 19


async def send(lab: Any, count: int, *, queue: int = 0, tag: str = "A") -> None:
    """Send messages to a queue of topic T."""
    for number in range(count):
        ext = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 7, "h": 0}
        ext["i"] = f"UNIQ_KEY\x01U{number}\x02KEYS\x01k\x02TAGS\x01{tag}\x02"
        assert (await lab.broker.call(310, ext, b"m%d" % number)).code == 0


def asked(lab: Any, **more: object) -> dict[str, Any]:
    """Return the fields of a pop of all queues of T by group g."""
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": -1}
    fields |= {"maxMsgNums": 32, "invisibleTime": 10_000, "pollTime": 0, "initMode": 0}
    return {**fields, "bornTime": lab.clock.now_ms(), **more}


async def pop(lab: Any, **more: object) -> Any:
    """Pop, and return the answer."""
    return await lab.broker.call(200050, asked(lab, **more))


def messages(answer: Any) -> list[StoredMessage]:
    """Return the messages of an answer."""
    found, data = [], memoryview(answer.body)
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(record.decode(data[:size]))
        data = data[size:]
    return found


def handles(answer: Any) -> list[tuple[Mapping[str, Any], str]]:
    """Return what names each message of an answer, as a client makes it."""
    ext = answer.ext_map()
    starts = {tuple(one.split()[:2]): one.split()[2] for one in ext["startOffsetInfo"].split(";")}
    found: list[tuple[Mapping[str, Any], str]] = []
    for one in ext["msgOffsetInfo"].split(";"):
        kind, queue, offsets = one.split()
        topic = {"0": "T", "1": "%RETRY%g_T", "2": "%RETRY%g+T"}[kind]
        for offset in offsets.split(","):
            text = [starts[kind, queue], ext["popTime"], ext["invisibleTime"], ext["reviveQid"]]
            text += [kind, "broker-a", queue, offset]
            place = {"consumerGroup": "g", "topic": topic, "queueId": queue, "offset": offset}
            found.append((place, " ".join(text)))
    return found


async def acknowledge(lab: Any, handle: tuple[Mapping[str, Any], str]) -> int:
    """Acknowledge a message, and return the code."""
    place, text = handle
    answer = await lab.broker.call(200051, {**place, "extraInfo": text})
    code: int = answer.code
    return code


async def popped_again(lab: Any) -> Any:
    """Pop until something comes."""
    async with asyncio.timeout(LONG_SECONDS):
        while (answer := await pop(lab)).code != FOUND:
            await asyncio.sleep(0.01)
    return answer


def test_each_message_is_given_once(on_node: Callable[..., None]) -> None:
    """From all queues; then there is nothing, and what is acknowledged does not come again."""

    async def scenario(lab: Any) -> None:
        for queue in range(3):
            await send(lab, 2, queue=queue)
        answer = await pop(lab)
        assert sorted(one.queue_id for one in messages(answer)) == [0, 0, 1, 1, 2, 2]
        assert answer.ext_map()["restNum"] == "0"
        assert (await pop(lab)).code == TIMED_OUT
        for handle in handles(answer):
            assert await acknowledge(lab, handle) == 0
            assert await acknowledge(lab, handle) == 0, "twice is as once"
        lab.clock.advance(60_000)
        await asyncio.sleep(0.25)
        assert (await pop(lab)).code == TIMED_OUT
        assert lab.node.broker.offsets.get("g", "T", 1) == 2

    on_node(scenario)


def test_what_is_not_acknowledged_comes_again(on_node: Callable[..., None]) -> None:
    """After its time, as one delivery more; and again."""

    async def scenario(lab: Any) -> None:
        await send(lab, 3)
        answer = await pop(lab, invisibleTime=5_000)
        assert await acknowledge(lab, handles(answer)[1]) == 0
        lab.clock.advance(4_900)
        await asyncio.sleep(0.25)
        assert (await pop(lab)).code == TIMED_OUT
        lab.clock.advance(200)
        first = await popped_again(lab)
        assert [(one.body, one.reconsume_times) for one in messages(first)] == [
            (b"m0", 1),
            (b"m2", 1),
        ]
        at_ms = answer.ext_map()["popTime"]
        assert [one.properties["1ST_POP_TIME"] for one in messages(first)] == [at_ms] * 2
        assert await acknowledge(lab, handles(first)[0]) == 0
        lab.clock.advance(11_000)
        second = await popped_again(lab)
        assert [(one.body, one.reconsume_times) for one in messages(second)] == [(b"m2", 2)]
        assert messages(second)[0].properties["1ST_POP_TIME"] == at_ms

    on_node(scenario)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_end_of_a_process_changes_nothing(on_node: Callable[..., None], end: str) -> None:
    """What was acknowledged does not come again, what was not comes when it is due."""
    disk = SimulatedDisk()
    told: list[Any] = []

    async def before(lab: Any) -> None:
        await send(lab, 3)
        answer = await pop(lab)
        assert await acknowledge(lab, handles(answer)[1]) == 0
        told.append(disk.kill())

    async def after(lab: Any) -> None:
        assert (await pop(lab)).code == TIMED_OUT
        lab.clock.advance(11_000)
        assert [one.body for one in messages(await popped_again(lab))] == [b"m0", b"m2"]

    on_node(before, disk=disk)
    on_node(after, disk=told[0] if end == "kill" else disk)


def test_a_pop_waits_for_a_message(on_node: Callable[..., None]) -> None:
    """Of the queue that it asks for, or of any; until its time is over."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        await pop(lab)
        waiting = asyncio.ensure_future(pop(lab, queueId=1, pollTime=20_000))
        await asyncio.sleep(0.05)
        polls = {"consumerGroup": "g", "topic": "T", "queueId": 1}
        assert (await lab.broker.call(200055, polls)).ext_map() == {"pollingNum": "1"}
        await send(lab, 1, queue=0)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await send(lab, 1, queue=1)
        assert [one.queue_id for one in messages(await waiting)] == [1]
        assert (await pop(lab)).code == FOUND
        assert (await pop(lab, pollTime=60)).code == TIMED_OUT
        late = await pop(lab, bornTime=lab.clock.now_ms() - 1_000, pollTime=100)
        assert late.code == TIMED_OUT

    on_node(scenario)


def test_who_asks_whether_there_is_something(on_node: Callable[..., None]) -> None:
    """At once, or when it comes; nothing is popped, and peeking shows it."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        fields = {"consumerGroup": "g", "topic": "T", "queueId": -1, "pollTime": 0, "bornTime": 0}
        has = await lab.broker.call(200054, fields)
        assert has.ext_map() == {"hasMsg": "true", "pollingFull": "false"}
        peek = {"consumerGroup": "g", "topic": "T", "queueId": 0, "maxMsgNums": 5}
        assert [one.body for one in messages(await lab.broker.call(200052, peek))] == [b"m0"]
        assert (await pop(lab)).code == FOUND
        assert (await lab.broker.call(200052, peek)).code == NOTHING
        has = await lab.broker.call(200054, fields)
        assert has.ext_map()["hasMsg"] == "false"
        waiting = asyncio.ensure_future(lab.broker.call(200054, fields | {"pollTime": 20_000}))
        await asyncio.sleep(0.05)
        await send(lab, 1)
        assert (await waiting).ext_map()["hasMsg"] == "true"

    on_node(scenario)


def test_when_a_message_comes_again_may_be_changed(on_node: Callable[..., None]) -> None:
    """The new handle counts then; the old one does nothing, and a late change neither."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        place, text = handles(await pop(lab, invisibleTime=5_000))[0]
        change = {**place, "extraInfo": text, "invisibleTime": 60_000}
        answer = (await lab.broker.call(200053, change)).ext_map()
        assert answer["invisibleTime"] == "60000"
        fields = text.split()
        fields[:3] = [place["offset"], answer["popTime"], answer["invisibleTime"]]
        lab.clock.advance(30_000)
        await asyncio.sleep(0.25)
        assert (await pop(lab)).code == TIMED_OUT
        assert (await lab.broker.call(200053, change)).code == 0, "of a message that has gone on"
        assert await acknowledge(lab, (place, " ".join(fields))) == 0
        lab.clock.advance(60_000)
        await asyncio.sleep(0.25)
        assert (await pop(lab)).code == TIMED_OUT

    on_node(scenario)


def test_several_are_acknowledged_at_once(on_node: Callable[..., None]) -> None:
    """By a bit for each message of the pop."""

    async def scenario(lab: Any) -> None:
        await send(lab, 10)
        ext = (await pop(lab)).ext_map()
        bits = base64.b64encode((0b1011111101).to_bytes(2, "little")).decode()
        entry = {"b": bits, "c": "g", "t": "T", "q": 0, "so": 0, "r": "0", "rq": 0}
        entry |= {"pt": int(ext["popTime"]), "it": int(ext["invisibleTime"])}
        body = json.dumps({"acks": [entry], "brokerName": "broker-a"}).encode()
        assert (await lab.broker.call(200151, {}, body)).code == 0
        lab.clock.advance(11_000)
        assert [one.body for one in messages(await popped_again(lab))] == [b"m1", b"m8"]
        assert (await lab.broker.call(200151, {})).code == NO_MESSAGE

    on_node(scenario)


def test_only_what_is_wanted_is_popped(on_node: Callable[..., None]) -> None:
    """By tag; what is not wanted is passed over."""

    async def scenario(lab: Any) -> None:
        await send(lab, 2, tag="A")
        await send(lab, 1, tag="B")
        found = await pop(lab, exp="B", expType="TAG")
        assert [one.tags for one in messages(found)] == ["B"]
        assert (await pop(lab)).code == TIMED_OUT
        await send(lab, 1, tag="A")
        assert (await pop(lab, exp="B", expType="TAG")).code == TIMED_OUT
        assert (await pop(lab, exp="A", expType="TAG")).code == TIMED_OUT, "it was passed over"

    on_node(scenario)


def test_a_new_group_begins_where_it_says(on_node: Callable[..., None]) -> None:
    """At the first message; at the last one, too, while the log has all and is short."""

    async def scenario(lab: Any) -> None:
        await send(lab, 3)
        assert len(messages(await pop(lab, consumerGroup="first", initMode=0))) == 3
        assert len(messages(await pop(lab, consumerGroup="last", initMode=1))) == 3

    on_node(scenario)


def ordered(lab: Any, attempt: str, **more: object) -> Any:
    """Pop in order, and return the answer."""
    fields = {"order": "true", "attemptId": attempt, "maxMsgNums": 2, "invisibleTime": 5_000}
    return pop(lab, **{**fields, **more})


def test_messages_in_order_come_one_after_the_other(on_node: Callable[..., None]) -> None:
    """The next when these are settled; whoever waits gets them then; the same attempt at once."""

    async def scenario(lab: Any) -> None:
        await send(lab, 3)
        first = await ordered(lab, "one")
        assert [one.body for one in messages(first)] == [b"m0", b"m1"]
        assert (first.ext_map()["reviveQid"], first.ext_map()["orderCountInfo"]) == ("999", "0 0 0")
        assert (await ordered(lab, "two")).code == TIMED_OUT
        first = await ordered(lab, "one")
        waiting = asyncio.ensure_future(ordered(lab, "two", pollTime=20_000))
        for handle in reversed(handles(first)):
            assert lab.node.broker.offsets.get("g", "T", 0) == 0
            assert await acknowledge(lab, handle) == 0
        assert [one.body for one in messages(await waiting)] == [b"m2"]
        assert lab.node.broker.offsets.get("g", "T", 0) == 2

    on_node(scenario)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_messages_in_order_come_again_when_it_is_time(
    on_node: Callable[..., None], end: str
) -> None:
    """The same ones, also by another process, to who waits; but not what was acknowledged."""
    disk = SimulatedDisk()
    told: list[Any] = []

    async def before(lab: Any) -> None:
        await send(lab, 3)
        assert await acknowledge(lab, handles(await ordered(lab, "one", maxMsgNums=3))[1]) == 0
        told.append(disk.kill())

    async def after(lab: Any) -> None:
        assert (await ordered(lab, "two")).code == TIMED_OUT
        waiting = asyncio.ensure_future(ordered(lab, "three", maxMsgNums=3, pollTime=20_000))
        await asyncio.sleep(0.05)
        lab.clock.advance(5_100)
        answer = await waiting
        assert [one.body for one in messages(answer)] == [b"m0", b"m2"]
        assert answer.ext_map()["orderCountInfo"] == "0 qo0%0 1;0 qo0%2 1;0 0 1"

    on_node(before, disk=disk)
    on_node(after, disk=told[0] if end == "kill" else disk)


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        (200050, {"topic": "none"}, 17),
        (200050, {"maxMsgNums": 33}, 29),
        (200050, {"queueId": 99}, 29),
        (200050, {"exp": "a >", "expType": "SQL92"}, 23),
        (200051, {"topic": "none", "offset": 0, "extraInfo": "0 1 1 0 0 broker-a 0 0"}, 17),
        (200051, {"queueId": 99, "offset": 0, "extraInfo": "0 1 1 0 0 broker-a 0 0"}, 13),
        (200051, {"queueId": 0, "offset": 99, "extraInfo": "0 1 1 0 0 broker-a 0 9"}, 208),
        (200051, {"queueId": 0, "offset": 0, "extraInfo": "handle"}, 1),
        (200053, {"queueId": 0, "offset": 3, "extraInfo": "0 1 1 0 0 broker-a 0 3"}, 208),
    ],
)
def test_what_is_refused(
    on_node: Callable[..., None], code: int, fields: Mapping[str, object], expected: int
) -> None:
    """With RocketMQ's codes."""

    async def scenario(lab: Any) -> None:
        await send(lab, 3)
        answer = await lab.broker.call(code, {**asked(lab), **fields})
        assert answer.code == expected, answer.remark

    on_node(scenario)


def test_a_deleted_topic_takes_its_pops_along(on_node: Callable[..., None]) -> None:
    """What was popped of it does not come again."""

    async def scenario(lab: Any) -> None:
        await send(lab, 2)
        await pop(lab)
        assert len(lab.node.broker.in_flight) == 1
        assert (await lab.broker.call(215, {"topic": "T"})).code == 0
        assert len(lab.node.broker.in_flight) == 0

    on_node(scenario)


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_changes_no_invisible_time(
    on_node: Callable[..., None], step_ms: int
) -> None:
    """By an hour, either way: the message does not come before its time, and then it does."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        await pop(lab)
        lab.clock.step_wall(step_ms)
        await asyncio.sleep(0.25)
        assert (await pop(lab)).code == TIMED_OUT
        lab.clock.advance(21_000)
        assert [one.reconsume_times for one in messages(await popped_again(lab))] == [1]

    on_node(scenario)


def test_nobody_waits_longer_than_they_ask_for(on_node: Callable[..., None]) -> None:
    """Even if the client's clock is an hour ahead."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        await pop(lab)
        ahead = lab.clock.now_ms() + 3_600_000
        async with asyncio.timeout(LONG_SECONDS):
            assert (await pop(lab, bornTime=ahead, pollTime=60)).code == TIMED_OUT
            longest = (1 << 63) - 1
            assert (await pop(lab, bornTime=3, pollTime=longest)).code == TIMED_OUT
            assert (await pop(lab, bornTime=longest, pollTime=20_000)).code == TIMED_OUT

    on_node(scenario)


def test_administrators_see_what_is_in_flight(on_node: Callable[..., None]) -> None:
    """As of consumers that pull: between where the group goes on and where it has popped to."""

    async def in_flight(lab: Any) -> tuple[int, int]:
        answer = await lab.broker.call(208, {"consumerGroup": "g", "topic": "T"})
        told = fastjson.read(answer.body.decode())["offsetTable"]
        queue = next(one for key, one in told.items() if key["queueId"] == 0)
        return queue["consumerOffset"], queue["pullOffset"]

    async def scenario(lab: Any) -> None:
        await send(lab, 5)
        first = await pop(lab, maxMsgNums=3)
        assert await in_flight(lab) == (0, 3)
        for handle in handles(first):
            await acknowledge(lab, handle)
        assert await in_flight(lab) == (3, 3)
        second = await ordered(lab, "one", queueId=0)
        assert await in_flight(lab) == (3, 5)
        for handle in handles(second):
            await acknowledge(lab, handle)
        assert await in_flight(lab) == (5, 5)

    on_node(scenario)


def test_only_so_many_pops_wait(on_node: Callable[..., None]) -> None:
    """For one queue of a group; one more is told so at once, and asks for a sign as well."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        await pop(lab)
        fields = asked(lab, queueId=1, pollTime=20_000)
        waiting = [lab.broker.send(200050, fields) for _ in range(QUEUE_COUNT_MAX)]
        assert (await lab.broker.call(200050, fields)).code == FULL
        assert (await pop(lab, queueId=0, pollTime=20)).code == TIMED_OUT, "another queue"
        sign = {name: fields[name] for name in ("consumerGroup", "topic", "queueId")}
        sign |= {"pollTime": 20_000, "bornTime": 0}
        signs = [lab.broker.send(200054, sign) for _ in range(QUEUE_COUNT_MAX)]
        answer = await lab.broker.call(200054, sign)
        assert answer.ext_map() == {"hasMsg": "false", "pollingFull": "true"}
        await send(lab, 1, queue=1)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(LONG_SECONDS):
            assert [(await one).ext_map()["hasMsg"] for one in signs] == ["true"] * len(signs)
        assert sum(one.done() for one in waiting) == 1

    on_node(scenario)


def test_a_disk_that_is_full_gives_nothing(on_node: Callable[..., None]) -> None:
    """What cannot be noted is not popped, nor acknowledged; when there is room again, it is."""
    disk = SimulatedDisk()

    async def scenario(lab: Any) -> None:
        await send(lab, 4)
        first = await pop(lab, maxMsgNums=2)
        disk.is_full = True
        for more in ({}, {"order": "true", "attemptId": "one", "queueId": 0}):
            assert (await pop(lab, **more)).code == FAILED
        assert await acknowledge(lab, handles(first)[0]) == FAILED
        disk.is_full = False
        assert [one.body for one in messages(await pop(lab))] == [b"m2", b"m3"]
        assert await acknowledge(lab, handles(first)[0]) == 0
        lab.clock.advance(11_000)
        again = [one.body for one in messages(await popped_again(lab))]
        assert again[:1] == [b"m1"], "the first was acknowledged"

    on_node(scenario, disk=disk)


def test_a_message_wakes_one_of_each_group(on_node: Callable[..., None]) -> None:
    """Who waits is not held up by another group; others of the group wait on."""

    async def scenario(lab: Any) -> None:
        await send(lab, 1)
        waiting = []
        for group in ("g", "g", "h"):
            await pop(lab, consumerGroup=group)
            fields = asked(lab, consumerGroup=group, pollTime=20_000)
            waiting.append(lab.broker.send(200050, fields))
        await send(lab, 1)
        for number in (0, 2):
            assert (await waiting[number]).code == FOUND
        assert not waiting[1].done()

    on_node(scenario)
