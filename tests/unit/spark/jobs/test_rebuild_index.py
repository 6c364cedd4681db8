"""The job that makes the index again: the broker's own bytes, and every key found."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests import repetition
from tests.recorded import CASES, Recorded
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, REPORTED, says
from tests.unit.spark.jobs.test_rebuild_queues import (
    CLEANED,
    MISPLACED,
    UNDISPATCHED,
    contents,
    records,
    unpacked,
)
from tests.unit.spark.rocketmq.folder.test_damage import BODY_AT, change, closed, logs
from tests.unit.spark.rocketmq.folder.test_plan import write_log

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.geometry import Geometry, IndexGeometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.store import Store
from sprocket.spark import QueryFailed
from sprocket.spark.jobs import rebuild_index
from sprocket.testing.clock import FakeClock

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BY_DAY = ("02-kill9-load", "09-index", "15-rewritten-tail")
INCOMPLETE = (*UNDISPATCHED, "04b-rocksdb-kill9", CLEANED, "15-rewritten-tail")
"""Stores whose index lacks keys of the log, or has some that the log has no more."""


def rebuilt(spark: Any, store: Path, geometry: IndexGeometry, **given: Any) -> Any:
    """Make the index of a store again."""
    sizes: dict[str, Any] = {"slots": geometry.slots, "units": geometry.units}
    report = rebuild_index(spark, store=str(store), **sizes, **given)
    assert not (store / "rebuilt").exists()
    return report


def found(store: Path, geometry: IndexGeometry, keys: set[str]) -> dict[str, list[int]]:
    """Return what look-ups of all keys give."""
    index = Indexes(RealDisk(), str(store / "index"), geometry, FakeClock(), write=False)
    index.load()
    places = {key: [int(place) for place in index.find(key, 1000)] for key in sorted(keys)}
    index.close_handles()
    return places


def keys_of(name: str) -> set[str]:
    """Return the key strings of all records of a recorded store."""
    return {
        key_string(line["topic"], key)
        for line in Recorded(name).records
        for key in (line["unique_key"], *line["properties"].get("KEYS", "").split(" "))
        if key
    }


@pytest.mark.parametrize("name", repetition.some(CASES, BY_DAY))
def test_the_files_are_the_brokers_own(name: str, spark: Any, tmp_path: Path) -> None:
    """Byte for byte, from the log alone; every look-up is that of an index that recovery makes."""
    store = unpacked(name, tmp_path / "unpacked")
    geometry = Recorded(name).geometry
    theirs = tmp_path / "theirs"
    shutil.move(store / "index", theirs)
    recovered = tmp_path / "recovered"
    shutil.copytree(store, recovered)
    report = rebuilt(spark, store, geometry.index, partition_bytes=100_000)
    made = contents(store / "index")
    assert (report.files, report.damage) == (len(made), [])
    if name not in INCOMPLETE:
        assert list(made.values()) == list(contents(theirs).values())
    if name != MISPLACED:
        disk = RealDisk()
        opening.distrust(disk, str(recovered))
        settings = StoreSettings(fill_ahead_bytes=0)
        Store.open(disk, str(recovered), settings, FakeClock(), geometry).close()
        keys = keys_of(name)
        assert found(store, geometry.index, keys) == found(recovered, geometry.index, keys)
    rebuilt(spark, store, geometry.index, partition_bytes=1 << 30)
    assert contents(store / "index") == made


def test_keys_go_on_in_the_next_file(spark: Any, tmp_path: Path) -> None:
    """Files and parts of the log end where they like; one more run makes the same."""
    store = unpacked("02-kill9-load", tmp_path)
    small = IndexGeometry(slots=101, units=350)
    report = rebuilt(spark, store, small, partition_bytes=50_000)
    made = contents(store / "index")
    assert len(made) == report.files == -(-report.keys // (small.units - 1)) > 3
    keys = keys_of("02-kill9-load")
    assert all(places for places in found(store, small, keys).values())
    rebuilt(spark, store, small)
    assert contents(store / "index") == made


def test_damage_fails_or_is_left_out(spark: Any, tmp_path: Path) -> None:
    """In a full file, and in the newest, of which planning sees the end there."""
    places = records(tmp_path, [[("a", 0, 0), None, ("a", 0, 2)], [("a", 0, 3), None, ("a", 0, 5)]])
    small = IndexGeometry.small()
    with pytest.raises(QueryFailed, match=f"at physical offset {places[1]}: no record begins"):
        rebuilt(spark, tmp_path, small)
    report = rebuilt(spark, tmp_path, small, skip_damaged=True)
    assert [one["start"] for one in report.damage] == [places[1], places[4]]
    assert report.records == 4
    newest = tmp_path / "newest"
    (newest / "commitlog").mkdir(parents=True)
    places = records(newest, [[("a", 0, 0), None, ("a", 0, 2)]])
    with pytest.raises(CorruptRecord, match=f"at physical offset {places[1]}.*--skip-damaged"):
        rebuilt(spark, newest, small)
    assert not (newest / "index").exists()


def test_wrong_checksums_and_a_lost_end_are_damage(spark: Any, tmp_path: Path) -> None:
    """No key of such a record is in the index, and the end that was lost is told."""
    store = closed(tmp_path / "store")
    small = Geometry.small().index
    whole = rebuilt(spark, store, small)
    change(logs(store)[0], BODY_AT)
    with pytest.raises(QueryFailed, match="at physical offset 0: the body does not fit"):
        rebuilt(spark, store, small)
    assert rebuilt(spark, store, small, verify=False).records == whole.records
    report = rebuilt(spark, store, small, skip_damaged=True)
    assert [row["start"] for row in report.damage] == [0]
    assert (report.records, report.keys) == (whole.records - 1, whole.keys - 1)
    logs(store)[-1].unlink()
    with pytest.raises(CorruptRecord, match=r"the log ends here, and went to .*--skip-damaged"):
        rebuilt(spark, store, small, verify=False)
    report = rebuilt(spark, store, small, skip_damaged=True)
    assert [row["start"] for row in report.damage] == [0, report.end]
    assert says("`pipe rebuild-index`", A_WRONG_BYTE) == (FAILS, REPORTED)
    assert says("`pipe rebuild-index`", A_LOST_END) == (FAILS, REPORTED)


def test_a_store_without_messages(spark: Any, tmp_path: Path) -> None:
    """Has no index, and no error."""
    write_log(tmp_path, [0])
    report = rebuilt(spark, tmp_path, IndexGeometry.small())
    assert (report.keys, report.files) == (0, 0)
    assert contents(tmp_path / "index") == {}
