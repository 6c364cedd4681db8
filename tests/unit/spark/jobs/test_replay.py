"""The job `replay`: what is chosen arrives, changed as asked, each queue in its order."""

import dataclasses
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, REPORTED, says
from tests.unit.spark.rocketmq.folder.test_damage import (
    BODY_AT,
    COUNT,
    change,
    closed,
    cut_short,
    logs,
)
from tests.unit.spark.samples import expected, unpack
from tests.waits import LONG_SECONDS

from sprocket.base.errors import CorruptRecord, SettingsError
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Admin, DeadLetter, Producer, PushConsumer
from sprocket.spark import QueryFailed
from sprocket.spark.jobs import (
    JobCluster,
    ReplayedMessages,
    ReplaySending,
    archive,
    replay,
)
from sprocket.testing.local_broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker that gets what is replayed."""
    with LocalBroker() as running:
        yield running


def stored(spark: Any, broker: LocalBroker, topic: str) -> list[dict[str, Any]]:
    """What a topic of the broker has, each queue in its order."""
    rows = spark.read.format("rocketmq").option("subscribe", topic).load(broker.folder)
    found: list[dict[str, Any]] = rows.orderBy("queueId", "queueOffset").toArrow().to_pylist()
    return found


def test_order_keys_and_counts_are_kept(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """Of an archive and of a store alike: each source queue is in one queue, in its order."""
    store = unpack("02-kill9-load", tmp_path)
    lines = [one for one in expected("02-kill9-load") if one["topic"] in ("Load0", "Load1")]
    archive(spark, store=store, to=str(tmp_path / "archive"))
    for number, source in enumerate((store, str(tmp_path / "archive"))):
        to = f"again{number}"
        with Admin(broker.nameserver) as admin:
            admin.topic.create(to, queues=3)
        with ThreadPoolExecutor(1) as other:  # where no session is active: Spark looks for one
            report = other.submit(
                replay,
                spark,
                source=source,
                cluster=JobCluster(name_server=broker.nameserver),
                messages=ReplayedMessages(topic=["Load0", "Load1"]),
                sending=ReplaySending(to=to),
            ).result()
        assert (report.messages, report.is_sent) == (len(lines), True)
        rows = stored(spark, broker, to)
        assert sorted(row["msgId"] for row in rows) == sorted(one["unique_key"] for one in lines)
        places = {row["msgId"]: (row["queueId"], row["queueOffset"]) for row in rows}
        queues: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for one in sorted(lines, key=lambda one: int(one["queue_offset"])):
            queues[one["topic"], one["queue_id"]].append(places[one["unique_key"]])
        for found in queues.values():
            assert found == sorted(found)
            assert len({queue for queue, _ in found}) == 1


def test_sql_chooses_and_changes(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """A dry run tells what would be sent, and sends nothing."""
    store = unpack("02-kill9-load", tmp_path)
    chosen = [
        one
        for one in expected("02-kill9-load")
        if one["topic"] == "Load2" and one["properties"].get("TAGS") == "TagA"
    ]
    messages = ReplayedMessages(topic=["Load2"], where="tags = 'TagA'")
    sending = ReplaySending(
        change=["body=cast(length(body) as string)", "topic=concat(topic, '-sizes')"], rate=5_000
    )
    dry = dataclasses.replace(sending, dry_run=True)
    report = replay(spark, source=store, messages=messages, sending=dry)
    assert not report.is_sent
    (row,) = report.topics
    assert (row["topic"], row["messages"]) == ("Load2-sizes", len(chosen))
    assert report.topics_missing == []
    cluster = JobCluster(name_server=broker.nameserver)
    report = replay(spark, source=store, cluster=cluster, messages=messages, sending=dry)
    assert report.topics_missing == ["Load2-sizes"]
    with Admin(broker.nameserver) as admin:
        admin.topic.create("Load2-sizes")
    sent = replay(spark, source=store, cluster=cluster, messages=messages, sending=sending)
    assert (sent.messages, sent.bytes) == (report.messages, report.bytes)
    sizes = {row["msgId"]: int(row["body"]) for row in stored(spark, broker, "Load2-sizes")}
    assert sizes == {one["unique_key"]: one["body_len"] for one in chosen}


def test_dead_letters_go_back_to_their_topics(spark: Any, broker: LocalBroker) -> None:
    """The group gets them again; the rest of the topic stays as it was."""
    met = threading.Event()

    def fail(_messages: list[Any]) -> None:
        met.set()
        raise DeadLetter("no")

    with Producer(broker.nameserver, group="tests") as producer:
        producer.send(Message("orders", b"stone", keys=["k1"]))
    with PushConsumer(broker.nameserver, group="kitchen", listener=fail, start="first") as consumer:
        consumer.subscribe("orders")
        assert met.wait(LONG_SECONDS)
    messages = ReplayedMessages(dead_letters="kitchen")
    sending = ReplaySending(dry_run=True)
    dry = replay(spark, source=broker.folder, messages=messages, sending=sending)
    assert [row["topic"] for row in dry.topics] == ["orders"]
    replay(
        spark,
        source=broker.folder,
        cluster=JobCluster(name_server=broker.nameserver),
        messages=messages,
    )
    rows = stored(spark, broker, "orders")
    assert [(row["body"], row["keys"]) for row in rows] == [(b"stone", "k1")] * 2
    assert len({row["msgId"] for row in rows}) == 1


def test_damage_is_an_error_or_told(spark: Any, broker: LocalBroker, tmp_path: Path) -> None:
    """No body is sent that is not as it was stored; the report names what was left out."""
    store = closed(tmp_path / "store")
    change(logs(store)[0], BODY_AT)
    cut_short(logs(store)[-1])
    cluster = JobCluster(name_server=broker.nameserver)
    with Admin(broker.nameserver) as admin:
        admin.topic.create("orders")
    with pytest.raises(CorruptRecord, match="the log ends here, and went to"):
        replay(spark, source=str(store), cluster=cluster)
    messages = ReplayedMessages(skip_damaged=True)
    report = replay(spark, source=str(store), cluster=cluster, messages=messages)
    assert report.damaged == len(report.damage) == 2
    assert [row["file"] for row in report.damage] == [str(logs(store)[0]), str(logs(store)[-1])]
    assert 0 < report.messages < COUNT - 1
    bodies = [row["body"] for row in stored(spark, broker, "orders")]
    assert len(bodies) == report.messages
    assert all(body.startswith(b"body ") for body in bodies)
    assert says("`pipe replay`", A_WRONG_BYTE) == (FAILS, REPORTED)
    assert says("`pipe replay`", A_LOST_END) == (FAILS, REPORTED)


DRY: dict[str, Any] = {"dry_run": True}


@pytest.mark.parametrize(
    ("messages", "sending", "said"),
    [
        ({}, {}, "name the cluster by --name-server"),
        ({"dead_letters": "g", "topic": ["t"]}, DRY, "leave --topic away"),
        ({}, DRY | {"change": ["bdy=1"]}, "'bdy' cannot be changed; did you mean body"),
        ({}, DRY | {"change": ["body"]}, "change 'body': expected NAME=VALUE"),
        ({"topic": ["Load9"]}, DRY, "there is no topic 'Load9'"),
    ],
)
def test_what_is_wrong_is_told(
    spark: Any, tmp_path: Path, messages: dict[str, Any], sending: dict[str, Any], said: str
) -> None:
    """Before anything is sent."""
    store = unpack("02-kill9-load", tmp_path)
    chosen, sent = ReplayedMessages(**messages), ReplaySending(**sending)
    with pytest.raises((SettingsError, QueryFailed), match=said):
        replay(spark, source=store, messages=chosen, sending=sent)
