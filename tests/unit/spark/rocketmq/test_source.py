"""The format in Spark itself: what only the engine can show."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.unit.spark.rocketmq.folder.test_reader import numbered
from tests.unit.spark.samples import expected, unpack

from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark import QueryFailed, in_one_line
from sprocket.spark.rocketmq.rows.columns import FULL

pytestmark = [pytest.mark.spark, pytest.mark.slow]


_PLANS = """
import sys
from pyspark.sql.types import StructType
from sprocket.spark.rocketmq import RocketMQSource
given = {"nameserver": "127.0.0.1:1", "subscribe": "orders"}
RocketMQSource(given).streamReader(StructType().add("body", "binary").add("tags", "string"))
heavy = ("pandas", "rocksdict", "structlog", "sprocket.spark.rocketmq.folder")
print([name for name in heavy if name in sys.modules])
"""


def test_a_stream_over_topics_imports_little() -> None:
    """Each new stream starts a process for its planning, which should not import for a second."""
    done = subprocess.run(
        [sys.executable, "-c", _PLANS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_store_is_a_table(spark: Any, tmp_path: Path) -> None:
    """All columns of a real store pass the engine unchanged; internal topics are hidden."""
    frame = spark.read.format("rocketmq").load(unpack("11a-ipv6-store-host", tmp_path))
    assert tuple(frame.columns) == FULL
    lines = [
        line for line in expected("11a-ipv6-store-host") if not is_internal_topic(line["topic"])
    ]
    rows = frame.orderBy("physicalOffset").collect()
    assert [line["phys"] for line in lines] == [row.physicalOffset for row in rows]
    assert [line["properties"] for line in lines] == [row.properties for row in rows]
    assert [line["born_host"] for line in lines] == [row.bornHost for row in rows]
    assert [line["store_timestamp"] for line in lines] == [
        round(row.storeTimestamp.timestamp() * 1000) for row in rows
    ]


def test_many_partitions_and_any_schema(spark: Any, tmp_path: Path) -> None:
    """A user's schema is filled in its own order, over as many tasks as the options make."""
    store = unpack("02-kill9-load", tmp_path)
    reader = spark.read.format("rocketmq").option("maxPartitionBytes", "256k")
    frame = reader.schema("queueOffset long, topic string").load(store)
    assert frame.rdd.getNumPartitions() == 4
    table = frame.toArrow()
    assert table.schema.names == ["queueOffset", "topic"]
    assert table.num_rows == len(expected("02-kill9-load"))
    wide = reader.schema("queueId long").load(store).agg({"queueId": "max"})
    assert wide.collect()[0][0] > 0


def test_null_where_the_schema_says_not_null_is_one_line(spark: Any, tmp_path: Path) -> None:
    """Spark itself fails with a stack trace of Java."""
    store = numbered(tmp_path, [("a", 0, 2)])
    reader = spark.read.format("rocketmq").schema("brokerName string not null")
    with (
        pytest.raises(
            QueryFailed, match=r"^column 'brokerName' is null at physical offset 0, and NOT"
        ),
        in_one_line(),
    ):
        reader.load(store).collect()


def test_an_empty_log_gives_no_rows(spark: Any, tmp_path: Path) -> None:
    """Spark stands a bare partition in for an empty list; it must give nothing."""
    write_log(tmp_path, [0])
    assert spark.read.format("rocketmq").load(str(tmp_path)).collect() == []


def test_damage_becomes_a_row(spark: Any, tmp_path: Path) -> None:
    """The row for damage fits the engine's schema."""
    write_log(tmp_path, [3, 1])
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[120 + 4] ^= 0xFF
    path.write_bytes(data)
    frame = spark.read.format("rocketmq").option("mode", "PERMISSIVE").load(str(tmp_path))
    rows = frame.orderBy("physicalOffset").collect()
    assert [row.corruption is None for row in rows] == [True, False, True, True]


def test_a_table_of_the_catalog_keeps_its_options(spark: Any, tmp_path: Path) -> None:
    """Spark adds words of its own and passes no options when the table is read; both is mended."""
    store = numbered(tmp_path / "store", [("a", 0, 2), ("b", 0, 3)])
    given = f"path '{store}', subscribe 'b', columns 'topic,queueOffset'"
    spark.sql(
        f"CREATE TABLE made USING rocketmq OPTIONS ({given}) COMMENT 'x' TBLPROPERTIES ('k' = 'v')"
    )
    try:
        rows = [
            tuple(row) for row in spark.sql("SELECT * FROM made ORDER BY queueOffset").collect()
        ]
        assert rows == [("b", 0), ("b", 1), ("b", 2)]
        assert spark.sql("SELECT * FROM made WITH (subscribe = 'a')").count() == 2
        with pytest.raises(Exception, match="unknown option 'subscrib'; did you mean subscribe"):
            spark.sql(f"CREATE TABLE wrong USING rocketmq OPTIONS (path '{store}', subscrib 'b')")
    finally:
        spark.sql("DROP TABLE made")
    assert spark.read.format("rocketmq").load(store).count() == 5


def test_a_list_of_directories(spark: Any, tmp_path: Path) -> None:
    """`load` of a list reads all of them."""
    stores = [numbered(tmp_path / name, [("a", 0, 2)]) for name in ("one", "two")]
    assert spark.read.format("rocketmq").load(stores).count() == 4


def test_a_store_in_an_object_store(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """Workers open it by the options alone; the rows are those of the local folder."""
    store = unpack("05-long-topic", tmp_path)
    address = object_store.put(store, "engine")
    reader = spark.read.format("rocketmq")
    near = reader.load(store).orderBy("physicalOffset").toArrow()
    far = reader.options(**object_store.options).load(address).orderBy("physicalOffset").toArrow()
    assert far.equals(near)
    assert near.num_rows > 10


@pytest.mark.parametrize("may_push", ["false", "true"])
def test_a_frame_is_filtered_again_and_again(spark: Any, tmp_path: Path, may_push: str) -> None:
    """What one use of it leaves out is there for the others: Spark filters, the source does not.

    Whether Spark may tell Python sources of filters, or not.
    """
    store = numbered(tmp_path, [("a", 0, 20), ("b", 0, 20)])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", may_push)
    try:
        frame = spark.read.format("rocketmq").load(store)
        one, two = frame.where("topic = 'a'"), frame.where("topic = 'b' AND queueOffset >= 5")
        assert (one.count(), two.count(), frame.count()) == (20, 15, 40)
        assert one.union(two).count() == 35
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscrib": "x"}, "unknown option 'subscrib'; did you mean subscribe"),
        ({"columns": "bdy"}, "unknown column 'bdy'; did you mean body"),
    ],
)
def test_errors_say_what_is_wrong(
    spark: Any, tmp_path: Path, given: dict[str, str], said: str
) -> None:
    """The text that the user gets holds ours."""
    write_log(tmp_path, [1])
    with pytest.raises(Exception, match=said):
        spark.read.format("rocketmq").options(**given).load(str(tmp_path)).count()
