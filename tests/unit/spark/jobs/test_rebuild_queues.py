"""The job that makes queues again: the broker's own bytes, whatever was lost or in the way."""

import filecmp
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import repetition
from tests.recorded import CASES, ROCKSDB, Recorded
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, REPORTED, says
from tests.unit.spark.rocketmq.folder.test_damage import BODY_AT, change, closed, logs
from tests.unit.spark.rocketmq.folder.test_plan import write_log

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError, StoreLocked
from sprocket.rocketmq.codec.record import Entry, record
from sprocket.rocketmq.geometry import Geometry, QueueGeometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.queue import FileQueues
from sprocket.rocketmq.store.store import Store
from sprocket.spark import QueryFailed
from sprocket.spark.jobs import rebuild_queues
from sprocket.testing.clock import FakeClock

FILE_BYTES = 4096
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REFUSED = {
    **dict.fromkeys(ROCKSDB, "are kept in rocksdb"),
    "10b-cq-ext-sql": "its units are extended ones",
    "10d-batch-cq": "the queues of .* are batch queues",
}
"""Stores whose queues are not made in this way, and what is said of them."""
MADE = sorted({*CASES} - {*REFUSED})
BY_DAY = ("02-kill9-load", "03-torn-last-head", "14-retention", "15-rewritten-tail")
UNDISPATCHED = [name for name in CASES if name.startswith("03-")]
"""Killed before the last records reached the queues."""
CLEANED = "14-retention"
"""Its first files have units of messages that the log has no more."""
MISPLACED = "03-torn-last-head"
"""Its last record names another place, which recovery mends and a reader takes for damage."""


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a recorded store."""
    folder.mkdir(exist_ok=True)
    return Path(Recorded(name).unpack(folder))


def files_of(store: Path) -> dict[str, bytes]:
    """Return the files of all queues, and that nothing is left beside them."""
    assert not (store / "rebuilt").exists()
    return contents(store / "consumequeue")


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", repetition.some(MADE, BY_DAY))
def test_the_files_are_the_brokers_own(name: str, spark: Any, tmp_path: Path) -> None:
    """From the log alone, byte for byte; and they are those that recovery makes of it."""
    store = unpacked(name, tmp_path / "unpacked")
    units_per_file = Recorded(name).geometry.queue.units_per_file
    theirs = tmp_path / "theirs"
    shutil.move(store / "consumequeue", theirs)
    recovered = tmp_path / "recovered"
    shutil.copytree(store, recovered)
    report = rebuild_queues(
        spark, store=str(store), units_per_file=units_per_file, partition_bytes=200_000
    )
    made = files_of(store)
    names = [str(path.relative_to(theirs)) for path in theirs.rglob("*") if path.is_file()]
    if name not in (*UNDISPATCHED, CLEANED):
        assert (names, [], []) == filecmp.cmpfiles(
            theirs, store / "consumequeue", names, shallow=False
        )
    if name != MISPLACED:
        disk = RealDisk()
        opening.distrust(disk, str(recovered))
        geometry = Recorded(name).geometry
        settings = StoreSettings(fill_ahead_bytes=0)
        Store.open(disk, str(recovered), settings, FakeClock(), geometry).close()
        assert made == files_of(recovered)
    assert (report.queues, report.damage) == (len({os.path.dirname(path) for path in made}), [])
    rebuild_queues(spark, store=str(store), units_per_file=units_per_file, partition_bytes=1 << 30)
    assert files_of(store) == made


@pytest.mark.parametrize("name", REFUSED)
def test_other_kinds_are_refused_by_name(name: str, spark: Any, tmp_path: Path) -> None:
    """And left as they are."""
    store = unpacked(name, tmp_path)
    before = files_of(store)
    with pytest.raises(ForeignStore, match=REFUSED[name]):
        rebuild_queues(spark, store=str(store))
    assert files_of(store) == before


def test_a_batch_without_its_queue_is_refused(spark: Any, tmp_path: Path) -> None:
    """By the table of topics, where the folder of batch queues is lost."""
    store = unpacked("10d-batch-cq", tmp_path)
    shutil.rmtree(store / "batchconsumequeue")
    with pytest.raises(QueryFailed, match=r"store: the queues of \S+ are batch queues"):
        rebuild_queues(spark, store=str(store))


def records(folder: Path, queued: list[list[tuple[str, int, int] | None]]) -> list[int]:
    """Write files of a log with records of queues; None is damage. Return where records begin."""
    commitlog = folder / "commitlog"
    commitlog.mkdir(parents=True, exist_ok=True)
    places = []
    for number, of_file in enumerate(queued):
        base, data = number * FILE_BYTES, b""
        for one in of_file:
            places.append(base + len(data))
            topic, queue_id, offset = one or ("damaged", 0, 0)
            new = NewRecord(
                topic=topic,
                queue_id=queue_id,
                body=b"body",
                properties=b"TAGS\1A\2",
                born_host=HOST,
                store_host=HOST,
            )
            stored = record.encode(
                new,
                queue_offset=offset,
                physical_offset=base + len(data),
                stored_at_ms=1_000 + len(places),
                crc_tail=False,
            )
            data += stored if one else bytes([0x55]) * len(stored)
        if number + 1 < len(queued):
            data += record.blank(FILE_BYTES - len(data))
        (commitlog / f"{base:020d}").write_bytes(data.ljust(FILE_BYTES, b"\0"))
    return places


def queues_of(store: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first and the next offset of each queue."""
    queues = FileQueues(RealDisk(), str(store / "consumequeue"), QueueGeometry.small())
    queues.load(clean=True)
    first = min((int(path.name) for path in (store / "commitlog").iterdir()), default=0)
    queues.correct_min(PhysicalOffset(first))
    return {key: (queue.min_offset, queue.max_offset) for key, queue in queues.by_key.items()}


def rebuilt(spark: Any, store: Path, **given: Any) -> Any:
    """Make the queues of a small store again."""
    return rebuild_queues(
        spark, store=str(store), units_per_file=QueueGeometry.small().units_per_file, **given
    )


def test_a_topic_that_was_made_again_has_its_new_messages(spark: Any, tmp_path: Path) -> None:
    """And those of other topics are as they were; what is put twice is as recovery makes it."""
    old: list[tuple[str, int, int] | None] = [("again", 0, offset) for offset in range(13)]
    places = records(
        tmp_path, [old, [("again", 0, 0), ("stays", 0, 0), ("again", 0, 1), ("stays", 0, 1)]]
    )
    report = rebuilt(spark, tmp_path, partition_bytes=FILE_BYTES)
    assert (report.made_again, report.queues, report.units) == (1, 2, 4)
    assert queues_of(tmp_path) == {("again", 0): (0, 2), ("stays", 0): (0, 2)}
    unit = files_of(tmp_path)[f"again/0/{0:020d}"][:8]
    assert int.from_bytes(unit, "big") == places[13]


def test_damage_fails_or_is_left_out(spark: Any, tmp_path: Path) -> None:
    """As asked for; fillers stand for what is lost, and the old queues are there until then."""
    places = records(
        tmp_path, [[("a", 0, 0), None, ("a", 0, 2), ("a", 0, 3)], [("a", 0, 4), ("b", 1, 0)]]
    )
    (tmp_path / "consumequeue" / "old").mkdir(parents=True)
    with pytest.raises(QueryFailed, match=f"at physical offset {places[1]}: no record begins"):
        rebuilt(spark, tmp_path)
    assert (tmp_path / "consumequeue" / "old").is_dir()
    assert not (tmp_path / "rebuilt").exists()
    report = rebuilt(spark, tmp_path, skip_damaged=True)
    assert [(one["start"], one["bytes"]) for one in report.damage] == [
        (places[1], places[2] - places[1])
    ]
    assert (report.units, report.lost) == (5, 1)
    assert queues_of(tmp_path) == {("a", 0): (0, 5), ("b", 1): (0, 1)}


def test_wrong_checksums_and_a_lost_end_are_damage(spark: Any, tmp_path: Path) -> None:
    """A filler stands for a message that is not as it was stored; old queues are not believed."""
    store = closed(tmp_path / "store")
    whole = rebuilt(spark, store)
    middle = logs(store)[1]
    change(middle, BODY_AT)
    with pytest.raises(QueryFailed, match=f"offset {int(middle.name)}: the body does not fit"):
        rebuilt(spark, store)
    assert rebuilt(spark, store, verify=False).units == whole.units
    report = rebuilt(spark, store, skip_damaged=True)
    assert [(one["start"], one["position"]) for one in report.damage] == [(int(middle.name), 0)]
    assert (report.units, report.lost) == (whole.units - 1, 1)
    logs(store)[-1].unlink()
    with pytest.raises(CorruptRecord, match=r"the log ends here, and went to .*--skip-damaged"):
        rebuilt(spark, store, verify=False)
    report = rebuilt(spark, store, skip_damaged=True)
    assert [one["start"] for one in report.damage] == [int(middle.name), report.end]
    assert says("`pipe rebuild-queues`", A_WRONG_BYTE) == (FAILS, REPORTED)
    assert says("`pipe rebuild-queues`", A_LOST_END) == (FAILS, REPORTED)
    (store / "config" / "clean.json").unlink()
    (store / "checkpoint").unlink()
    assert rebuilt(spark, store, verify=False).damage == []


def test_damage_in_the_newest_file_is_seen(spark: Any, tmp_path: Path) -> None:
    """Though planning takes it for the end of the log: intact records follow."""
    queued: list[tuple[str, int, int] | None] = [("a", 0, 0), None, ("a", 0, 2), None, ("a", 0, 4)]
    places = records(tmp_path, [queued])
    with pytest.raises(CorruptRecord, match=f"at physical offset {places[1]}.*--skip-damaged"):
        rebuilt(spark, tmp_path)
    report = rebuilt(spark, tmp_path, skip_damaged=True)
    assert [one["start"] for one in report.damage] == [places[1], places[3]]
    assert queues_of(tmp_path) == {("a", 0): (0, 5)}
    headless = tmp_path / "headless"
    places = records(headless, [[("a", 0, 0)], [None, ("a", 0, 2)]])
    with pytest.raises(CorruptRecord, match=f"at physical offset {places[1]}.*--skip-damaged"):
        rebuilt(spark, headless)
    rebuilt(spark, headless, skip_damaged=True)
    assert queues_of(headless) == {("a", 0): (0, 3)}


def test_remains_of_an_earlier_life_are_none(spark: Any, tmp_path: Path) -> None:
    """Behind the end of the log, records whose offsets are taken are not a message."""
    places = records(tmp_path, [[("a", 0, 0), ("a", 0, 1), None, ("a", 0, 1)]])
    report = rebuilt(spark, tmp_path)
    assert (report.end, report.units) == (places[2], 2)


def test_queues_go_on_where_they_were(spark: Any, tmp_path: Path) -> None:
    """If their messages were cleaned away, or damaged; garbage of an old queue is not believed."""
    places = records(tmp_path, [[("a", 0, 5), None], [("a", 0, 7), None, ("b", 0, 0)]])
    old = FileQueues(RealDisk(), str(tmp_path / "consumequeue"), QueueGeometry.small())
    old.load(clean=True)
    for topic, offset, place in (
        ("lost", 3, places[1]),
        ("a", 8, places[3]),
        ("b", 4, places[4]),
        ("garbage", 0, places[4]),
    ):
        old.put_round([Entry(topic, 0, offset, place, 100, 0, 0)])
    old.begin("empty", 0, 17)
    old.close()
    report = rebuilt(spark, tmp_path, skip_damaged=True)
    assert queues_of(tmp_path) == {
        ("a", 0): (5, 9),
        ("b", 0): (0, 1),
        ("empty", 0): (17, 17),
        ("lost", 0): (4, 4),
    }
    assert (report.kept, report.lost) == (2, 2)


def test_messages_that_were_cleaned_away_keep_their_offset(spark: Any, tmp_path: Path) -> None:
    """The log begins behind them, and a consumer goes on at the next."""
    records(tmp_path, [[("gone", 0, 41)], [("a", 0, 0)]])
    rebuilt(spark, tmp_path)
    assert queues_of(tmp_path)["gone", 0] == (41, 42)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    assert rebuilt(spark, tmp_path).kept == 1
    assert queues_of(tmp_path) == {("gone", 0): (42, 42), ("a", 0): (0, 1)}


def test_records_of_deleted_topics_get_no_units(spark: Any, tmp_path: Path) -> None:
    """By the table of deletions, so that nothing is put twice."""
    places = records(tmp_path, [[("a", 0, 0), ("a", 0, 1), ("a", 0, 0), ("b", 0, 0)]])
    (tmp_path / "config").mkdir()
    table = f'{{"ends":{{"a":{places[2]}}},"pending":[]}}'
    (tmp_path / "config" / "deletedTopics.json").write_text(table)
    report = rebuilt(spark, tmp_path)
    assert (report.made_again, report.units) == (0, 2)
    assert queues_of(tmp_path) == {("a", 0): (0, 1), ("b", 0): (0, 1)}


def test_a_store_without_messages(spark: Any, tmp_path: Path) -> None:
    """Has no queues, and no error."""
    write_log(tmp_path, [0])
    report = rebuilt(spark, tmp_path)
    assert (report.start, report.end, report.queues) == (0, 0, 0)
    assert files_of(tmp_path) == {}


def test_who_else_has_the_store_keeps_it(spark: Any, tmp_path: Path) -> None:
    """A store that is open, one that is none, and one that lies elsewhere are refused."""
    write_log(tmp_path, [3])
    lock = RealDisk().lock(str(tmp_path / "lock"))
    with pytest.raises(StoreLocked):
        rebuilt(spark, tmp_path)
    lock.release()
    with pytest.raises(ForeignStore, match="there is no store"):
        rebuilt(spark, tmp_path / "commitlog")
    with pytest.raises(SettingsError, match="expected a folder on a disk"):
        rebuild_queues(spark, store="s3://stores/a")


def test_sizes_that_cannot_be_are_refused(spark: Any, tmp_path: Path) -> None:
    """Out of range, or others than those that the store was made with."""
    Store.open(RealDisk(), str(tmp_path), StoreSettings(), FakeClock(), Geometry.small()).close()
    for wrong in (-1, 1 << 40):
        with pytest.raises(SettingsError, match="--units-per-file: expected 1 to"):
            rebuild_queues(spark, store=str(tmp_path), units_per_file=wrong)
    with pytest.raises(SettingsError, match=r"the store was made with 10, .* not with 11"):
        rebuild_queues(spark, store=str(tmp_path), units_per_file=11)
    assert rebuild_queues(spark, store=str(tmp_path), units_per_file=10).queues == 0


KILLED = """
import os, signal
from sprocket.base.disk import RealDisk
from sprocket.spark import session
from sprocket.spark.jobs import rebuild_queues

def fatal(*_):
    os.kill(os.getpid(), signal.SIGKILL)

{patch}
spark = session(master={master!r}, folder={folder!r})
rebuild_queues(spark, store={store!r}, units_per_file={units}, partition_bytes=200_000)
"""
PATCHES = {
    "before the exchange": "RealDisk.sync_tree = fatal",
    "behind the exchange": """
exchange = RealDisk.exchange
RealDisk.exchange = lambda *names: exchange(*names) and fatal()
""",
    "between two names": """
def exchange(*_):
    rename = RealDisk.rename
    def once(disk, source, target):
        rename(disk, source, target)
        fatal()
    RealDisk.rename = once
    return False
RealDisk.exchange = exchange
""",
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "when", ["before the exchange", "behind the exchange", "between two names"]
)
def test_a_killed_run_is_run_again(
    when: str, spark: Any, connect_address: str, tmp_path: Path
) -> None:
    """Killed with -9, it leaves the old queues or the new ones; then the result is the same.

    What is killed has no JVM of its own: by then the tasks have ended.
    """
    store = unpacked("02-kill9-load", tmp_path / "unpacked")
    units = Recorded("02-kill9-load").geometry.queue.units_per_file
    wanted = files_of(store)
    spoilt = store / "consumequeue" / "Load1" / "0" / f"{0:020d}"
    spoilt.write_bytes(bytes(spoilt.stat().st_size))
    old = files_of(store)
    script = KILLED.format(
        master=connect_address,
        folder=str(tmp_path / "spark"),
        store=str(store),
        units=units,
        patch=PATCHES[when],
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (store / "rebuilt").is_dir()
    expected = {"before the exchange": old, "behind the exchange": wanted, "between two names": {}}
    assert contents(store / "consumequeue") == expected[when]
    rebuild_queues(spark, store=str(store), units_per_file=units)
    assert files_of(store) == wanted
