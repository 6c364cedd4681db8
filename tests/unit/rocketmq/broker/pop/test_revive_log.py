"""What is in flight when a broker stops is known to who goes on: ours, RocketMQ's, and back."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.rocketmq.server.handlers.messages.test_pop_requests import (
    TIMED_OUT,
    acknowledge,
    handles,
    messages,
    ordered,
    pop,
    popped_again,
    send,
)

from sprocket.base.disk import read_file, replace_file
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.record import pop_records, record
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.model.pop import REVIVE_GROUP, revive_topic
from sprocket.testing import quiet
from sprocket.testing.disk import SimulatedDisk

OFFSETS = "/store/config/consumerOffset.json"
TOPIC = revive_topic("DefaultCluster")
SECONDS = 20.0


def without_our_line(disk: SimulatedDisk) -> None:
    """Make the offsets' file one that RocketMQ has written since."""
    content = fastjson.read(read_file(disk, OFFSETS))
    del content["sprocketSequence"]
    replace_file(disk, OFFSETS, fastjson.write(content))


@pytest.mark.parametrize("was_rocketmq_here", [False, True])
def test_what_is_in_flight_goes_on(
    on_node: Callable[..., None], *, was_rocketmq_here: bool
) -> None:
    """What was acknowledged before, and after by an old handle, does not come; the rest does."""
    disk = SimulatedDisk()
    told: list[Any] = []

    async def before(lab: Any) -> None:
        await send(lab, 4)
        told.extend(handles(await pop(lab, maxMsgNums=3, invisibleTime=20_000)))
        assert await acknowledge(lab, told[0]) == 0

    async def after(lab: Any) -> None:
        offsets = lab.node.broker.offsets
        assert offsets.get("g", "T", 0) == 3, "the topic of pops has the rest"
        assert [one.body for one in messages(await pop(lab, invisibleTime=90_000))] == [b"m3"]
        assert await acknowledge(lab, told[1]) == 0
        lab.clock.advance(19_500)
        await quiet.settle(lab.node, SECONDS)
        assert (await pop(lab)).code == TIMED_OUT
        lab.clock.advance(5_000)
        assert [one.body for one in messages(await popped_again(lab))] == [b"m2"]
        lab.clock.advance(3_600_000)
        await quiet.settle(lab.node, SECONDS)
        async with asyncio.timeout(SECONDS):
            while not any(offsets.get(REVIVE_GROUP, TOPIC, queue) == 0 for queue in range(8)):
                await asyncio.sleep(0.01)
        bodies = [one.body for one in messages(await popped_again(lab))]
        assert sorted(bodies) == [b"m2", b"m3"], "each once"

    on_node(before, disk=disk)
    if was_rocketmq_here:
        without_our_line(disk)
    on_node(after, disk=disk)


def test_a_stop_leaves_what_rocketmq_reads(on_node: Callable[..., None]) -> None:
    """A checkpoint in the wheel, a second before it is due; of nothing else, and once."""
    disk = SimulatedDisk()
    told: list[Any] = []

    async def before(lab: Any) -> None:
        await send(lab, 4)
        answer = await pop(lab, maxMsgNums=2, invisibleTime=20_000)
        told.append(answer.ext_map())
        assert await acknowledge(lab, handles(answer)[1]) == 0
        done = await pop(lab, maxMsgNums=1)
        assert await acknowledge(lab, handles(done)[0]) == 0
        await ordered(lab, "one", queueId=0)

    async def again(lab: Any) -> None:
        assert lab.node.broker.in_flight.unwritten() == []

    async def after(lab: Any) -> None:
        store = lab.node.broker.store
        found = store.get_messages(TIMER_TOPIC, 0, 0).records
        assert len(found) == 1
        left = record.decode(found[0])
        said = pop_records.decode_checkpoint(left.body)
        at_ms = int(told[0]["popTime"])
        assert (said.start, said.popped_at_ms, said.invisible_ms) == (0, at_ms, 20_000)
        assert (said.topic, said.group, said.queue_id, said.count) == ("T", "g", 0, 2)
        assert (said.acked, said.broker) == (0b10, "broker-a")
        assert left.properties["REAL_TOPIC"] == TOPIC
        assert left.properties["REAL_QID"] == told[0]["reviveQid"]
        assert left.properties["TIMER_OUT_MS"] == str(at_ms + 19_000)
        assert left.properties["TIMER_DELIVER_MS"] == str(at_ms + 19_000)
        assert left.tags == "ck"

    on_node(before, disk=disk)
    on_node(again, disk=disk)
    on_node(after, disk=disk)
