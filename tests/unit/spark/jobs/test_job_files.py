"""Jobs and their archives on an S3 server: the same rows, the same counts, the same manifests."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.jobs.test_archive import rows_of
from tests.unit.spark.jobs.test_rebuild_queues import contents
from tests.unit.spark.rocketmq.folder.test_plan import write_log
from tests.unit.spark.samples import expected, unpack

from sprocket.base.errors import SettingsError, StoreLocked
from sprocket.spark.archive import ArchiveFolder, read_archive
from sprocket.spark.files import open_writable
from sprocket.spark.jobs import (
    ArchiveRun,
    ErasedMessages,
    JobFiles,
    ReplayedMessages,
    ReplaySending,
    archive,
    erase,
    lag,
    rebuild_index,
    rebuild_queues,
    replay,
    stats,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CUT = ArchiveRun(partition_bytes=200_000, round_bytes=400_000)
CASE = "02-kill9-load"


def files_of(store: Any) -> JobFiles:
    """What a job needs to reach the server."""
    return JobFiles(fs=[f"{name}={value}" for name, value in store.settings.items()])


@pytest.mark.parametrize(
    ("is_far", "to_far"),
    [
        (True, True),
        pytest.param(False, True, marks=pytest.mark.nightly),
        pytest.param(True, False, marks=pytest.mark.nightly),
    ],
)
def test_an_archive_equals_its_store(
    spark: Any, tmp_path: Path, object_store: Any, is_far: bool, to_far: bool
) -> None:
    """Wherever either lies; a second run finds nothing new, and a query of a topic has its rows."""
    near = unpack(CASE, tmp_path)
    name = f"archive-{is_far}-{to_far}"
    address = object_store.put(near, name)
    store = address if is_far else near
    to = f"{address}-to" if to_far else str(tmp_path / "archive")
    files = files_of(object_store)
    report = archive(spark, store=store, to=to, files=files, run=CUT)
    assert report.messages == len(expected(CASE))
    settings = files.settings(to)
    assert len(ArchiveFolder(open_writable(to, settings), to).manifests()) == 2
    wanted = rows_of(spark.read.format("rocketmq").load(near))
    assert rows_of(read_archive(spark, to, settings=settings)) == wanted
    again = archive(spark, store=store, to=to, files=files, run=CUT)
    assert (again.start, again.end, again.files) == (report.end, report.end, 0)
    one = rows_of(read_archive(spark, to, ["Load1"], settings))
    assert one == [row for row in wanted if row["topic"] == "Load1"]


def test_counts_and_what_would_be_sent(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """As on the local disk, of a store and of its archive."""
    near = unpack(CASE, tmp_path)
    far, files = object_store.put(near, "counts"), files_of(object_store)
    assert stats(spark, store=far, files=files) == stats(spark, store=near)
    archive(spark, store=far, to=f"{far}-to", files=files)
    messages, dry = ReplayedMessages(topic=["Load2"]), ReplaySending(dry_run=True)
    wanted = replay(spark, source=near, messages=messages, sending=dry)
    for source in (far, f"{far}-to"):
        assert wanted == replay(spark, source=source, files=files, messages=messages, sending=dry)


def test_what_a_dead_run_left_is_taken_over(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """Its lock when somebody says so, its files of themselves."""
    write_log(tmp_path / "store", [8, 3])
    store, files = str(tmp_path / "store"), files_of(object_store)
    to = object_store.put(str(tmp_path / "nothing"), "dead")
    archive(spark, store=store, to=to, files=files)
    place = open_writable(to, object_store.settings)
    place.put(f"{to}/lock/0123.lock", b"process 7 on moon")
    place.put(f"{to}/data/topics/{1560:020d}-0123abcd-0-0.parquet", b"not whole")
    write_log(tmp_path / "store", [8, 8, 2])
    with pytest.raises(StoreLocked, match="is held by process 7 on moon, since 2"):
        archive(spark, store=store, to=to, files=files)
    report = archive(spark, store=store, to=to, files=files, run=ArchiveRun(take_over=True))
    assert (report.messages, report.removed_files) == (7, 1)
    assert place.list(f"{to}/lock") == []
    found = rows_of(read_archive(spark, to, settings=object_store.settings))
    assert found == rows_of(spark.read.format("rocketmq").load(store))


def test_a_run_whose_lock_was_taken_publishes_nothing(
    spark: Any, tmp_path: Path, object_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not dead, but slow: what the other run does counts."""
    write_log(tmp_path / "store", [8, 3])
    to = object_store.put(str(tmp_path / "nothing"), "slow")
    place = open_writable(to, object_store.settings)

    def taken(_folder: ArchiveFolder, _manifests: Any) -> int:
        for name in place.list(f"{to}/lock"):
            place.remove(f"{to}/lock/{name}")
        return 0

    monkeypatch.setattr(ArchiveFolder, "remove_left_behind", taken)
    with pytest.raises(StoreLocked, match="another process has taken over"):
        archive(spark, store=str(tmp_path / "store"), to=to, files=files_of(object_store))
    assert ArchiveFolder(place, to).manifests() == []


def test_what_is_not_possible_is_told(spark: Any, tmp_path: Path, object_store: Any) -> None:
    """Settings for nothing, or that cannot be read; a job that reads the local disk alone."""
    store = unpack(CASE, tmp_path)
    with pytest.raises(SettingsError, match="--fs is for folders on s3:// and the like"):
        stats(spark, store=store, files=JobFiles(fs=["region=x"]))
    with pytest.raises(SettingsError, match="setting of --fs 'region': expected NAME=VALUE"):
        stats(spark, store="s3://a/b", files=JobFiles(fs=["region"]))
    chosen = ErasedMessages(key=["k"])
    with pytest.raises(SettingsError, match="s3://a/b: expected a folder on a local disk"):
        erase(spark, store=store, to="s3://a/b", messages=chosen)
    for job in (rebuild_queues, rebuild_index):
        with pytest.raises(SettingsError, match="s3://a/b: expected a folder on a disk"):
            job(spark, store="s3://a/b")
    far = object_store.put(unpack("12b-config-rdb-v2", tmp_path / "rocks"), "rocks")
    with pytest.raises(SettingsError, match="offsets in a RocksDB, which can be read on the local"):
        lag(spark, store=far, files=files_of(object_store))


def test_how_far_groups_are(tmp_path: Path, object_store: Any) -> None:
    """As on the local disk, where groups have consumed."""
    near = unpack("08-consumers", tmp_path)
    far, files = object_store.put(near, "lag"), files_of(object_store)
    report = lag(None, store=far, files=files)
    assert report.queues
    assert report == lag(None, store=near)


def test_a_store_elsewhere_is_copied_without_some_messages(
    spark: Any, tmp_path: Path, object_store: Any
) -> None:
    """The new store is that which the local one gives, byte for byte."""
    near = unpack("05-long-topic", tmp_path)
    far, files = object_store.put(near, "erase"), files_of(object_store)
    wanted = ErasedMessages(where="queueOffset % 3 = 1")
    reports = [
        erase(spark, store=near, to=str(tmp_path / "near"), messages=wanted),
        erase(spark, store=far, to=str(tmp_path / "far"), files=files, messages=wanted),
    ]
    assert reports[0].messages > 0
    assert reports[0] == reports[1]
    assert contents(tmp_path / "near") == contents(tmp_path / "far")
