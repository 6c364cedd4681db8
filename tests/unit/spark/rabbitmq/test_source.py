"""The format in Spark itself, and the guide's examples."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.recorded_rabbitmq import RecordedVhosts
from tests.unit.spark.rabbitmq.test_reader import EVERYTHING, as_row, one_by_one, order, read

import sprocket.spark
from sprocket.spark import QueryFailed, in_one_line
from sprocket.spark.rabbitmq.columns import FULL

pytestmark = [pytest.mark.spark, pytest.mark.slow]
GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark-rabbitmq.md"


def test_queues_are_a_table(spark: Any, tmp_path: Path) -> None:
    """All columns pass the engine unchanged, from several tasks."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    reader = spark.read.format("rabbitmq").option("minPartitions", "4")
    assert tuple(reader.load(folder).columns) == FULL
    frame = reader.option("columns", EVERYTHING).load(folder)
    assert frame.rdd.getNumPartitions() >= 4
    found = frame.toArrow().to_pylist(maps_as_pydicts="strict")
    assert sorted(found, key=order) == sorted(map(as_row, one_by_one(folder)), key=order)


def test_any_schema(spark: Any, tmp_path: Path) -> None:
    """A user's schema is filled in its own order; a wrong one is refused."""
    folder = RecordedVhosts("01-journal-only").unpack(tmp_path)
    reader = spark.read.format("rabbitmq")
    frame = reader.schema("state string, seqId long").load(folder)
    assert frame.columns == ["state", "seqId"]
    assert frame.groupBy("state").count().count() == 3
    narrow = reader.schema("seqId short, bodySize long").load(folder)
    assert narrow.agg({"seqId": "max"}).collect()[0][0] > 0
    for schema, said in (
        ("seqId string", "'seqId' is bigint, the schema says string"),
        ("messageId string not null", "^column 'messageId' is null for message .* and NOT NULL"),
    ):
        with pytest.raises(QueryFailed, match=said), in_one_line():
            reader.schema(schema).load(folder).collect()


def test_a_table_of_the_catalog(spark: Any, tmp_path: Path) -> None:
    """It remembers its options."""
    folder = RecordedVhosts("05-properties-ttl").unpack(tmp_path)
    spark.sql(
        f"CREATE TABLE queued USING rabbitmq OPTIONS (path '{folder}', queue 'orders', view 'meta')"
    )
    try:
        assert spark.sql("SELECT * FROM queued").count() == 13
    finally:
        spark.sql("DROP TABLE IF EXISTS queued")


def test_an_object_store(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """The same rows from S3, by few requests for the files of the store."""
    folder = RecordedVhosts("08-classic-v2").unpack(tmp_path)
    address = object_store.put(folder, "rabbit/vhosts")
    reader = spark.read.format("rabbitmq").options(**object_store.options)
    found = reader.load(address).toArrow().to_pylist(maps_as_pydicts="strict")
    expected = read(folder)
    assert sorted(found, key=order) == sorted(expected, key=order)
    assert len(object_store.requests) < len(expected)


def test_the_examples_of_the_guide(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They show what the recorded node had."""
    monkeypatch.setattr(sprocket.spark, "session", lambda: spark)
    names: dict[str, Any] = {"vhosts": RecordedVhosts("05-properties-ttl").unpack(tmp_path)}
    for text in re.findall(
        r"^```python\n(.+?)^```", GUIDE.read_text(encoding="utf-8"), re.S | re.M
    ):
        exec(text, names)  # noqa: S102
    assert names["orders"].count() == 13
    assert re.search(r"orders *\| *published *\| *13", capsys.readouterr().out)
