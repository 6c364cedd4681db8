"""The job that archives: equal to the store, resumed without repeats, read by other engines."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, REPORTED, says
from tests.unit.spark.jobs import interrupted_archive
from tests.unit.spark.rocketmq.folder.test_damage import (
    BODY_AT,
    COUNT,
    change,
    closed,
    cut_short,
    logs,
)
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.unit.spark.rocketmq.folder.test_stream import Store, make_anew
from tests.unit.spark.samples import expected, unpack

from sprocket.base.disk import RealDisk
from sprocket.base.errors import (
    CorruptRecord,
    DataLost,
    ForeignStore,
    SettingsError,
)
from sprocket.spark import QueryFailed
from sprocket.spark.archive import ArchiveFolder, archive_files, read_archive
from sprocket.spark.files import LocalFiles
from sprocket.spark.jobs import ArchivedMessages, ArchiveRun, archive

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CUT = ArchiveRun(partition_bytes=200_000, round_bytes=400_000)
"""Some tasks and some rounds, of a store of 900 kB."""


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """All columns of all rows, in the order of the log."""
    rows: list[dict[str, Any]] = frame.orderBy("physicalOffset").toArrow().to_pylist()
    return rows


def test_an_archive_equals_its_store(spark: Any, tmp_path: Path) -> None:
    """Every column of every row; and a second run finds nothing new."""
    store, to = unpack("02-kill9-load", tmp_path), str(tmp_path / "archive")
    report = archive(spark, store=store, to=to, run=CUT)
    assert report.messages == len(expected("02-kill9-load"))
    assert len(ArchiveFolder(LocalFiles(RealDisk()), to).manifests()) == 2
    wanted = rows_of(spark.read.format("rocketmq").load(store))
    assert rows_of(read_archive(spark, to)) == wanted
    again = archive(spark, store=store, to=to, run=CUT)
    assert (again.start, again.end, again.files) == (report.end, report.end, 0)
    one = rows_of(read_archive(spark, to, ["Load1"]))
    assert one == [row for row in wanted if row["topic"] == "Load1"]


def test_other_engines_read_it(spark: Any, tmp_path: Path) -> None:
    """Arrow's datasets and DuckDB see the bodies and properties that RocketMQ's decoder saw."""
    store, to = unpack("05-long-topic", tmp_path), str(tmp_path / "archive")
    archive(spark, store=store, to=to, messages=ArchivedMessages(internal=True))
    files = archive_files(to)
    wanted = {
        line["phys"]: (line["topic"], line["body_crc"], line["properties"])
        for line in expected("05-long-topic")
    }
    table = ds.dataset(files).to_table(columns=["physicalOffset", "topic", "bodyCRC", "properties"])
    found = {
        row["physicalOffset"]: (row["topic"], row["bodyCRC"], dict(row["properties"]))
        for row in table.to_pylist()
    }
    assert found == wanted
    counts = duckdb.read_parquet(files).aggregate("topic, count(*)").fetchall()
    assert dict(counts) == {
        topic: sum(1 for one, _, _ in wanted.values() if one == topic)
        for topic in {one for one, _, _ in wanted.values()}
    }


def test_it_goes_on_where_the_log_ended(spark: Any, tmp_path: Path) -> None:
    """A store that grows is archived piece by piece; what a dead run left does not count."""
    store, to = str(tmp_path / "store"), str(tmp_path / "archive")
    write_log(tmp_path / "store", [8, 3])
    assert archive(spark, store=store, to=to).messages == 11
    orphan = Path(archive_files(to)[0]).with_name(f"{1560:020d}-0123abcd-0-0.parquet")
    orphan.write_bytes(Path(archive_files(to)[0]).read_bytes())
    write_log(tmp_path / "store", [8, 8, 2])
    report = archive(spark, store=store, to=to)
    assert (report.messages, report.removed_files) == (7, 1)
    offsets = [row["physicalOffset"] for row in rows_of(read_archive(spark, to))]
    bases = ((0, 8), (1200, 8), (2400, 2))
    assert offsets == [base + 120 * number for base, count in bases for number in range(count)]
    assert not orphan.exists()


def test_a_log_that_does_not_fit_is_refused(spark: Any, tmp_path: Path) -> None:
    """One that ends too soon, begins too late, or is to be archived by other topics."""
    store, to = str(tmp_path / "store"), str(tmp_path / "archive")
    end = write_log(tmp_path / "store", [8, 8])
    archive(spark, store=store, to=to)
    with pytest.raises(SettingsError, match="is an archive of all topics"):
        archive(spark, store=store, to=to, messages=ArchivedMessages(topic=["orders"]))
    write_log(tmp_path / "store", [8, 3])
    with pytest.raises(DataLost, match=f"goes up to {end}, but the log of .* ends at 1560"):
        archive(spark, store=store, to=to)
    write_log(tmp_path / "store", [8, 8, 8, 2])
    for base in (0, 1200):
        (tmp_path / "store" / "commitlog" / f"{base:020d}").unlink()
    with pytest.raises(DataLost, match="begins at 2400: what lay between was cleaned away"):
        archive(spark, store=store, to=to)
    messages = ArchivedMessages(skip_missing=True)
    assert archive(spark, store=store, to=to, messages=messages).messages == 10


@pytest.mark.parametrize("body", [b"body", b"a longer body"])
def test_a_store_that_was_made_anew_is_refused(spark: Any, tmp_path: Path, body: bytes) -> None:
    """Its log is longer than what is archived, and has a record where that ends, or none."""
    store, to = Store(tmp_path / "store"), str(tmp_path / "archive")
    store.append(11)
    messages = ArchivedMessages(skip_missing=True, skip_damaged=True)
    assert archive(spark, store=str(store.folder), to=to).messages == 11
    store.append(3, first=11)
    store.write(
        1320 + 90, b"\xff"
    )  # of the last message that is archived: damage is not another store
    assert archive(spark, store=str(store.folder), to=to, messages=messages).messages == 3
    make_anew(store, 30, body)
    for given in (messages, ArchivedMessages()):
        with pytest.raises(DataLost, match=r"has a message at 1680 .* it is another store"):
            archive(spark, store=str(store.folder), to=to, messages=given)
    assert len(rows_of(read_archive(spark, to))) == 14


def test_damage_fails_or_is_left_out(spark: Any, tmp_path: Path) -> None:
    """As asked for; a run that failed has published nothing."""
    store, to = str(tmp_path / "store"), str(tmp_path / "archive")
    write_log(tmp_path / "store", [8, 3])
    path = tmp_path / "store" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[120 + 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(QueryFailed, match="at physical offset 120"):
        archive(spark, store=store, to=to)
    assert ArchiveFolder(LocalFiles(RealDisk()), to).manifests() == []
    messages = ArchivedMessages(skip_damaged=True)
    report = archive(spark, store=store, to=to, messages=messages)
    assert report.messages == 10
    assert [(one["start"], one["bytes"]) for one in report.damage] == [(120, 120)]
    assert (report.damaged, report.damaged_bytes, report.damage[0]["position"]) == (1, 120, 120)


def test_wrong_checksums_and_a_lost_end_are_damage(spark: Any, tmp_path: Path) -> None:
    """No message is archived that is not as it was stored; what is lost is told each time."""
    store, to = closed(tmp_path / "store"), str(tmp_path / "archive")
    change(logs(store)[0], BODY_AT)
    with pytest.raises(QueryFailed, match="at physical offset 0: the body does not fit"):
        archive(spark, store=str(store), to=to)
    cut_short(logs(store)[-1])
    with pytest.raises(CorruptRecord, match="the log ends here, and went to"):
        archive(spark, store=str(store), to=to)
    assert ArchiveFolder(LocalFiles(RealDisk()), to).manifests() == []
    messages = ArchivedMessages(skip_damaged=True)
    report = archive(spark, store=str(store), to=to, messages=messages)
    assert [row["start"] for row in report.damage] == [0, report.end]
    rows = read_archive(spark, to).select("body").collect()
    assert len(rows) == report.messages < COUNT - 1
    assert all(row["body"].startswith(b"body ") for row in rows)
    again = archive(spark, store=str(store), to=to, messages=messages)
    assert (again.messages, [row["start"] for row in again.damage]) == (0, [report.end])
    assert says("`pipe archive`", A_WRONG_BYTE) == (FAILS, REPORTED)
    assert says("`pipe archive`", A_LOST_END) == (FAILS, REPORTED)


def test_what_lies_behind_damage_in_the_newest_file_is_archived(spark: Any, tmp_path: Path) -> None:
    """It is not an end of the log: not to be told of it would be to lose what follows."""
    store, to = str(tmp_path / "store"), str(tmp_path / "archive")
    write_log(tmp_path / "store", [8, 5])
    path = tmp_path / "store" / "commitlog" / f"{1200:020d}"
    data = bytearray(path.read_bytes())
    data[240 + 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(QueryFailed, match="at physical offset 1440: no record of the log is here"):
        archive(spark, store=store, to=to)
    messages = ArchivedMessages(skip_damaged=True)
    report = archive(spark, store=store, to=to, messages=messages)
    assert (report.messages, report.end) == (12, 1800)
    assert [(one["start"], one["bytes"]) for one in report.damage] == [(1440, 120)]
    write_log(tmp_path / "store", [8, 8])
    assert archive(spark, store=store, to=to, messages=messages).messages == 3


@pytest.mark.nightly
def test_runs_that_end_badly_leave_no_repeats(spark: Any, tmp_path: Path) -> None:
    """A full disk is one error and leaves no file; `kill -9` leaves files and no manifest."""
    store, to = unpack("02-kill9-load", tmp_path), str(tmp_path / "archive")
    program = [sys.executable, interrupted_archive.__file__, store, to, str(tmp_path / "spark")]
    ended = subprocess.run(program, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    said, left = ended.stdout.splitlines()
    assert re.fullmatch(r"pwritev .*/archive/data/topics/\S+\.parquet: File too large", said)
    before = ArchiveFolder(LocalFiles(RealDisk()), to).manifests()
    assert len(before) == 2
    assert int(left) == len(before[0].files)
    report = archive(spark, store=store, to=to, run=CUT)
    assert (report.start, report.removed_files) == (before[-1].end, 1)
    wanted = rows_of(spark.read.format("rocketmq").load(store))
    assert rows_of(read_archive(spark, to)) == wanted


def test_an_archive_inside_of_its_store_is_refused(tmp_path: Path) -> None:
    """Before Spark is asked for anything, and by whatever path; nothing is made."""
    store = closed(tmp_path / "store")
    (tmp_path / "link").symlink_to(store)
    before = sorted(store.rglob("*"))
    for to in (store, store / "archive", store / "commitlog" / ".." / "x", tmp_path / "link" / "x"):
        with pytest.raises(ForeignStore, match="expected a folder outside of the store"):
            archive(None, store=str(store), to=str(to))
    assert sorted(store.rglob("*")) == before
