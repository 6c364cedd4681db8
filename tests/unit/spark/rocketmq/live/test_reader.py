"""Live topics as a table: what is read of each queue, and that the end is fixed once."""

import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from pyspark.sql import datasource
from tests.unit.spark.damage_by_reader import (
    A_LOST_END,
    A_WRONG_BYTE,
    FAILS,
    IS_DATA_LOSS,
    LOGGED,
    WHAT_IS_THERE,
    says,
)
from tests.unit.spark.samples import FakeCluster, FakeDoor, encoded, plain_rows, schema

from sprocket.base.errors import CorruptRecord, DataLost, SettingsError
from sprocket.rocketmq.client import Message, blocking
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.live import cluster as live_cluster
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.reader import TopicReader
from sprocket.spark.rocketmq.options import read_live_batch
from sprocket.testing.local_broker import LocalBroker

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
OTHER = MessageQueue("refunds", "broker-b", 0)
STORED_AT_MS = 1_700_000_001_000
"""When the first of `encoded` was stored; each next one a ms later."""


def cluster(lowest: int = 0, **counts: int) -> FakeCluster:
    """Return a cluster with two topics, one of two queues; 5, 3 and 4 messages by default."""
    sizes = {ONE: counts.get("one", 5), TWO: counts.get("two", 3), OTHER: counts.get("other", 4)}
    records = {
        queue: [encoded(1, first=lowest + n, topic=queue.topic) for n in range(size)]
        for queue, size in sizes.items()
    }
    return FakeCluster(records, dict.fromkeys(sizes, lowest))


def reader(monkeypatch: pytest.MonkeyPatch, fake: FakeCluster, **given: Any) -> TopicReader:
    """Return a reader of that cluster; options of queues may be given as dicts."""
    texts = {
        name: json.dumps(value) if isinstance(value, dict) else str(value)
        for name, value in given.items()
    }
    if not {"subscribe", "subscribepattern", "assign"} & texts.keys():
        texts["subscribe"] = "orders"
    options = read_live_batch({"nameserver": "n:1", **texts})
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=2, retry_wait_ms=1, wait=door.wait)
    monkeypatch.setattr(live_cluster, "open_live", lambda _: live)
    return TopicReader(schema(options), options)


def planned(made: TopicReader) -> list[tuple[MessageQueue, int, int]]:
    """Return what each task reads."""
    parts = made.partitions()
    assert isinstance(parts, list)
    return [(one.queue, one.start, one.end) for part in parts for one in part.value]


def test_slices_have_a_fixed_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after planning is for the next query; the rows are those of the queues."""
    fake = cluster(lowest=7)
    made = reader(monkeypatch, fake)
    parts = made.partitions()
    fake.records[ONE] += [encoded(1, first=12)]
    found = [
        row
        for part in parts
        for row in plain_rows(
            list(pickle.loads(pickle.dumps(made)).read(pickle.loads(pickle.dumps(part))))  # noqa: S301
        )
    ]
    assert [row["queueOffset"] for row in found] == [*range(7, 12), *range(7, 10)]
    assert {row["brokerName"] for row in found} == {"broker-a"}
    assert fake.asked[-1] == "close"


def test_an_empty_plan_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark stands a bare partition in for an empty list."""
    made = reader(monkeypatch, cluster(one=0, two=0))
    assert made.partitions() == []
    assert list(made.read(datasource.InputPartition(None))) == []


def test_topics_by_pattern_and_queues_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern is of the whole name; a queue that is assigned and not there is an error."""
    fake = cluster()
    everything = planned(reader(monkeypatch, fake, subscribepattern="orders|refunds"))
    assert [queue for queue, *_ in everything] == [ONE, TWO, OTHER]
    assert planned(reader(monkeypatch, fake, subscribepattern="ref.*")) == [(OTHER, 0, 4)]
    with pytest.raises(SettingsError, match=r"no topic fits subscribePattern 'ref'; there are 2"):
        planned(reader(monkeypatch, fake, subscribepattern="ref"))
    for topic in ("c", "c_REPLY_TOPIC"):
        fake.records[MessageQueue(topic, "broker-a", 0)] = [encoded(1, topic=topic)]
    assert planned(reader(monkeypatch, fake, subscribepattern=".*")) == everything
    chosen = {"orders": {"broker-a": [1]}}
    assert planned(reader(monkeypatch, fake, assign=chosen)) == [(TWO, 0, 3)]
    with pytest.raises(SettingsError, match="assign names queue 9 of topic 'orders'"):
        planned(reader(monkeypatch, fake, assign={"orders": {"broker-a": [9]}}))


def test_offsets_where_to_begin_and_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """−2 and −1 are the queue's own ends; queues that are not named are read whole."""
    fake = cluster(lowest=7)
    start = {"orders": {"broker-a": {"0": 9, "1": -2}}}
    end = {"orders": {"broker-a": {"0": -1, "1": 8}}}
    made = reader(monkeypatch, fake, startingoffsets=start, endingoffsets=end)
    assert planned(made) == [(ONE, 9, 12), (TWO, 7, 8)]
    only = {"orders": {"broker-a": {"1": 10}}}
    assert planned(reader(monkeypatch, fake, startingoffsets=only)) == [(ONE, 7, 12)]


def test_offsets_outside_of_their_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are an error that names queue and bound; or what is there is read."""
    fake = cluster(lowest=7)
    for option, offset, why in (
        ("startingoffsets", 3, "the oldest kept is 7"),
        ("startingoffsets", 13, "the queue ends at 12"),
        ("endingoffsets", 13, "the queue ends at 12"),
    ):
        table = {option: {"orders": {"broker-a": {"0": offset}}}}
        told = f"queue 0 .*: offset {offset} is gone, {why}. failOnDataLoss=false"
        with pytest.raises(DataLost, match=told):
            planned(reader(monkeypatch, fake, **table))
    gentle = {"startingoffsets": {"orders": {"broker-a": {"0": 3}}}, "failondataloss": "false"}
    with structlog.testing.capture_logs() as logged:
        assert planned(reader(monkeypatch, fake, **gentle)) == [(ONE, 7, 12), (TWO, 7, 10)]
    assert [one["queue"] for one in logged] == ["queue 0 of topic 'orders' on 'broker-a'"]
    assert says("`spark.read` of live topics", A_LOST_END) == (IS_DATA_LOSS, WHAT_IS_THERE)
    wrong = {"startingoffsets": {"orders": {"broker-a": {"0": 9}}}}
    wrong["endingoffsets"] = {"orders": {"broker-a": {"0": 8}}}
    with pytest.raises(SettingsError, match="is to begin at 9 and to end at 8"):
        planned(reader(monkeypatch, fake, **wrong))


def test_times_where_to_begin_and_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first store time is wanted, the last one is not; one for all, or by queue."""
    fake = cluster()
    first, last = STORED_AT_MS + 1, STORED_AT_MS + 3
    made = reader(monkeypatch, fake, startingtimestamp=first, endingtimestamp=last)
    assert planned(made) == [(ONE, 1, 3), (TWO, 1, 3)]
    by_queue = {"orders": {"broker-a": {"1": last}}}
    assert planned(reader(monkeypatch, fake, startingoffsetsbytimestamp=by_queue)) == [(ONE, 0, 5)]
    made = reader(monkeypatch, fake, endingoffsetsbytimestamp=by_queue)
    assert planned(made) == [(ONE, 0, 5), (TWO, 0, 3)]
    late: dict[str, Any] = {"startingtimestamp": STORED_AT_MS + 4}
    assert planned(reader(monkeypatch, fake, **late)) == [(ONE, 4, 5)]
    late["startingoffsetsbytimestampstrategy"] = "error"
    with pytest.raises(SettingsError, match=r"queue 1 of topic 'orders' .* has no message"):
        planned(reader(monkeypatch, fake, **late))


def test_a_record_outside_of_the_times_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store times may go back in a queue, so what a broker finds by time is only near."""
    fake = cluster()
    fake.records[ONE][3] = encoded(1, first=900)
    made = reader(monkeypatch, fake, endingtimestamp=STORED_AT_MS + 5, subscribe="orders")
    (part,) = made.partitions()
    assert [row["queueOffset"] for row in plain_rows(list(made.read(part)))] == [
        0,
        1,
        2,
        4,
        0,
        1,
        2,
    ]


def test_more_tasks_than_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue is cut in parts that join."""
    made = reader(monkeypatch, cluster(one=100, two=20), minpartitions=6)
    parts = planned(made)
    assert len(parts) >= 6
    of_one = [part[1:] for part in parts if part[0] == ONE]
    assert of_one[0][0] == 0
    assert of_one[-1][1] == 100
    assert all(a[1] == b[0] for a, b in pairwise(of_one))


def test_ten_thousand_queues_are_a_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """All offsets are asked for together; only topics are asked for one by one."""
    queues = {MessageQueue("orders", f"b{n // 100}", n % 100): [encoded(1)] for n in range(10_000)}
    fake = FakeCluster(queues)
    made = reader(monkeypatch, fake)
    assert len(planned(made)) == 10_000
    assert fake.asked == ["queues", "min", "max", "close"]
    assert len(made.partitions()) == 100


@pytest.mark.slow
def test_many_queues_of_a_broker() -> None:
    """A real one answers two requests for each queue; none is planned that has nothing."""
    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("orders", queues=2_000)
        with blocking.Producer(broker.nameserver, group="tests") as producer:
            for number in range(50):
                producer.send_soon(Message("orders", b"%d" % number))
            producer.flush()
        options = read_live_batch({"nameserver": broker.nameserver, "subscribe": "orders"})
        made = TopicReader(schema(options), options)
        parts = made.partitions()
        assert len(parts) == 1
        rows = [row for part in parts for row in plain_rows(list(made.read(part)))]
        assert sorted(int(row["body"]) for row in rows) == list(range(50))


@pytest.mark.spark
@pytest.mark.slow
def test_live_topics_in_the_engine(spark: Any, tmp_path: Path) -> None:
    """By the options alone, a tag, a condition and a table of the catalog among them."""
    with LocalBroker() as broker:
        with blocking.Producer(broker.nameserver, group="tests") as producer:
            for number in range(40):
                tag = ("even", "odd")[number % 2]
                producer.send_soon(Message("orders", b"%d" % number, tag=tag))
            producer.flush()
        load = spark.read.format("rocketmq").option("nameServer", broker.nameserver)
        load = load.option("topic", "orders")
        rows = load.option("subExpression", "odd").load().collect()
        assert sorted(int(row.body) for row in rows) == list(range(1, 40, 2))
        chosen = {"nameServer": broker.nameserver, "topic": "orders", "filter": "TAGS <> 'odd'"}
        rows = spark.read.format("rocketmq").options(**chosen).load().collect()
        assert sorted(int(row.body) for row in rows) == list(range(0, 40, 2))
        assert load.option("minPartitions", 9).load().rdd.getNumPartitions() >= 9
        given = f"nameServer '{broker.nameserver}', subscribe 'orders', columns 'queueOffset'"
        spark.sql(f"CREATE TABLE live_orders USING rocketmq OPTIONS ({given})")
        try:
            assert spark.sql("SELECT * FROM live_orders").count() == 40
        finally:
            spark.sql("DROP TABLE live_orders")
        with pytest.raises(Exception, match="did you mean orders"):
            load.option("topic", "order").load().count()


@pytest.mark.parametrize("at", [88, 27])
def test_damage_of_a_message_is_told(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """By the rule of directories; one that names another place in its queue is not passed over."""
    fake = cluster()
    for queue, stored in fake.records.items():
        for number in range(len(stored)):
            stored[number] = encoded(1, first=number, topic=queue.topic, crc_tail=True)
    damaged = bytearray(fake.records[ONE][2])
    damaged[at] ^= 0x40
    fake.records[ONE][2] = bytes(damaged)

    def rows(**given: str) -> list[dict[str, Any]]:
        made = reader(monkeypatch, fake, **given)
        return [row for part in made.partitions() for row in plain_rows(list(made.read(part)))]

    with pytest.raises(CorruptRecord, match=r"'orders' on 'broker-a'.*does not fit its checksum"):
        rows()
    with structlog.testing.capture_logs() as logged:
        assert len(rows(mode="DROPMALFORMED")) == 7
    assert [one["event"] for one in logged] == ["damage is left out"]
    assert says("`spark.read` of live topics", A_WRONG_BYTE) == (FAILS, LOGGED)
    told = [row["corruption"] for row in rows(mode="PERMISSIVE")]
    assert (len(told), sum(text is not None for text in told)) == (8, 1)


def test_filters_leave_queues_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks for what their rows would be; the bounds of others stay as they are."""
    both = {"subscribe": "orders,refunds"}
    filters = {"topic": ["orders"], "queueId": [1]}
    assert planned(reader(monkeypatch, cluster(), **both, filters=filters)) == [(TWO, 0, 3)]
    filters = {"storeTimestamp": [STORED_AT_MS + 1, STORED_AT_MS + 2]}
    made = reader(monkeypatch, cluster(), filters=filters)
    found = [row for part in made.partitions() for row in plain_rows(list(made.read(part)))]
    assert [(row["queueId"], row["queueOffset"]) for row in found] == [(0, 1), (0, 2)] * 2
