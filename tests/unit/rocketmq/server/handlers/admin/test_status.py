"""Tools find every figure they read."""

import json
from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ReplicaStatus, StatsData

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
