"""The format in Spark itself: what only the engine can show."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.unit.spark.samples import expected, unpack

from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark.rocketmq.rows.columns import FULL

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
