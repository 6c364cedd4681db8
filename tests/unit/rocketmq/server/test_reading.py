"""Whatever a request reads, the event loop does not wait for the disk."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.rocketmq.server.conftest import ColdDisk, until
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.broker.delay import delay
from sprocket.rocketmq.settings import LimitSettings

SEND = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "f": 0, "g": 7, "h": 0}
PULL = {"consumerGroup": "g", "topic": "T", "queueId": 0, "queueOffset": 3, "maxMsgNums": 32} | {
    "sysFlag": 4,
    "commitOffset": 0,
    "suspendTimeoutMillis": 0,
    "subVersion": 0,
    "subscription": "*",
}
QUEUE = {"topic": "T", "queueId": 0}
HEARTBEAT = b'{"clientID":"c1","consumerDataSet":[],"producerDataSet":[{"groupName":"p"}]}'
QUERY = {"topic": "T", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 2**63 - 1}

REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "pull": (11, PULL),
    "pull, filtered": (11, PULL | {"subscription": "a"}),
    "pull of many": (11, PULL | {"queueOffset": 0, "maxMsgNums": 1024}),
    "where a new group begins": (14, QUEUE | {"consumerGroup": "new", "setZeroIfNotFound": "true"}),
    "search by time": (29, QUEUE | {"timestamp": 1_700_000_007_500}),
    "earliest time": (32, QUEUE),
    "query by key": (12, QUERY | {"key": "k"}),
    "query by a key with a long chain": (12, QUERY | {"key": "k3"}),
    "view by id": (33, {"offset": 0}),
    "queue units": (321, QUEUE | {"index": 1, "count": 100}),
    "topic stats": (202, {"topic": "T"}),
    "group stats": (208, {"consumerGroup": "g"}),
    "all groups' stats": (317, {"isOrder": "false"}),
    "time spans": (303, {"topic": "T", "group": "g"}),
    "reset by time": (222, {"topic": "T", "group": "g", "timestamp": 1_700_000_007_500}),
    "send back": (36, {"offset": 0, "group": "g", "delayLevel": 1, "originTopic": "T"}),
    "runtime info": (28, {}),
}


async def fill(lab: Any) -> None:
    """Store messages in two queues, with tags and keys, and commit offsets."""
    for number in range(40):
        lab.clock.advance(500)
        keys = f"UNIQ_KEY\x01U{number}\x02KEYS\x01k k{number}\x02TAGS\x01{'ab'[number % 2]}\x02"
        await lab.broker.call(310, SEND | {"e": number % 2, "i": keys}, b"m%d" % number)
    for queue in (0, 1):
        where = {"consumerGroup": "g", "topic": "T", "queueId": queue}
        await lab.broker.call(11, PULL | where)
        await lab.broker.call(15, where | {"commitOffset": 5})


@pytest.mark.parametrize("name", REQUESTS)
def test_all_is_read_by_other_threads_after_a_restart(
    on_node: Callable[..., None], name: str
) -> None:
    """Then the answer is what it was while all was in memory; each read may stall meanwhile.

    While it does heartbeats are answered. Only pulls and queries by key and id did so, and these
    not for queue units and the index: all else held up the loop.
    """
    code, ext = REQUESTS[name]
    disk = ColdDisk()
    warm: list[Any] = []

    async def before(lab: Any) -> None:
        await fill(lab)
        if code not in (36, 222, 28, 208, 317):  # what changes or tells more than messages
            warm.append(await lab.broker.call(code, ext))

    async def after(lab: Any) -> None:
        lab.clock.advance(40 * 500)
        disk.forget()
        disk.waits = True
        other = await lab.connect()
        waiting = other.send(code, ext)
        stalls = 0
        while not waiting.done():
            await until(lambda: waiting.done() or disk.is_reading.is_set())
            if not waiting.done():
                stalls += 1
                assert (await lab.broker.call(34, {}, HEARTBEAT)).code == 0
                disk.is_reading.clear()
                disk.go_on.release()
        cold = waiting.result()
        assert cold.code == 0, cold.remark
        assert set(disk.threads) == {"sprocket-read"}
        assert stalls == len(disk.threads) > 0
        if code in (208, 317):
            assert b'"lastTimestamp":1700000004500' in cold.body
        for one in warm:
            assert (cold.ext_map(), cold.body) == (one.ext_map(), one.body)

    on_node(before, disk=disk)
    on_node(after, disk=disk)


def test_delayed_messages_are_read_by_other_threads(
    on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their units and what waits; heartbeats are answered while the disk stalls."""
    monkeypatch.setattr(delay, "POLL_SECONDS_MAX", 0.02)
    disk = ColdDisk()

    async def before(lab: Any) -> None:
        ext = SEND | {"e": 0, "i": "UNIQ_KEY\x01U\x02DELAY\x011\x02"}
        assert (await lab.broker.call(310, ext, b"later")).code == 0

    async def after(lab: Any) -> None:
        disk.forget()
        disk.waits = True
        lab.clock.advance(2000)
        await until(disk.is_reading.is_set)
        assert (await lab.broker.call(34, {}, HEARTBEAT)).code == 0
        disk.let_go()
        async with asyncio.timeout(LONG_SECONDS):
            while (await lab.broker.call(30, QUEUE)).ext_map()["offset"] == "0":
                await asyncio.sleep(0)
        assert set(disk.threads) == {"sprocket-read"}

    on_node(before, disk=disk)
    on_node(after, disk=disk)


def test_a_disk_that_cannot_read_is_told_to_who_asked(on_cold_node: Callable[..., None]) -> None:
    """With an error; nobody else minds."""

    async def scenario(lab: Any, disk: ColdDisk) -> None:
        disk.is_broken = True
        for code, ext in ((11, PULL | {"queueOffset": 0}), (33, {"offset": 0}), (32, QUEUE)):
            answer = await lab.broker.call(code, ext)
            assert (code, answer.code) == (code, 1)
            assert "/store/" in answer.remark
        disk.is_broken = False
        assert (await lab.broker.call(34, {}, HEARTBEAT)).code == 0

    on_cold_node(scenario, 2)


def test_who_comes_when_too_many_wait_for_the_disk_is_told_so(on_node: Callable[..., None]) -> None:
    """SYSTEM_BUSY; those who wait are answered."""
    disk = ColdDisk()

    async def scenario(lab: Any) -> None:
        await fill(lab)
        disk.forget()
        disk.waits = True
        waiting = [lab.broker.send(32, QUEUE) for _ in range(2)]
        await until(disk.is_reading.is_set)
        for code, ext in ((32, QUEUE), (11, PULL)):
            refused = await lab.broker.call(code, ext)
            assert (refused.code, "2 reads wait" in refused.remark) == (2, True)
        for _ in range(10):
            disk.go_on.release()
        for one in waiting:
            assert (await asyncio.wait_for(one, LONG_SECONDS)).code == 0

    on_node(before_restart, disk=disk)
    on_node(scenario, disk=disk, limits=LimitSettings(cold_reads_max=2))


async def before_restart(lab: Any) -> None:
    """Leave a store behind, so that what comes later finds files that are not open."""
    await fill(lab)
