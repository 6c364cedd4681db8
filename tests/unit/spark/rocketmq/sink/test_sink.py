"""DataFrames and streams become messages, in Spark itself; and the guide's examples."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sprocket.rocketmq.client import Message, blocking
from sprocket.rocketmq.codec.record.properties import CRC32
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.settings import TimerSettings
from sprocket.spark import QueryFailed, in_one_line
from sprocket.spark.rocketmq.sink.rows import SINK_COLUMNS
from sprocket.testing.local_broker import LocalBroker, small_settings

GUIDE = Path(__file__).resolve().parents[5] / "docs" / "guides" / "spark-sink.md"
in_spark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker with a topic of four queues."""
    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("orders", queues=4)
        yield broker


def writer(frame: Any, broker: LocalBroker, **given: str) -> Any:
    """Return the writer of a DataFrame to `orders`."""
    options = {"nameServer": broker.nameserver, "topic": "orders", **given}
    return frame.write.format("rocketmq").mode("append").options(**options)


def examples() -> list[str]:
    """Return the guide's examples."""
    return re.findall(r"^```python\n(.+?)^```", GUIDE.read_text(encoding="utf-8"), re.S | re.M)


def keyed(messages: list[StoredMessage]) -> dict[str, str]:
    """Return bodies by unique key; each key has one body."""
    found: dict[str, str] = {}
    for message in messages:
        body = message.body.decode()
        assert found.setdefault(message.message_id, body) == body
    return found


def _without_sum(message: StoredMessage) -> dict[str, str]:
    """Return the properties but for the record's own checksum."""
    return {name: value for name, value in message.properties.items() if name != CRC32}


def test_the_guide_lists_every_column() -> None:
    """The table has exactly the columns that there are, with their types and notes."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", GUIDE.read_text(encoding="utf-8"), re.M)
    listed = [(name, kinds, note) for name, kinds, note in rows]
    assert listed == [
        (name, ", ".join(sorted(kinds)), note) for name, (kinds, note) in SINK_COLUMNS.items()
    ]


class TestInSpark:
    """What only the engine can show."""

    pytestmark = in_spark

    def test_a_frame_is_written_and_read_again(self, spark: Any, broker: LocalBroker) -> None:
        """Every row is there once; the source gives what was written."""
        frame = spark.range(3_000).selectExpr(
            "concat('body ', id) AS body",
            "if(id % 3 = 0, null, 'T') AS tags",
            "concat('k', id) AS keys",
            "map('number', cast(id AS string)) AS properties",
        )
        writer(frame, broker).save()
        found = spark.read.format("rocketmq").option("subscribe", "orders").load(broker.folder)
        rows = {int(row.keys[1:]): row for row in found.collect()}
        assert sorted(rows) == list(range(3_000))
        assert len({row.msgId for row in rows.values()}) == 3_000
        for number, row in rows.items():
            assert row.body == b"body %d" % number
            assert row.tags == (None if number % 3 == 0 else "T")
            assert row.properties["number"] == str(number)

    @pytest.mark.parametrize("large", ["false", "true"])
    def test_keys_as_spark_makes_arrays(self, spark: Any, broker: LocalBroker, large: str) -> None:
        """Of words that cannot be null, too; with short and with long offsets."""
        setting = "spark.sql.execution.arrow.useLargeVarTypes"
        frame = (
            spark.range(4)
            .repartition(1)
            .selectExpr(
                "concat('body ', id) AS body",
                "CASE id WHEN 0 THEN array('a', 'b') WHEN 1 THEN split('c d', ' ')"
                " WHEN 2 THEN null ELSE array() END AS keys",
                "map('n', cast(id AS string)) AS properties",
            )
        )
        never_null = spark.sql(
            "SELECT 'all' AS body, array('x', 'y') AS keys, 'T' COLLATE UTF8_LCASE AS tags"
            " UNION ALL SELECT max(w), collect_list(w), 'U' COLLATE UTF8_LCASE"
            " FROM VALUES ('v'), ('w') AS t(w)"
        )
        before = spark.conf.get(setting)
        try:
            spark.conf.set(setting, large)
            writer(frame, broker).save()
            writer(never_null, broker).save()
        finally:
            spark.conf.set(setting, before)
        found = {one.body.decode(): sorted(one.keys) for one in broker.messages("orders")}
        assert found == {
            "body 0": ["a", "b"],
            "body 1": ["c", "d"],
            "body 2": [],
            "body 3": [],
            "all": ["x", "y"],
            "w": ["v", "w"],
        }

    def test_a_write_that_is_repeated_has_the_same_unique_keys(
        self, spark: Any, broker: LocalBroker
    ) -> None:
        """So a reader drops the doubles; another write has others."""
        frame = spark.range(200).selectExpr("concat('body ', id) AS body")
        for version in ("1", "1", "2"):
            writer(frame, broker, txnAppId="app", txnVersion=version).save()
        assert len(broker.messages("orders")) == 600
        assert len(keyed(broker.messages("orders"))) == 400
        names: dict[str, Any] = {"spark": spark, "store": broker.folder}
        exec(examples()[1], names)  # noqa: S102
        assert names["once"].count() == 400

    def test_a_key_column_makes_unique_keys_whatever_the_order(
        self, spark: Any, broker: LocalBroker
    ) -> None:
        """Also over another number of partitions."""
        frame = spark.range(100).selectExpr("id", "concat('body ', id) AS body")
        for partitions in (1, 3):
            writer(frame.repartition(partitions), broker, keyColumn="id").save()
        assert len(broker.messages("orders")) == 200
        assert len(keyed(broker.messages("orders"))) == 100

    def test_a_row_that_cannot_be_sent(self, spark: Any, broker: LocalBroker) -> None:
        """The error names partition, row and column."""
        frame = spark.range(10).repartition(1).selectExpr("if(id = 7, null, 'x') AS body")
        with pytest.raises(Exception, match=r"partition 0, row \d, column 'body': is null"):
            writer(frame, broker).save()

    def test_a_broker_without_timers_gets_nothing(self, spark: Any) -> None:
        """It would take the rows before the first one that has a time."""
        frame = spark.range(10).selectExpr(
            "'x' AS body", "if(id = 9, current_timestamp() + interval 1 hour, null) AS deliverAt"
        )
        settings = replace(small_settings(), timers=TimerSettings(enabled=False))
        with LocalBroker(settings=settings) as broker:
            with (
                pytest.raises(QueryFailed, match=r"^broker '.+' has timerWheelEnable=false"),
                in_one_line(),
            ):
                writer(frame.repartition(1), broker).save()
            with pytest.raises(NoRoute):
                broker.messages("orders")

    @pytest.mark.parametrize("method", ["none", "zlib", "lz4", "zstd"])
    def test_long_bodies_are_packed_as_asked(
        self, spark: Any, broker: LocalBroker, method: str
    ) -> None:
        """Or not at all; readers get them as they were."""
        frame = spark.range(40).selectExpr("rpad(concat('body ', id, ' '), 5000, 'xyz') AS body")
        writer(frame.repartition(1), broker, compression=method).save()
        found = broker.messages("orders")
        bits = {"none": 0, "lz4": 0x101, "zstd": 0x201, "zlib": 0x301}[method]
        assert {one.sys_flag & 0x701 for one in found} == {bits}
        assert len({one.message_id for one in found}) == 40
        rows = spark.read.format("rocketmq").option("subscribe", "orders").load(broker.folder)
        assert {len(row.body) for row in rows.select("body").collect()} == {5000}

    @pytest.mark.parametrize(
        ("mode", "said"), [("overwrite", "messages are only added"), ("ignore", "Append")]
    )
    def test_other_modes_are_refused(
        self, spark: Any, broker: LocalBroker, mode: str, said: str
    ) -> None:
        """Nothing can be replaced."""
        frame = spark.range(1).selectExpr("'x' AS body")
        with pytest.raises(Exception, match=said):
            writer(frame, broker).mode(mode).save()
        assert broker.messages("orders") == []

    def test_a_topic_is_copied(self, spark: Any, broker: LocalBroker, tmp_path: Path) -> None:
        """By the guide's example: all that a message says is kept, its place in its queue, too."""
        with blocking.Producer(broker.nameserver) as producer:
            for number in range(100):
                message = Message(
                    "orders",
                    b"%d" % number,
                    tag="T",
                    keys=["a", "b"],
                    properties={"p": "1"},
                    flag=7,
                )
                producer.send_soon(message)
            producer.flush()
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("copies", queues=4)
        names: dict[str, Any] = {"spark": spark, "checkpoints": str(tmp_path)}
        exec(examples()[3].replace("127.0.0.1:9876", broker.nameserver), names)  # noqa: S102
        names["query"].awaitTermination()
        assert names["query"].exception() is None

        def told(topic: str) -> list[Any]:
            return [
                (one.queue_id, one.queue_offset, one.body, _without_sum(one), one.flag)
                for one in broker.messages(topic)
            ]

        assert sorted(told("copies"), key=str) == sorted(told("orders"), key=str)

    def test_a_stream_has_keys_of_its_own_query(
        self, spark: Any, broker: LocalBroker, tmp_path: Path
    ) -> None:
        """Batch by batch; the same rows read by another query get others."""
        source = tmp_path / "source"
        source.mkdir()
        for number in range(3):
            (source / f"{number}.txt").write_text("one\ntwo\n")
        for query in ("first", "second"):
            (
                spark.readStream.format("text")
                .option("maxFilesPerTrigger", 1)
                .load(str(source))
                .selectExpr("value AS body")
                .writeStream.format("rocketmq")
                .option("nameServer", broker.nameserver)
                .option("topic", "orders")
                .option("checkpointLocation", str(tmp_path / query))
                .trigger(availableNow=True)
                .start()
                .awaitTermination()
            )
        assert len(keyed(broker.messages("orders"))) == 12

    def test_a_stream_cannot_replace(self, spark: Any, broker: LocalBroker, tmp_path: Path) -> None:
        """The mode `complete` would mean to send everything again and again."""
        rates = spark.readStream.format("rate").load().groupBy("value").count()
        with pytest.raises(Exception, match="messages are only added"):
            (
                rates.selectExpr("cast(value AS string) AS body")
                .writeStream.format("rocketmq")
                .outputMode("complete")
                .option("nameServer", broker.nameserver)
                .option("topic", "orders")
                .option("checkpointLocation", str(tmp_path))
                .start()
                .awaitTermination(60)
            )

    def test_the_guides_other_examples(self, spark: Any, broker: LocalBroker) -> None:
        """A frame as JSON, and a batch of `foreachBatch`, whose repeat has the same keys."""
        names: dict[str, Any] = {
            "spark": spark,
            "frame": spark.range(5).selectExpr("concat('c', id) AS customer", "id AS amount"),
        }
        written = [one.replace("127.0.0.1:9876", broker.nameserver) for one in examples()]
        exec(written[0], names)  # noqa: S102
        bodies = sorted(one.body for one in broker.messages("orders"))
        assert bodies[0] == b'{"customer":"c0","amount":0}'
        exec(written[2], names)  # noqa: S102
        for _ in range(2):
            names["send"](spark.range(5).selectExpr("cast(id AS string) AS body"), 4)
        assert len(broker.messages("copies")) == 10
        assert len(keyed(broker.messages("copies"))) == 5
