"""Requests about how far groups are."""

import json
from collections.abc import Callable
from typing import Any

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    BrokerConsumeStats,
    ConsumeTimeSpans,
    DelayOffsets,
    GroupNames,
    OffsetTable,
    TopicNames,
)
from sprocket.rocketmq.model.progress import ConsumeStats
from sprocket.rocketmq.model.route import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)


async def consumed(lab: Any) -> None:
    """Store four messages in T/0; the group g has consumed one of them."""
    for _ in range(4):
        await lab.message("T")
    await lab.broker.call(352, {"group": "g"})
    commit = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 1}
    assert (await lab.broker.call(15, commit)).code == 0


def test_a_group_is_found_where_it_is(on_node: Callable[..., None]) -> None:
    """In all its topics, in one, in some; nowhere if it is unknown."""

    async def scenario(lab: Any) -> None:
        await consumed(lab)
        for more in ({}, {"topic": "T"}, {"topicList": "T;none"}):
            answer = await lab.broker.call(208, {"consumerGroup": "g"} | more)
            stats = bodies.decode(ConsumeStats, answer.body)
            assert (stats.queues[QUEUE].lag, len(stats.queues)) == (3, 4)
        answer = await lab.broker.call(208, {"consumerGroup": "x"})
        assert bodies.decode(ConsumeStats, answer.body).queues == {}
        answer = await lab.broker.call(317, {"isOrder": "false"})
        every = bodies.decode(BrokerConsumeStats, answer.body)
        assert (every.total_lag, every.total_in_flight) == (3, 0)
        assert every.broker_address == lab.node.addresses.broker
        assert [stats.lag for stats in dict(every.groups)["g"]] == [3]

    on_node(scenario)


def test_who_consumes_what(on_node: Callable[..., None]) -> None:
    """From the topic and from the group."""

    async def scenario(lab: Any) -> None:
        await consumed(lab)
        answer = await lab.broker.call(300, {"topic": "T"})
        assert bodies.decode(GroupNames, answer.body).groups == ["g"]
        answer = await lab.broker.call(343, {"group": "g"})
        found = bodies.decode(TopicNames, answer.body)
        assert (found.topics, found.broker_address) == (["T"], lab.node.addresses.broker)
        answer = await lab.broker.call(345, {"group": "g", "topic": "T"})
        assert json.loads(answer.body) == {"group": "g", "topic": "T"}

    on_node(scenario)


def test_spans_of_time(on_node: Callable[..., None]) -> None:
    """Each queue has one; a topic that is not there has none."""

    async def scenario(lab: Any) -> None:
        await consumed(lab)
        answer = await lab.broker.call(303, {"topic": "T", "group": "g"})
        spans = bodies.decode(ConsumeTimeSpans, answer.body).spans
        assert [span.queue.queue_id for span in spans] == [0, 1, 2, 3]
        assert (spans[0].min_at_ms, spans[1].min_at_ms) == (lab.clock.now_ms(), -1)
        assert (await lab.broker.call(303, {"topic": "x", "group": "g"})).code == 17

    on_node(scenario)


def test_tables_for_slaves(on_node: Callable[..., None]) -> None:
    """Offsets of groups and of delay levels."""

    async def scenario(lab: Any) -> None:
        await consumed(lab)
        table = bodies.decode(OffsetTable, (await lab.broker.call(43)).body)
        assert table.offsets == {"T@g": {0: 1}}
        delays = bodies.decode(DelayOffsets, (await lab.broker.call(45)).body)
        assert delays.levels == {}

    on_node(scenario)
