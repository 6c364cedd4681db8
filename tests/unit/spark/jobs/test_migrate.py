"""The job `migrate`: all that a stopped RabbitMQ has arrives in topics, each queue in its order."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import repetition
from tests.recorded_rabbitmq import CASES, RecordedVhosts
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, REPORTED, says
from tests.unit.spark.rabbitmq.test_damage import COUNT, closed, in_store
from tests.unit.spark.rabbitmq.test_reader import as_row, one_by_one

from sprocket.base.errors import SettingsError
from sprocket.rocketmq.client.blocking import Admin
from sprocket.rocketmq.codec.record import properties as names
from sprocket.spark import QueryFailed
from sprocket.spark.jobs import (
    JobCluster,
    MigratedMessages,
    MigrateSending,
    Routing,
    migrate,
)
from sprocket.spark.jobs.migrate import DAMAGE_ROWS_MAX, MigrateReport
from sprocket.testing.local_broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark-migrate.md"
LONG = Routing(route=["queue=x+ topic=xs"])
"""The recorded queue of 255 letters has a name that no topic can have."""
TEXTS = {
    "exchange": "exchange",
    "contentType": "content_type",
    "contentEncoding": "content_encoding",
    "correlationId": "correlation_id",
    "replyTo": "reply_to",
    "expiration": "expiration",
    "type": "type",
    "userId": "user_id",
    "appId": "app_id",
    "clusterId": "cluster_id",
}


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker that gets the messages."""
    with LocalBroker() as running:
        yield running


def sent(
    spark: Any, broker: LocalBroker, folder: str, case: RecordedVhosts, **given: Any
) -> MigrateReport:
    """Send what consumers of a recorded node got, all of it."""
    by = str(case.expected["drained_from_us"] // 1000)
    return migrate(
        spark,
        source=folder,
        cluster=JobCluster(name_server=broker.nameserver),
        messages=MigratedMessages(expired_by=by),
        routing=given.pop("routing", LONG),
        sending=MigrateSending(create_topics=2, **given),
    )


def stored(spark: Any, broker: LocalBroker) -> list[dict[str, Any]]:
    """What the topics have, each queue in its order."""
    rows = spark.read.format("rocketmq").load(broker.folder).orderBy("queueId", "queueOffset")
    found: list[dict[str, Any]] = rows.toArrow().to_pylist(maps_as_pydicts="strict")
    return found


def told(row: dict[str, Any]) -> dict[str, str]:
    """Return the properties that the message of a row should have, but for tag and keys."""
    found = {f"amqp_{name}": row[column] for column, name in TEXTS.items()}
    for column, name in (("deliveryMode", "delivery_mode"), ("priority", "priority")):
        found[f"amqp_{name}"] = None if row[column] is None else str(row[column])
    found["amqp_vhost"], found["amqp_queue"] = row["vhost"], row["queue"]
    found["amqp_seq_id"] = str(row["seqId"])
    found["amqp_routing_key"] = row["routingKeys"][0]
    if row["timestamp"] is not None:
        found["amqp_timestamp"] = str(round(row["timestamp"].timestamp()))
    if row["expiresAt"] is not None:
        found["amqp_expires_at"] = str(int(row["expiresAt"].timestamp() * 1000))
    if row["state"] == "delivered":
        found["amqp_redelivered"] = "true"
    for name, value in (row["headers"] or {}).items():
        is_other = name in names.RESERVED or name.startswith("amqp_")
        found[f"amqp_header_{name}" if is_other else name] = value
    return {name: value for name, value in found.items() if value}


def without_marks(properties: dict[str, str]) -> dict[str, str]:
    """Leave out what clients and brokers add to every message."""
    marks = ("TAGS", "KEYS", "UNIQ_KEY", "CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT", names.CRC32)
    return {name: value for name, value in properties.items() if name not in marks}


@pytest.mark.parametrize("name", repetition.some(CASES, ["05-properties-ttl"]))
def test_all_recorded_messages_arrive(
    spark: Any, tmp_path: Path, broker: LocalBroker, name: str
) -> None:
    """Bodies, properties, tag and keys equal, each queue in one queue as a consumer got it."""
    case = RecordedVhosts(name)
    folder = case.unpack(tmp_path)
    report = sent(spark, broker, folder, case)
    drained = {queue: some for queue, some in case.messages.items() if some}
    count = sum(map(len, drained.values()))
    assert (report.is_sent, report.messages, report.damaged) == (True, count, 0)
    rows = stored(spark, broker)
    queues: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        queues[row["properties"]["amqp_vhost"], row["properties"]["amqp_queue"]].append(row)
    assert set(queues) == set(drained)
    by_place = {
        (row["vhost"], row["queue"], str(row["seqId"]), row["body"]): row
        for row in map(as_row, one_by_one(folder))
        if row["state"] != "acknowledged" and row["isPersistent"]
    }
    for (vhost, queue), found in queues.items():
        assert len({(row["topic"], row["queueId"]) for row in found}) == 1
        expected = drained[vhost, queue]
        assert [hashlib.sha256(row["body"]).hexdigest() for row in found] == [
            one["body_sha256"] for one in expected
        ]
        for row, one in zip(found, expected, strict=True):
            own = row["properties"]
            source = by_place[vhost, queue, own["amqp_seq_id"], row["body"]]
            assert row["tags"] == (one["routing_key"] or None)
            assert row["keys"] == (source["messageId"] or None)
            assert ("amqp_redelivered" in own) is one["redelivered"]
            assert without_marks(own) == told(source)
    assert len({row["msgId"] for row in rows}) == count
    assert sum(row["messages"] for row in report.queues) == count
    assert sum(row["bytes"] for row in report.queues) == report.bytes


@pytest.mark.nightly
def test_a_second_run_writes_the_same_keys(spark: Any, tmp_path: Path, broker: LocalBroker) -> None:
    """All messages are there twice, and each key stands for one."""
    case = RecordedVhosts("05-properties-ttl")
    folder = case.unpack(tmp_path)
    first = sent(spark, broker, folder, case)
    topics = {row["topic"]: 0 for row in first.queues}
    for row in first.queues:
        topics[row["topic"]] += row["messages"]
    assert (first.topics_missing, set(first.topics_made)) == ([], set(topics))
    assert first.topics_held == []
    dry = sent(spark, broker, folder, case, dry_run=True)
    assert (dry.topics_missing, dry.topics_made) == ([], [])
    assert {row["topic"]: row["messages"] for row in dry.topics_held} == topics
    again = sent(spark, broker, folder, case, rate=100_000)
    assert (again.topics_made, again.messages) == ([], first.messages)
    assert again.topics_held == dry.topics_held
    keys: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in stored(spark, broker):
        told_of = without_marks(row["properties"])
        keys[row["msgId"]].append((row["topic"], row["body"], row["tags"], row["keys"], told_of))
    assert len(keys) == first.messages
    assert all(len(same) == 2 and same[0] == same[1] for same in keys.values())


def test_routes_make_topics_and_tags(spark: Any, tmp_path: Path) -> None:
    """The first that fits counts; a dry run tells what each takes, and sends nothing."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path / "node")
    file = tmp_path / "routes.txt"
    file.write_text("# comments\n\nexchange=ex\\..* topic={exchange} tag={routingKey}\n")
    routing = Routing(
        route=[
            "vhost='sprocket/β vhost' topic=other-{queue} tag={vhost}",
            r"queue=t\..* topic=times",
            "queue=none topic=never",
            "queue=x+ topic=xs tag=",
        ],
        routes_file=str(file),
    )
    sending = MigrateSending(dry_run=True)
    report = migrate(spark, source=folder, routing=routing, sending=sending)
    assert not report.is_sent
    routes = {row["route"]: row["messages"] for row in report.routes}
    assert routes["queue=none topic=never"] == 0
    topics = {row["queue"]: row["topic"] for row in report.queues}
    assert topics["orders"] == "other-orders"
    assert {topics[name] for name in topics if name.startswith("t.")} == {"times"}
    assert topics["a/b\\c:d*?"] == "a_b_c_d__"
    assert sum(routes.values()) == report.messages == 138


def test_messages_are_chosen(spark: Any, tmp_path: Path) -> None:
    """By queue and SQL; transient ones on request."""
    folder = RecordedVhosts("04-dirty-kill9").unpack(tmp_path)
    sending = MigrateSending(dry_run=True)

    def count(**given: Any) -> int:
        messages = MigratedMessages(**given)
        return migrate(spark, source=folder, messages=messages, sending=sending).messages

    rows = [row for row in map(as_row, one_by_one(folder)) if row["state"] != "acknowledged"]
    lasting = [row for row in rows if row["isPersistent"]]
    assert count() == len(lasting) == 811
    assert count(transient=True) >= len(lasting)
    journal = [row for row in lasting if row["queue"] == "d.journal"]
    assert count(queue=["d.journal"]) == len(journal)
    large = [row for row in lasting if len(row["body"]) > 1000]
    assert count(where="length(body) > 1000") == len(large)


def test_damage_is_named_or_left_out(spark: Any, tmp_path: Path) -> None:
    """Nothing is sent unless it is asked for what is sound alone."""
    folder = RecordedVhosts("03-store-fanout").unpack(tmp_path)
    file = sorted(Path(folder).rglob("*.rdq"))[0]
    data = file.read_bytes()
    file.write_bytes(data.replace(b"basic_message", b"basic_massage"))
    sending = MigrateSending(dry_run=True)
    with pytest.raises(QueryFailed, match="message"):
        migrate(spark, source=folder, sending=sending)
    messages = MigratedMessages(skip_damaged=True)
    report = migrate(spark, source=folder, messages=messages, sending=sending)
    assert report.damaged > len(report.damage) == DAMAGE_ROWS_MAX
    assert report.messages + report.damaged == 4339
    assert all(row["corruption"] for row in report.damage)
    assert says("`pipe migrate`", A_WRONG_BYTE) == (FAILS, REPORTED)


def test_checksums_are_compared_unless_nobody_asks(spark: Any, tmp_path: Path) -> None:
    """A message that is not as it was stored is damage; without checksums it is sent as it is."""
    folder = str(closed(tmp_path))
    in_store(tmp_path)
    sending = MigrateSending(dry_run=True)
    with pytest.raises(QueryFailed, match="another checksum"):
        migrate(spark, source=folder, sending=sending)
    report = migrate(spark, source=folder, messages=MigratedMessages(verify=False), sending=sending)
    assert (report.messages, report.damaged) == (COUNT, 0)


def test_what_a_clean_stop_had_is_missed(spark: Any, tmp_path: Path) -> None:
    """A segment of an index that is lost leaves a folder that looks whole."""
    folder = RecordedVhosts("06-segments-2048-default").unpack(tmp_path)
    sending = MigrateSending(dry_run=True)
    whole = migrate(spark, source=folder, sending=sending)
    segment = max(Path(folder).rglob("*.idx"), key=lambda path: path.stat().st_size)
    segment.unlink()
    with pytest.raises(QueryFailed, match="messages are missing"):
        migrate(spark, source=folder, sending=sending)
    messages = MigratedMessages(skip_damaged=True)
    report = migrate(spark, source=folder, messages=messages, sending=sending)
    assert (report.damaged, len(report.damage)) == (1, 1)
    assert segment.name in report.damage[0]["corruption"]
    assert report.messages < whole.messages
    assert says("`pipe migrate`", A_LOST_END) == (FAILS, REPORTED)


DRY = {"dry_run": True}


@pytest.mark.parametrize(
    ("messages", "routing", "sending", "said"),
    [
        ({}, {}, {}, "name the cluster by --name-server"),
        ({}, {}, DRY, "expected 1 to 127 letters"),
        ({}, {"route": ["topic={queu}"]}, DRY, "no message has {queu}"),
        ({"expired_by": "soon"}, {}, DRY, "--expired-by is 'soon'"),
        ({"queue": ["p.al"]}, {}, DRY, "there is no queue 'p.al'"),
        ({"where": "nothing > 1"}, {}, DRY, "nothing"),
        ({}, {"route": ["queue=x+ topic=xs"]}, {"option": ["maxMesageBytes=1m"], **DRY}, "unknown"),
        ({}, {"route": ["queue=[apt].* topic=a-{queue}-b", "queue=x+ topic=xs"]}, DRY, ""),
    ],
)
def test_what_is_wrong_is_told(
    spark: Any,
    tmp_path: Path,
    messages: dict[str, Any],
    routing: dict[str, Any],
    sending: dict[str, Any],
    said: str,
) -> None:
    """Before anything is sent."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    given: dict[str, Any] = {
        "source": folder,
        "messages": MigratedMessages(**messages),
        "routing": Routing(**routing),
        "sending": MigrateSending(**sending),
    }
    if not said:
        assert migrate(spark, **given).messages
        return
    with pytest.raises((SettingsError, QueryFailed), match=said):
        migrate(spark, **given)


def test_nothing_is_sent_where_something_is_missing(
    spark: Any, tmp_path: Path, broker: LocalBroker
) -> None:
    """Topics that are not there, and bodies that are too large, are told before."""
    folder = RecordedVhosts("03-store-fanout").unpack(tmp_path)
    cluster = JobCluster(name_server=broker.nameserver)
    with pytest.raises(SettingsError, match=r"does not have q_a, q_b, q_c, q_own: make them"):
        migrate(spark, source=folder, cluster=cluster)
    sending = MigrateSending(create_topics=1, option=["maxMessageBytes=100k"])
    with pytest.raises(SettingsError, match=r"messages of queue .* have more than 102400 bytes"):
        migrate(spark, source=folder, cluster=cluster, sending=sending)
    with Admin(broker.nameserver) as admin:
        assert not {"q_a", "q_b"} & set(admin.topic.names())


def test_the_example_of_the_guide(
    spark: Any, tmp_path: Path, broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sends what a recorded node had."""
    (text,) = re.findall(r"^```python\n(.+?)^```", GUIDE.read_text(encoding="utf-8"), re.S | re.M)
    vhosts = RecordedVhosts("01-journal-only").unpack(tmp_path)
    exec(  # noqa: S102
        text.replace("127.0.0.1:9876", broker.nameserver), {"spark": spark, "vhosts": vhosts}
    )
    assert capsys.readouterr().out.startswith("220 [{")
