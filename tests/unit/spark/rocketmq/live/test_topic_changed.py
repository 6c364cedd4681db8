"""Streams over a broker's topic that is deleted and made again, or has fewer queues than before."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.unit.spark.samples import plain_rows, schema

from sprocket.base.errors import DataLost
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Admin, Producer
from sprocket.spark.rocketmq.live.stream import LiveReader
from sprocket.spark.rocketmq.options import read_live
from sprocket.testing.local_broker import LocalBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker with a topic of six queues."""
    with LocalBroker() as broker:
        make(broker, queues=6)
        yield broker


def make(broker: LocalBroker, *, queues: int) -> None:
    """Make the topic, or change how many queues it has."""
    with Admin(broker.nameserver) as admin:
        admin.topic.create("orders", queues=queues)


def make_again(broker: LocalBroker, *, queues: int) -> None:
    """Delete the topic and make it again, a while later."""
    with Admin(broker.nameserver) as admin:
        admin.topic.delete("orders")
    broker.clock.advance(60_000)
    make(broker, queues=queues)


def send(broker: LocalBroker, first: int, stop: int) -> None:
    """Send numbered messages to the queues in turn."""
    with Producer(broker.nameserver) as producer, Admin(broker.nameserver) as admin:
        queues = admin.queues("orders")
        for number in range(first, stop):
            producer.send(Message("orders", b"%d" % number), queue=queues[number % len(queues)])


def run(broker: LocalBroker, start: dict[str, Any], **given: str) -> tuple[list[int], Any]:
    """Run a query to the end of what is there, as Spark does; return numbers and where it ended."""
    options = read_live({"nameServer": broker.nameserver, "subscribe": "orders", **given})
    stream = LiveReader(schema(options), options)
    found: list[int] = []
    with ExitStack() as stack:
        stack.callback(stream.stop)
        start = start or stream.initialOffset()
        stream.prepareForTriggerAvailableNow()
        limit = stream.getDefaultReadLimit()
        while (end := stream.latestOffset(start, limit)) != start:
            for task in stream.partitions(start, end):
                found += [int(row["body"]) for row in plain_rows(list(stream.read(task)))]
            start = json.loads(json.dumps(end))
    return sorted(found), start


def test_a_topic_with_fewer_queues_goes_on(broker: LocalBroker) -> None:
    """All of the queues that are gone was read: nothing is lost, and nobody waits for them."""
    send(broker, 0, 60)
    _, start = run(broker, {})
    make(broker, queues=2)
    send(broker, 60, 70)
    found, start = run(broker, start)
    assert found == list(range(60, 70))
    make(broker, queues=6)
    send(broker, 70, 90)
    assert run(broker, start)[0] == list(range(70, 90))


def test_a_topic_with_fewer_queues_leaves_messages(broker: LocalBroker) -> None:
    """What is in the queues that are gone and was not read is an error that says how to go on."""
    send(broker, 0, 60)
    _, start = run(broker, {})
    send(broker, 60, 66)
    make(broker, queues=2)
    with pytest.raises(
        DataLost, match=r"queue 2 .*: 1 messages in it .* failOnDataLoss=false goes"
    ):
        run(broker, start)
    found, start = run(broker, start, failOnDataLoss="false")
    assert found == [60, 61]
    make(broker, queues=6)
    assert run(broker, start)[0] == [62, 63, 64, 65]


@pytest.mark.parametrize("count", [30, 60, 200])
def test_a_topic_that_was_made_again(broker: LocalBroker, count: int) -> None:
    """With fewer messages than were read, as many, or more: told, or read from its first one."""
    send(broker, 0, 60)
    _, start = run(broker, {})
    assert run(broker, start) == ([], start)
    make_again(broker, queues=6)
    send(broker, 1000, 1000 + count)
    with pytest.raises(DataLost, match=r"queue \d of topic 'orders'.*failOnDataLoss=false"):
        run(broker, start)
    found, start = run(broker, start, failOnDataLoss="false")
    assert found == list(range(1000, 1000 + count))
    send(broker, 2000, 2010)
    assert run(broker, start)[0] == list(range(2000, 2010))
