"""The job that counts: equal to a straightforward count, and to the bytes of the files."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, REPORTED, says
from tests.unit.spark.rocketmq.folder.test_damage import BODY_AT, change, closed, logs
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.unit.spark.samples import expected, unpack

from sprocket.base.errors import CorruptRecord, SettingsError
from sprocket.rocketmq.model.internal import is_internal_topic
from sprocket.spark import QueryFailed
from sprocket.spark.jobs import stats
from sprocket.spark.jobs.stats import largest_of_class, size_class


@pytest.mark.spark
@pytest.mark.slow
def test_equals_a_straightforward_count(spark: Any, tmp_path: Path) -> None:
    """By topic, queue and tag, of a store that a real broker wrote, cut into four tasks."""
    store = unpack("02-kill9-load", tmp_path)
    told: list[tuple[str, int, int]] = []
    report = stats(
        spark,
        store=store,
        by=["topic", "queue", "tag"],
        progress=lambda what, done, total=0: told.append((what, done, total)),
    )
    wanted: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in expected("02-kill9-load"):
        if not is_internal_topic(line["topic"]):
            key = line["topic"], line["queue_id"], line["properties"].get("TAGS")
            wanted[key].append(line)
    rows = {(row["topic"], row["queue_id"], row["tag"]): row for row in report.counts}
    assert rows.keys() == wanted.keys()
    for key, lines in wanted.items():
        row, sizes = rows[key], sorted(line["store_size"] for line in lines)
        times = [line["store_timestamp"] for line in lines]
        assert (row["messages"], row["bytes"]) == (len(lines), sum(sizes))
        assert (row["first_stored_at_ms"], row["last_stored_at_ms"]) == (min(times), max(times))
        assert row["largest_bytes"] == sizes[-1]
        for percent in (50, 90, 99):
            exact = sizes[-(-len(sizes) * percent // 100) - 1]
            assert exact <= row[f"p{percent}_bytes"] <= exact * 33 / 32
    assert report.messages == sum(map(len, wanted.values()))


@pytest.mark.spark
@pytest.mark.slow
def test_all_records_are_the_bytes_of_the_log(spark: Any, tmp_path: Path) -> None:
    """With internal ones; hours and producers are the same records in other groups.

    Half messages that wait are told as well.
    """
    store = unpack("07-transactions", tmp_path)
    lines = expected("07-transactions")
    report = stats(spark, store=store, by=["producer", "hour"], internal=True)
    assert report.bytes == sum(line["store_size"] for line in lines)
    assert report.messages == len(lines)
    assert (report.halves, report.timed) == (8, 0)
    hosts = {line["born_host"].rpartition(":")[0] for line in lines}
    hours = {line["store_timestamp"] // 3_600_000 * 3_600_000 for line in lines}
    assert {row["producer"] for row in report.counts} == hosts
    assert {row["hour_at_ms"] for row in report.counts} == hours


@pytest.mark.spark
@pytest.mark.slow
def test_damage_is_told_in_one_line(spark: Any, tmp_path: Path) -> None:
    """With file and offset, as the worker said it, and no stack trace."""
    write_log(tmp_path, [3, 1])
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[120 + 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(QueryFailed, match=r"at physical offset 120: no record begins") as failed:
        stats(spark, store=str(tmp_path))
    assert "\n" not in str(failed.value)


@pytest.mark.spark
@pytest.mark.slow
def test_what_is_damaged_is_counted(spark: Any, tmp_path: Path) -> None:
    """Where it is to be left out, in a sealed file and in the newest; what follows is counted."""
    write_log(tmp_path, [8, 5])
    for base, place in ((0, 120), (0, 480), (1200, 240)):
        path = tmp_path / "commitlog" / f"{base:020d}"
        data = bytearray(path.read_bytes())
        data[place + 4] ^= 0xFF
        path.write_bytes(data)
    report = stats(spark, store=str(tmp_path), skip_damaged=True, by=["hour,queue", "tag"])
    assert (report.messages, report.bytes) == (10, 1200)
    assert (report.damaged, report.damaged_bytes) == (3, 360)
    assert [(row["position"], row["start"], row["bytes"]) for row in report.damage] == [
        (120, 120, 120),
        (480, 480, 120),
        (240, 1440, 120),
    ]
    report.frame(spark, "counts").createOrReplaceTempView("counted")
    assert spark.sql("select sum(messages) from counted").first()[0] == 10
    with pytest.raises(SettingsError, match="no rows 'count'; did you mean counts"):
        report.frame(spark, "count")
    assert sum(row["messages"] for row in report.counts) == 10


@pytest.mark.spark
@pytest.mark.slow
def test_wrong_checksums_and_a_lost_end_are_damage(spark: Any, tmp_path: Path) -> None:
    """Of a store that was closed: an error each, or counted and named; unless not wanted."""
    store = closed(tmp_path / "store")
    whole = stats(spark, store=str(store))
    change(logs(store)[0], BODY_AT)
    with pytest.raises(QueryFailed, match="at physical offset 0: the body does not fit"):
        stats(spark, store=str(store))
    assert stats(spark, store=str(store), verify=False).counts == whole.counts
    report = stats(spark, store=str(store), skip_damaged=True)
    assert (report.messages, report.damaged) == (whole.messages - 1, 1)
    logs(store)[-1].unlink()
    with pytest.raises(CorruptRecord, match="the log ends here, and went to"):
        stats(spark, store=str(store))
    report = stats(spark, store=str(store), skip_damaged=True)
    assert report.damaged == 2
    assert [row["file"] for row in report.damage] == [str(logs(store)[0]), str(logs(store)[-1])]
    assert report.damage[1]["why"].endswith("bytes are lost")
    assert report.damaged_bytes == sum(row["bytes"] for row in report.damage)
    assert report.messages < whole.messages - 1
    assert says("`pipe stats`", A_WRONG_BYTE) == (FAILS, REPORTED)
    assert says("`pipe stats`", A_LOST_END) == (FAILS, REPORTED)


@pytest.mark.spark
@pytest.mark.slow
def test_an_empty_log_has_no_groups(spark: Any, tmp_path: Path) -> None:
    """And no error."""
    write_log(tmp_path, [0])
    report = stats(spark, store=str(tmp_path))
    assert (report.messages, report.bytes, report.counts) == (0, 0, [])


def test_an_unknown_key_names_the_nearest() -> None:
    """Before anything is read."""
    with pytest.raises(SettingsError, match="did you mean tag"):
        stats(None, store="", by=["topic, tga"])


@given(st.integers(0, 2**31 - 1))
def test_a_size_lies_in_its_class(size: int) -> None:
    """Whose largest size is at most 1/32 larger, and of that class itself."""
    (number,) = size_class(np.array([size])).tolist()
    largest = largest_of_class(number)
    assert size <= largest <= size + size // 32
    assert size_class(np.array([largest, largest + 1])).tolist() == [number, number + 1]
