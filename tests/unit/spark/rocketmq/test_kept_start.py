"""The helper that determines once where a stream starts, and keeps that with the checkpoint."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.rocketmq.folder.test_plan import write_log

from sprocket.base.errors import DataLost, SettingsError
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Admin, Producer, Puller
from sprocket.spark import read_stream
from sprocket.testing.local_broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker with five messages in one topic."""
    with LocalBroker() as broker:
        send(broker, "orders", 0, 5)
        yield broker


def send(broker: LocalBroker, topic: str, first: int, stop: int, tag: str = "") -> None:
    """Send numbered messages."""
    with Producer(broker.nameserver) as producer:
        for number in range(first, stop):
            producer.send(Message(topic, b"%d" % number, tag=tag))


def run(frame: Any, checkpoint: Path) -> list[int]:
    """Run a query to the end of what is there; return the numbers in its rows."""
    found: list[int] = []
    writer = frame.selectExpr("CAST(body AS STRING) AS text").writeStream
    query = (
        writer.foreachBatch(lambda batch, _: found.extend(int(row.text) for row in batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(found)


def test_latest_means_the_first_time(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """A query that failed before its first batch reads what came since, and others do not wait."""
    given = {"nameServer": broker.nameserver, "subscribe": "orders", "startingOffsets": "latest"}
    read_stream(spark, checkpoint=str(tmp_path), **given)
    send(broker, "orders", 5, 8)
    assert run(read_stream(spark, checkpoint=str(tmp_path), **given), tmp_path) == [5, 6, 7]
    send(broker, "orders", 8, 9)
    send(broker, "refunds", 100, 102)
    given["subscribe"] = "orders,refunds"
    assert run(read_stream(spark, checkpoint=str(tmp_path), **given), tmp_path) == [8, 100, 101]


def test_a_time_and_a_queue(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """So do a time, and -1 for one queue."""
    broker.clock.advance(10_000)
    later = str(broker.clock.now_ms())
    given: dict[str, object] = {"nameServer": broker.nameserver, "subscribe": "orders"}
    one, two = tmp_path / "one", tmp_path / "two"
    times = given | {"startingTimestamp": later}
    read_stream(spark, checkpoint=str(one), **times)
    queues = '{"orders":{"%s":{"0":-1}}}'
    name = broker_name(broker)
    queue = given | {"startingOffsets": queues.replace("%s", name), "failOnDataLoss": True}
    read_stream(spark, checkpoint=str(two), **queue)
    send(broker, "orders", 5, 8)
    assert run(read_stream(spark, checkpoint=str(one), **times), one) == [5, 6, 7]
    found = run(read_stream(spark, checkpoint=str(two), **queue), two)
    assert {5, 6, 7} < set(found) < set(range(8))


def broker_name(broker: LocalBroker) -> str:
    """Return the name of the broker, as queues have it."""
    with Puller(broker.nameserver) as puller:
        return puller.queues("orders")[0].broker_name


def test_topics_tags_and_progress(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """A pattern finds topics while the query lives; a group shows how far all of it is."""
    given: dict[str, object] = {"nameServer": broker.nameserver, "subscribePattern": "or.*|re.*"}
    given |= {"subExpression": "b || c", "minPartitions": 6, "maxOffsetsPerTrigger": 4}
    given |= {"consumerGroup": "watched", "commitOffsets": True}
    send(broker, "orders", 5, 9, tag="b")
    assert run(read_stream(spark, checkpoint=str(tmp_path), **given), tmp_path) == [5, 6, 7, 8]
    send(broker, "refunds", 20, 22, tag="c")
    send(broker, "others", 30, 31, tag="c")
    assert run(read_stream(spark, checkpoint=str(tmp_path), **given), tmp_path) == [20, 21]
    with Admin(broker.nameserver) as admin:
        for topic in ("orders", "refunds"):
            for queue in admin.queues(topic):
                assert admin.offset.committed("watched", queue) == admin.max_offset(queue)


def test_a_directory(spark: Any, tmp_path: Path) -> None:
    """There the start is one place in the log; columns may be chosen."""
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    write_log(store, [3])
    given = {"path": str(store), "startingOffsets": "latest", "schema": "physicalOffset long"}
    read_stream(spark, checkpoint=str(checkpoint), **given)
    write_log(store, [5])
    frame = read_stream(spark, checkpoint=str(checkpoint), **given)
    rows = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [row.physicalOffset for row in rows] == [360, 480]


def test_what_is_kept_elsewhere_or_not_at_all(spark: Any, tmp_path: Path) -> None:
    """A start that cannot move is not kept; one of another release is refused; errors come here."""
    write_log(tmp_path / "store", [3])
    given: dict[str, object] = {"path": str(tmp_path / "store")}
    read_stream(spark, checkpoint=str(tmp_path / "a"), **given)
    assert not (tmp_path / "a").exists()
    (tmp_path / "b" / "sprocket-start").mkdir(parents=True)
    (tmp_path / "b" / "sprocket-start" / "part").write_text('{"v": 2, "phys": 0}\n')
    with pytest.raises(DataLost, match="belongs to another release or source"):
        read_stream(spark, checkpoint=str(tmp_path / "b"), startingOffsets="latest", **given)
    with pytest.raises(SettingsError, match="did you mean startingOffsets"):
        read_stream(spark, checkpoint=str(tmp_path / "c"), startingOffset="latest", **given)
