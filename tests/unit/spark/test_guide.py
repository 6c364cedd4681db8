"""The guide's examples run, against a store and against a broker that is killed meanwhile."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.killable import Broker
from tests.unit.spark.rocketmq.folder.test_reader import numbered
from tests.unit.spark.samples import expected, unpack

import sprocket.spark
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Producer
from sprocket.rocketmq.model.internal import is_internal_topic

pytestmark = [pytest.mark.spark, pytest.mark.slow]
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "spark.md"


def examples() -> list[str]:
    """Return the guide's examples."""
    return re.findall(r"^```python\n(.+?)^```", GUIDE.read_text(encoding="utf-8"), re.S | re.M)


def example(word: str) -> str:
    """Return the one example that has a word."""
    found = [one for one in examples() if word in one]
    assert len(found) == 1, word
    return found[0]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker on free ports."""
    broker = Broker(tmp_path / "store")
    yield broker
    broker.kill()


def send(broker: Broker, first: int, stop: int) -> None:
    """Send numbered messages."""
    with Producer(broker.nameserver, group="tests") as producer:
        for number in range(first, stop):
            producer.send_soon(Message("orders", b"%d" % number, keys=[f"k{number}"]))
        producer.flush()


def test_examples_of_the_table(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first three examples read a real store."""
    monkeypatch.setattr(sprocket.spark, "session", lambda: spark)
    names: dict[str, Any] = {"store": unpack("05-long-topic", tmp_path)}
    for one in examples()[:3]:
        exec(one, names)  # noqa: S102
    users = [line for line in expected("05-long-topic") if not is_internal_topic(line["topic"])]
    assert names["sizes"].count() == len(users)
    assert "Plain" in capsys.readouterr().out


def test_example_of_a_directory_elsewhere(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """The guide's options lead to the store, here on a server of this machine."""
    address = object_store.put(unpack("05-long-topic", tmp_path), "guide")
    settings = object_store.settings
    text = example("fs.access_key").replace("s3://stores/broker-a", address)
    text = text.replace("http://127.0.0.1:9000", settings["endpoint_override"])
    names = {"spark": spark, "key": settings["access_key"], "secret": settings["secret_key"]}
    exec(text, names)  # noqa: S102
    users = [line for line in expected("05-long-topic") if not is_internal_topic(line["topic"])]
    assert names["far"].count() == len(users)


def test_examples_of_parts_and_of_sql(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part by time; a table that is made, and asked."""
    store = numbered(tmp_path, [("orders", 0, 3), ("refunds", 0, 4)])
    names: dict[str, Any] = {"spark": spark, "store": store}
    exec(example("morning"), names)  # noqa: S102
    assert names["morning"].count() == 0
    try:
        exec(example("CREATE TABLE"), names)  # noqa: S102
    finally:
        spark.sql("DROP TABLE IF EXISTS orders")
    assert re.findall(r"^\| +(\d+)\|$", capsys.readouterr().out, re.M) == ["3", "0"]


def test_the_example_of_errors(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line tells what was wrong."""
    store = numbered(tmp_path, [("orders", 0, 3)])
    (tmp_path / "consumequeue" / "orders").mkdir(parents=True, exist_ok=True)
    exec(example("import QueryFailed"), {"spark": spark, "store": store})  # noqa: S102
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"there is no topic 'ordres' in {store}; did you mean orders?")


def test_the_example_of_a_job(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts a real store."""
    (example,) = (one for one in examples() if "import stats" in one)
    names: dict[str, Any] = {"spark": spark, "store": unpack("05-long-topic", tmp_path)}
    exec(example, names)  # noqa: S102
    users = [line for line in expected("05-long-topic") if not is_internal_topic(line["topic"])]
    assert capsys.readouterr().out.split()[0] == str(len(users))


def test_the_example_of_a_job_elsewhere(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """It archives one topic, by the options that reach the server."""
    store = numbered(tmp_path, [("orders", 0, 3), ("refunds", 0, 4)])
    to = object_store.put(str(tmp_path / "nothing"), "guide-archive")
    settings = object_store.settings
    text = example("import ArchivedMessages").replace("s3://archives/broker-a", to)
    given = f'"endpoint_override={settings["endpoint_override"]}"'
    for name in ("access_key", "secret_key"):
        given += f', "{name}={settings[name]}"'
    text = text.replace('"endpoint_override=http://127.0.0.1:9000"', given)
    names: dict[str, Any] = {"spark": spark, "store": store}
    exec(text, names)  # noqa: S102
    assert names["report"].messages == 3


def test_the_streams_go_on_after_a_restart(spark: Any, tmp_path: Path, broker: Broker) -> None:
    """The guide's streams, run twice, archive every message once; one starts with what is new."""
    folders = {name: str(tmp_path / name) for name in ("out", "archived", "latest")}
    queries = dict(zip(folders, ("query", "archive", "recent"), strict=True))

    names: dict[str, Any] = {"spark": spark, "store": str(broker.folder), **folders}
    names["checkpoints"] = str(tmp_path / "checkpoints")  # in which each query has its own
    for first, stop in ((0, 50), (50, 80)):
        send(broker, first, stop)
        for name, query in queries.items():
            text = example(f'.option("path", {name})')
            exec(text.replace("127.0.0.1:9876", broker.nameserver), names)  # noqa: S102
            names[query].awaitTermination()
        broker.kill()
        broker.start()
    for name, folder in folders.items():
        texts = [row.text for row in spark.read.parquet(folder).collect()]
        first = 50 if name == "latest" else 0
        assert sorted(texts, key=int) == [str(number) for number in range(first, 80)]


def test_the_example_of_a_live_table(spark: Any, broker: Broker) -> None:
    """It begins where it says, which the example's topic does not have."""
    send(broker, 0, 9)
    text = example("live = (").replace("127.0.0.1:9876", broker.nameserver)
    names: dict[str, Any] = {"spark": spark}
    exec(text.replace('"0":100', '"0":0'), names)  # noqa: S102
    assert sorted(int(row.body) for row in names["live"].collect()) == list(range(9))


def test_a_query_survives_a_killed_broker(spark: Any, tmp_path: Path, broker: Broker) -> None:
    """A broker killed with -9 under a running query costs it waiting, and nothing else."""
    send(broker, 0, 40)
    stream = spark.readStream.format("rocketmq").option("nameServer", broker.nameserver)
    stream = stream.option("subscribe", "orders").option("maxOffsetsPerTrigger", 7)
    out = str(tmp_path / "out")
    writer = stream.load().writeStream.format("parquet").option("path", out)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(query, 8)
        broker.kill()
        broker.start()
        send(broker, 40, 60)
        wait_until(query, 60)
    finally:
        query.stop()
    bodies = [int(row.body) for row in spark.read.parquet(out).collect()]
    assert sorted(bodies) == list(range(60))


def wait_until(query: Any, count: int) -> None:
    """Return when a query has read so many rows; it fails with the query's own error."""
    rows: dict[int, int] = {}
    while sum(rows.values()) < count:
        rows |= {one["batchId"]: one["numInputRows"] for one in query.recentProgress}
        assert not query.awaitTermination(0.05)


def test_example_of_transactions(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of a real store; those that wait are shown."""
    names: dict[str, Any] = {"spark": spark, "store": unpack("07-transactions", tmp_path)}
    exec(example("sprocket.spark import transactions"), names)  # noqa: S102
    shown = capsys.readouterr().out
    assert names["ended"].count() == 40
    waiting = [row.transactionId for row in names["ended"].where("state = 'unknown'").collect()]
    assert len(waiting) == 8
    assert all(one[:17] in shown for one in waiting)
