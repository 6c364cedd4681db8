"""Administrators move groups; consumers learn of it from their next pull."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.rocketmq.server.handlers.groups.test_clients import heartbeat
from tests.unit.rocketmq.server.handlers.messages.test_pull import pull_ext
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec import bodies


async def filled(lab: Any) -> None:
    """Put three messages into queue 0 of T, and have group g be there."""
    for number in range(3):
        await lab.message(body=b"%d" % number)
        lab.clock.advance(1000)
    await lab.broker.call(34, None, heartbeat("c1", "T"))


async def reset(lab: Any, **fields: Any) -> dict[int, int]:
    """Reset group g in T; return the new offsets by queue."""
    answer = await lab.broker.call(222, {"topic": "T", "group": "g", "isForce": "true", **fields})
    assert answer.code == 0, answer.remark
    offsets = bodies.decode_offsets(answer.body)
    return {queue.queue_id: offset for queue, offset in offsets.items()}


async def committed(lab: Any, group: str = "g", queue: int = 0, topic: str = "T") -> int | None:
    """Return what a group has committed."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
    answer = await lab.broker.call(14, fields | {"setZeroIfNotFound": "false"})
    return int(answer.ext_map()["offset"]) if answer.code == 0 else None


async def commit(lab: Any, offset: int, group: str = "g", queue: int = 0) -> str | None:
    """Commit an offset; return the remark."""
    fields = {"consumerGroup": group, "topic": "T", "queueId": queue, "commitOffset": offset}
    answer = await lab.broker.call(15, fields)
    assert answer.code == 0
    return None if answer.remark is None else str(answer.remark)


def test_a_reset_is_learnt_from_the_next_pull(on_node: Callable[..., None]) -> None:
    """Until then commits are ignored, and so is the one that comes with this pull."""

    async def scenario(lab: Any) -> None:
        await filled(lab)
        await commit(lab, 3)
        assert await reset(lab, timestamp=0) == {0: 0, 1: 0, 2: 0, 3: 0}
        assert await committed(lab) == 0
        assert await commit(lab, 2) == "Offset has been previously reset"
        assert await committed(lab) == 0
        pulled = await lab.broker.call(11, pull_ext(3, sysFlag=5, commitOffset=3))
        assert (pulled.code, pulled.remark) == (21, "OFFSET_RESET")
        fields = pulled.ext_map()
        assert (fields["nextBeginOffset"], fields["minOffset"], fields["maxOffset"]) == (
            "0",
            "0",
            "3",
        )
        assert await committed(lab) == 0
        assert (await lab.broker.call(11, pull_ext(0))).code == 0
        assert await commit(lab, 1) is None
        assert await committed(lab) == 1
        assert lab.broker.pushed.qsize() == 1  # that the group has changed, when it came in

    on_node(scenario)


def test_a_waiting_pull_learns_of_it_at_once(on_node: Callable[..., None]) -> None:
    """It does not wait for a message first."""

    async def scenario(lab: Any) -> None:
        await filled(lab)
        waiting = lab.broker.send(11, pull_ext(3, sysFlag=6, suspendTimeoutMillis=15_000))
        other = await lab.connect()
        await other.call(222, {"topic": "T", "group": "g", "timestamp": 0, "queueId": 0})
        pulled = await asyncio.wait_for(waiting, LONG_SECONDS)
        assert (pulled.code, pulled.ext_map()["nextBeginOffset"]) == (21, "0")

    on_node(scenario)


def test_a_reset_goes_to_a_time_the_end_or_an_offset(on_node: Callable[..., None]) -> None:
    """A time, the end, an offset of one queue; all as they lie in the queues."""

    async def scenario(lab: Any) -> None:
        await filled(lab)
        now = lab.clock.now_ms()
        assert (await reset(lab, timestamp=now - 2000))[0] == 1
        assert (await reset(lab, timestamp=-1)) == {0: 3, 1: 0, 2: 0, 3: 0}
        assert await reset(lab, timestamp=-1, queueId=0) == {0: 3}
        assert await reset(lab, timestamp=-1, queueId=0, offset=2) == {0: 2}
        assert await reset(lab, timestamp=-1, queueId=0, offset=-1) == {0: 3}
        assert await reset(lab, queueId=0, offset=4) == {0: 4}
        assert await reset(lab, timestamp=-1, queueId=9) == {9: 0}
        assert (await reset(lab, timestamp=-1, offset=1))[0] == 3
        assert (await reset(lab))[0] == 0

    on_node(scenario)


def test_a_reset_that_is_refused_moves_nothing(on_node: Callable[..., None]) -> None:
    """Each by its code; nothing is moved."""

    async def scenario(lab: Any) -> None:
        await filled(lab)
        for fields, code, remark in (
            ({"topic": "nope"}, 17, "Topic nope does not exist"),
            ({"group": "nope"}, 26, "Group nope does not exist"),
            (
                {"queueId": 0, "offset": 5},
                1,
                "Target offset 5 not in consume queue range [0-3]",
            ),
        ):
            base = {"topic": "T", "group": "g", "timestamp": -1}
            answer = await lab.broker.call(222, base | fields)
            assert (answer.code, answer.remark) == (code, remark)
        assert await committed(lab) is None

    on_node(scenario)


def test_a_group_takes_over_anothers_offsets(on_node: Callable[..., None]) -> None:
    """In one topic or in all; one that is online and does not want the topic gets none."""

    async def scenario(lab: Any) -> None:
        await filled(lab)
        await commit(lab, 2)
        clone = {"srcGroup": "g", "offline": "true"}
        assert (await lab.broker.call(314, clone | {"destGroup": "a", "topic": "T"})).code == 0
        assert (await lab.broker.call(314, clone | {"destGroup": "b"})).code == 0
        assert [await committed(lab, group) for group in "ab"] == [2, 2]
        await lab.broker.call(34, None, heartbeat("c1", "Other", group="c"))
        online = clone | {"destGroup": "c", "offline": "false"}
        assert (await lab.broker.call(314, online)).code == 0
        assert await committed(lab, "c") is None
        await lab.broker.call(34, None, heartbeat("c1", "Other", "T", group="c"))
        await lab.broker.call(314, online)
        assert await committed(lab, "c") == 2
        await lab.broker.call(314, {"srcGroup": "none", "destGroup": "c", "topic": "T"})
        assert await committed(lab, "c") == 2

    on_node(scenario)


def test_the_smallest_offsets_of_all_groups(on_node: Callable[..., None]) -> None:
    """Groups may be forgotten first, in every topic."""

    async def scenario(lab: Any) -> None:
        await filled(lab)
        for group, offset in (("g", 1), ("h", 2), ("i", 3)):
            await lab.broker.call(34, None, heartbeat("c1", "T", group=group))
            await commit(lab, offset, group)
        await commit(lab, 7, "i", 2)
        ask = {"topic": "T", "compareGroup": "g"}
        answer = await lab.broker.call(308, ask)
        assert answer.body == b'{"correctionOffsets":{0:1,2:7}}'
        answer = await lab.broker.call(308, ask | {"filterGroups": "g,i"})
        assert answer.body == b'{"correctionOffsets":{0:2}}'
        assert [await committed(lab, group) for group in "ghi"] == [None, 2, None]
        answer = await lab.broker.call(308, ask | {"topic": "none"})
        assert answer.body == b'{"correctionOffsets":{}}'

    on_node(scenario)
