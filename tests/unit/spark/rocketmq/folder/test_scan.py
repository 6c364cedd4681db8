"""Rows of a partition: equal to what a real broker's decoder saw, and damage told as asked."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.rocketmq.folder.test_plan import FILE_BYTES, write_log
from tests.unit.spark.samples import (
    DATA,
    directory,
    encoded,
    expected,
    plain_rows,
    schema,
    unpack,
)

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.spark.rocketmq.folder.plan import Span, plan
from sprocket.spark.rocketmq.folder.scan import scan
from sprocket.spark.rocketmq.rows.batches import Batches

CASES = sorted(path.name for path in DATA.iterdir() if (path / "store.tar.xz").exists())
TORN = {"03-torn-last-cut", "03-torn-last-head"}
"""The broker itself did not keep the last record of the list."""


def read(store: str, loss: bool = True, target: int = 0, **given: str) -> list[dict[str, Any]]:
    """Return the rows of a store."""
    options = directory(includeInternalTopics="true", **given)
    groups = plan(RealDisk(), store, target, no_cut_bytes=0)
    return rows_of([span for group in groups for span in group], loss, options)


def rows_of(spans: list[Span], loss: bool, options: Any) -> list[dict[str, Any]]:
    """Return the rows of some spans."""
    batches = Batches(schema(options), options)
    return plain_rows(list(scan(RealDisk(), spans, batches, fail_on_data_loss=loss)))


@pytest.mark.parametrize("case", CASES)
def test_real_stores_row_for_row(tmp_path: Path, case: str) -> None:
    """Packed bodies, V2 records, IPv6 hosts, odd properties: equal to RocketMQ's own decoder."""
    names = {
        "topic": "topic",
        "queueId": "queue_id",
        "queueOffset": "queue_offset",
        "physicalOffset": "phys",
        "size": "store_size",
        "bornTimestamp": "born_timestamp",
        "storeTimestamp": "store_timestamp",
        "bornHost": "born_host",
        "storeHost": "store_host",
        "sysFlag": "sys_flag",
        "flag": "flag",
        "bodyCRC": "body_crc",
        "reconsumeTimes": "reconsume_times",
        "preparedTransactionOffset": "prepared_transaction_offset",
        "offsetMsgId": "msg_id",
        "properties": "properties",
    }
    found = read(unpack(case, tmp_path))
    lines = expected(case)
    lines = lines[: len(lines) - (case in TORN)]
    assert len(lines) == len(found)
    for line, row in zip(lines, found, strict=True):
        assert {mine: line[theirs] for mine, theirs in names.items()} == {
            mine: row[mine] for mine in names
        }
        assert line["body_sha256"] == hashlib.sha256(row["body"]).hexdigest()
        assert row["msgId"] == (line["unique_key"] or line["msg_id"])
        assert row["tags"] == line["properties"].get("TAGS")
        assert row["keys"] == line["properties"].get("KEYS")


def damaged(folder: Path) -> str:
    """Make a log of two files whose first has a broken record in the middle."""
    write_log(folder, [8, 2])
    path = folder / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[240 + 4] ^= 0xFF
    path.write_bytes(data)
    return str(folder)


def test_damage_fails_by_default_and_is_named(tmp_path: Path) -> None:
    """The text has the file, the place and what was found."""
    with pytest.raises(CorruptRecord, match="00000000: at physical offset 240: no record begins"):
        read(damaged(tmp_path))


def test_permissive_gives_a_row_for_damage(tmp_path: Path) -> None:
    """Reading goes on at the next record; the bytes between are one row."""
    found = read(damaged(tmp_path), mode="PERMISSIVE")
    assert [row["physicalOffset"] for row in found] == [
        0,
        120,
        240,
        *range(360, 960, 120),
        1200,
        1320,
    ]
    assert [row["corruption"] is not None for row in found] == [False, False, True] + [False] * 7
    assert (found[2]["size"], found[2]["topic"], found[2]["body"]) == (120, None, None)


def test_dropmalformed_leaves_damage_out(tmp_path: Path) -> None:
    """The same without the row."""
    found = read(damaged(tmp_path), mode="DROPMALFORMED")
    assert [row["physicalOffset"] for row in found] == [0, 120, *range(360, 960, 120), 1200, 1320]


def test_a_cut_that_is_no_record_is_noticed(tmp_path: Path) -> None:
    """A reader that does not land on the end of its range fails, naming the place."""
    write_log(tmp_path, [8])
    path = str(tmp_path / "commitlog" / f"{0:020d}")
    options = directory()
    with pytest.raises(CorruptRecord, match="at physical offset 240: a record of 120 bytes"):
        rows_of([Span(path, 0, 0, 300, False)], True, options)
    write_log(tmp_path, [8, 1])
    with pytest.raises(CorruptRecord, match="padding of the file begins here, before 1100"):
        rows_of([Span(path, 0, 0, 1100, False)], True, options)


def test_a_body_faking_a_record_is_noticed(tmp_path: Path) -> None:
    """A body that holds a record in its own place fools resync; the landing check sees it."""
    fake = encoded(1, base=88 + 100)
    outer = encoded(1, body=bytes(100) + fake + bytes(50))
    data = outer + encoded(2, base=len(outer))
    log = tmp_path / "commitlog"
    log.mkdir()
    (log / f"{0:020d}").write_bytes(data.ljust(FILE_BYTES, b"\0"))
    (log / f"{FILE_BYTES:020d}").write_bytes(encoded(1, base=FILE_BYTES).ljust(FILE_BYTES, b"\0"))
    groups = plan(RealDisk(), str(tmp_path), 150, no_cut_bytes=0)
    assert groups[0][0].end == 188
    with pytest.raises(CorruptRecord, match="does not end in the 188 bytes"):
        read(str(tmp_path), target=150)


def test_a_file_that_vanishes_while_reading(tmp_path: Path) -> None:
    """Retention may delete a file that was planned: an error, or its rows are left out."""
    write_log(tmp_path, [2, 2])
    spans = [span for group in plan(RealDisk(), str(tmp_path)) for span in group]
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(FileMissing, match="cleaned away while the query ran"):
        rows_of(spans, True, directory())
    assert len(rows_of(spans, False, directory())) == 2
