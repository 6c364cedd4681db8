"""Tools find every figure they read."""

import asyncio
import errno
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFull, StoreFailed
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ReplicaStatus
from sprocket.rocketmq.model.stats import StatsData
from sprocket.runtime import group_commit
from sprocket.testing.disk import SimulatedDisk

CLUSTER_LIST = (
    "brokerActive",
    "brokerVersionDesc",
    "putTps",
    "getTransferredTps",
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills",
    "earliestMessageTimeStamp",
    "commitLogDiskRatio",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
)


async def figures(lab: Any) -> dict[str, str]:
    """Return the broker's figures."""
    answer = await lab.broker.call(28)
    assert answer.code == 0
    table: dict[str, str] = json.loads(answer.body)["table"]
    return table


def test_every_key_of_cluster_list_is_there(on_node: Callable[..., None]) -> None:
    """They are texts, and those that tools parse are numbers."""

    async def scenario(lab: Any) -> None:
        table = await figures(lab)
        assert [key for key in CLUSTER_LIST if key not in table] == []
        assert (table["brokerActive"], table["brokerVersionDesc"]) == ("true", "V5_3_3")
        assert [len(table[key].split(" ")) for key in ("putTps", "getTransferredTps")] == [3, 3]
        assert table["earliestMessageTimeStamp"] == "-1"
        for key in CLUSTER_LIST[2:]:
            assert [float(part) for part in table[key].split(" ")]

    on_node(scenario)


def test_figures_follow_what_happens(on_node: Callable[..., None]) -> None:
    """Counts, the oldest message and the end of the log move."""

    async def scenario(lab: Any) -> None:
        at_ms = lab.clock.now_ms()
        ext = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0}
        await lab.broker.call(310, ext, b"x")
        lab.clock.advance(10_000)
        table = await figures(lab)
        assert table["msgPutTotalTodayNow"] == "1"
        assert table["earliestMessageTimeStamp"] == str(at_ms)
        assert int(table["commitLogMaxOffset"]) > 0
        assert table["remainHowManyDataToFlush"] == "0 B"
        assert table["putTps"].split(" ")[0] == "0.1"

    on_node(scenario)


def test_upkeep_is_done_when_it_is_answered(on_node: Callable[..., None]) -> None:
    """Expired files, units, and queues without a topic."""

    async def scenario(lab: Any) -> None:
        await lab.message("T")
        for code in (306, 316, 329):
            assert (code, (await lab.broker.call(code)).code) == (code, 0)
        assert (await lab.broker.call(30, {"topic": "T", "queueId": 0})).ext_map()["offset"] == "1"

    on_node(scenario)


def test_a_master_tells_that_it_has_no_slaves(on_node: Callable[..., None]) -> None:
    """And how far its log is."""

    async def scenario(lab: Any) -> None:
        await lab.message("T")
        status = bodies.decode(ReplicaStatus, (await lab.broker.call(907)).body)
        end = int((await figures(lab))["commitLogMaxOffset"])
        assert (status.is_master, status.slaves, status.log_end) == (True, [], end)

    on_node(scenario)


def test_a_statistic_nobody_has_is_refused(on_node: Callable[..., None]) -> None:
    """That of the whole broker is always there."""

    async def scenario(lab: Any) -> None:
        view = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "x"}
        answer = await lab.broker.call(315, view)
        assert (answer.code, answer.remark) == (1, "The stats <TOPIC_PUT_NUMS> <x> not exist")
        view = {"statsName": "BROKER_PUT_NUMS", "statsKey": "DefaultCluster"}
        assert bodies.decode(StatsData, (await lab.broker.call(315, view)).body).day.sum == 0

    on_node(scenario)


async def cleaned(lab: Any) -> None:
    """Have the broker look at its disk."""
    ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    lab.node.broker.upkeep.clean(ended.set_result)
    assert await asyncio.wait_for(ended, LONG_SECONDS) is None


async def watched(lab: Any) -> tuple[str, str, str, str]:
    """Return what operators are told to watch."""
    table = await figures(lab)
    names = ("brokerActive", "sprocketRefusal", "putMessageFailedTimes", "commitLogDiskRatio")
    active, refusal, failed, ratio = (table[name] for name in names)
    return active, refusal, failed, ratio


def test_a_full_disk_is_told_from_the_start_until_there_is_room(
    on_node: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """To who sends, to who watches, and once in the log; the NameServer goes on to name it."""
    disk = SimulatedDisk()
    disk.used = 0.93
    why = "the disk is 93 % full, more than 90 %"

    def told() -> list[str]:
        return [text for text in caplog.messages if "messages" in text and "store" in text]

    async def scenario(lab: Any) -> None:
        assert await watched(lab) == ("false", why, "0", "0.93")
        for number in range(3):
            answer = await lab.message()
            assert (answer.code, answer.remark) == (14, why)
            assert await watched(lab) == ("false", why, str(number + 1), "0.93")
        assert len(told()) == 1
        assert "refuses" in told()[0]
        assert why in told()[0]
        assert b"broker-a" in (await lab.names.call(106)).body
        disk.used = 0.5
        await cleaned(lab)
        lab.node.broker.maintain()
        assert (await lab.message()).code == 0
        assert await watched(lab) == ("true", "", "3", "0.50")
        assert len(told()) == 2
        assert "takes messages again" in told()[1]

    on_node(scenario, disk=disk)


def test_a_sync_that_failed_is_told_until_a_restart(on_node: Callable[..., None]) -> None:
    """Whatever the disk says later."""
    disk = SimulatedDisk()

    async def scenario(lab: Any) -> None:
        assert (await lab.message()).code == 0
        disk.fail("sync", 1)
        assert (await lab.message()).code == 14
        assert (await lab.message()).code == 14
        await cleaned(lab)
        active, refusal, failed, _ = await watched(lab)
        assert (active, failed) == ("false", "1")  # of the first nobody knows
        assert "sync" in refusal

    with pytest.raises(StoreFailed, match="a sync of the log failed"):  # at the stop
        on_node(scenario, disk=disk)


@pytest.mark.parametrize("is_undone", [False, True])
def test_a_write_that_failed_is_told_until_the_disk_takes_one(
    is_undone: bool, on_node: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody need send for that; whether what it has left could be undone at once or not."""
    monkeypatch.setattr(group_commit, "TRY_SECONDS", 0)
    disk = SimulatedDisk()
    has_room = False

    def refuse(_: str, path: str) -> None:
        if not has_room and path.endswith("/sprocket.room"):
            raise DiskFull(f"open {path}: No space left on device")

    disk.before = refuse

    async def scenario(lab: Any) -> None:
        assert (await lab.message()).code == 0
        disk.fail("write", 1, errno.ENOSPC)
        disk.is_full = not is_undone
        answer = await lab.message()
        assert answer.code == 14
        assert "No space left" in answer.remark
        active, refusal, failed, _ = await watched(lab)
        assert (active, failed) == ("false", "1")
        assert "No space left" in refusal
        nonlocal has_room
        has_room, disk.is_full = True, False
        async with asyncio.timeout(LONG_SECONDS):
            while (await watched(lab))[0] == "false":
                lab.node.broker.maintain()
                await asyncio.sleep(0)

    on_node(scenario, disk=disk)
