"""Brokers tell what they do, take settings, and tidy up."""

from typing import Any

import pytest

from sprocket.rocketmq.client.admin import Admin
from sprocket.rocketmq.client.admin.brokers import broker_status
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    BrokerConsumeStats,
    KeyValueTable,
    ProducerInfo,
    ProducerTable,
    QueueUnits,
)
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import QueryConsumeQueue, ViewStats
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.query import QueueUnit
from sprocket.rocketmq.model.stats import Rate, StatsData


def admin(world: Any) -> Admin:
    """Return an admin in the world."""
    return Admin(world.names, **world.reach)


def answer(world: Any, code: RequestCode, body: bytes = b"", header: Any = None) -> None:
    """Have the cluster answer a code."""
    world.cluster.on[code] = lambda peer, command: peer.send(
        response(command, 0, header, body=[body] if body else [])
    )


def asked(world: Any, code: RequestCode) -> list[Command]:
    """Return the requests with a code."""
    return [one for one in world.cluster.requests if one.code == code]


def test_the_status_of_a_broker(world: Any) -> None:
    """In numbers, with all that was told beside them; what is missing is 0."""
    told = {
        "brokerVersionDesc": "V5_3_3",
        "bootTimestamp": "7",
        "putTps": "1.5 2.5 3.5",
        "msgPutTotalTodayNow": "9",
        "msgPutTotalTodayMorning": "4",
        "msgPutTotalYesterdayMorning": "1",
        "commitLogDiskRatio": "0.25",
        "commitLogMaxOffset": "1000",
        "earliestMessageTimeStamp": "-1",
        "dispatchBehindBytes": "none",
    }
    answer(world, RequestCode.GET_BROKER_RUNTIME_INFO, bodies.encode(KeyValueTable(told)))

    async def main() -> None:
        async with admin(world) as looking:
            found = await looking.broker.status("b")
            assert (found.version, found.boot_at_ms, found.put_tps) == (
                "V5_3_3",
                7,
                (1.5, 2.5, 3.5),
            )
            assert (found.put_today, found.put_yesterday, found.get_today) == (5, 3, 0)
            assert (found.disk_used_ratio, found.log_max_offset) == (0.25, 1000)
            assert (found.earliest_at_ms, found.get_tps) == (-1, (0, 0, 0))
            assert found.values == told
            with pytest.raises(NoRoute, match="'x'; there is b"):
                await looking.broker.status("x")

    world.run(main)
    assert broker_status({"putTps": "nonsense 1"}).put_tps == (0.0, 1.0, 0.0)


def test_settings_are_told_and_changed(world: Any) -> None:
    """As lines, escaped as Java does it."""
    answer(world, RequestCode.GET_BROKER_CONFIG, b"b=2\na=x\\ty\n")
    answer(world, RequestCode.UPDATE_BROKER_CONFIG)

    async def main() -> None:
        async with admin(world) as looking:
            assert await looking.broker.config("b") == {"a": "x\ty", "b": "2"}
            await looking.broker.update_config("b", {"fileReservedTime": "48"})
            (command,) = asked(world, RequestCode.UPDATE_BROKER_CONFIG)
            assert command.body == b"fileReservedTime=48\n"

    world.run(main)


def test_figures_of_a_broker(world: Any) -> None:
    """Counts, progress of all groups, producers, units of a queue."""
    rate = Rate(sum=6, tps=0.1, average=1.0)
    stats = StatsData(minute=rate, hour=rate, day=rate)
    progress = BrokerConsumeStats(broker_address="a:1", groups=[], total_lag=3, total_in_flight=1)
    producer = ProducerInfo(client_id="i", address="a:2", language="JAVA", version=1, seen_at_ms=5)
    units = QueueUnits(
        min_offset=0,
        max_offset=2,
        units=[QueueUnit(physical_offset=0, size=9, tags_code=1)],
    )
    answer(world, RequestCode.VIEW_BROKER_STATS_DATA, bodies.encode(stats))
    answer(
        world,
        RequestCode.GET_BROKER_CONSUME_STATS,
        bodies.encode(progress),
    )
    answer(
        world, RequestCode.GET_ALL_PRODUCER_INFO, bodies.encode(ProducerTable({"p": [producer]}))
    )
    answer(world, RequestCode.QUERY_CONSUME_QUEUE, bodies.encode(units))

    async def main() -> None:
        async with admin(world) as looking:
            assert await looking.broker.stats("b", "TOPIC_PUT_NUMS", "t") == stats
            (command,) = asked(world, RequestCode.VIEW_BROKER_STATS_DATA)
            expected = ViewStats(stats_name="TOPIC_PUT_NUMS", stats_key="t")
            assert command.header(ViewStats) == expected
            assert await looking.broker.consume_stats("b") == progress
            assert await looking.broker.producers("b") == {"p": [producer]}
            assert await looking.broker.queue_units(world.queue(3), 1, 1, group="g") == units
            (command,) = asked(world, RequestCode.QUERY_CONSUME_QUEUE)
            header = command.header(QueryConsumeQueue)
            assert (header.queue_id, header.index, header.consumer_group) == (3, 1, "g")

    world.run(main)


def test_a_broker_is_told_to_tidy_up(world: Any) -> None:
    """A request each."""
    codes = (
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    )
    for code in codes:
        answer(world, code)

    async def main() -> None:
        async with admin(world) as looking:
            await looking.broker.clean_expired_queues("b")
            await looking.broker.clean_unused_topics("b")
            await looking.broker.delete_expired_log("b")
            assert [code for code in world.cluster.seen if code in codes] == list(codes)

    world.run(main)
