"""The job that copies a store without some messages: nothing of these, everything of the others."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.interop import peers
from tests.stores import HOST, clean, maintain, new
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, NEVER, says
from tests.unit.spark.samples import plain_rows

from sprocket.base.disk import RealDisk, steps
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC, TIMER_TOPIC
from sprocket.rocketmq.model.message import TRANSACTION_PREPARED, NewRecord
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import DEFAULT, NewTimer, TimerCheckpoint, TimerFiles
from sprocket.spark import QueryFailed
from sprocket.spark.jobs import ErasedMessages, EraseRun, erase
from sprocket.testing.clock import FakeClock

ROOT = Path(__file__).resolve().parents[4]
GEOMETRY = Geometry(
    log=LogGeometry(segment_bytes=1 << 19),
    queue=QueueGeometry(units_per_file=200),
    index=IndexGeometry(slots=100, units=900),
)
PEOPLE = [f"person-{number}" for number in range(40)]
GONE = ("person-3", "person-17")
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


def body_of(person: str, number: int) -> bytes:
    """Return a body that says whose it is, of any length."""
    return f"<{person}>".encode() * (1 + number % 30) + b"." * (number % 7)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of 3,000 messages of forty people in two topics, some delayed, some half."""
    root = str(tmp_path_factory.mktemp("people") / "store")
    clock, draw = FakeClock(), random.Random(3)
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=1 << 20, crc_tail=True)
    opened = Store.open(RealDisk(), root, settings, clock, GEOMETRY)
    for number in range(3000):
        person = draw.choice(PEOPLE)
        pairs = {"TAGS": f"of-{person}", "KEYS": f"order-{number} {person}"}
        pairs |= {"UNIQ_KEY": f"{number:032d}", "name": f"Name of {person}"}
        topic, flags = ("payments", "orders")[number % 2], 0
        if number % 50 == 7:
            topic = SCHEDULE_TOPIC
            pairs |= {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "1"}
        elif number % 50 == 11:
            topic, flags = HALF, TRANSACTION_PREPARED
            pairs |= {"TRAN_MSG": "true", "REAL_TOPIC": "orders", "REAL_QID": "1", "PGROUP": "g"}
        elif number % 50 == 13:
            topic = TIMER_TOPIC
            pairs |= {"TIMER_OUT_MS": str(clock.now_ms() + 60_000)}
            pairs |= {"TIMER_DELAY_MS": "60000", "REAL_TOPIC": "orders", "REAL_QID": "1"}
        body = body_of(person, number) * (400 if number % 997 == 1 else 1)
        opened.append(
            NewRecord(
                topic=topic,
                queue_id=0 if topic == TIMER_TOPIC else number % 3,
                body=body,
                properties=properties.encode(pairs),
                born_host=HOST,
                store_host=HOST,
                flag=number,
                sys_flag=flags,
                born_at_ms=clock.now_ms(),
            )
        )
        clock.advance(10)
        opened.write()
    opened.sync()
    opened.dispatch()
    opened.dispatch_index()
    maintain(opened)
    timers = TimerFiles(
        opened.disk, StoreLayout(root), 1000, is_whole=True, log_bytes=8 * 52 + 16, slots=128
    )
    now = clock.now_ms()
    links = [
        (now // 1000 + 1 + number, NewTimer(DEFAULT, now, 1000 * number + 1000, place, size, 7))
        for number, (_, place, size, _, _) in enumerate(opened.units(TIMER_TOPIC, 0, 0, 100))
    ]
    timers.put(links)
    noted = TimerCheckpoint(now, timers.log.end, len(links), len(links), precision_ms=1000)
    steps.run(timers.keep_steps(noted))
    timers.close()
    opened.close()
    assert list(check(RealDisk(), root)) == []
    return root


def rows(spark: Any, root: str) -> list[dict[str, Any]]:
    """Return the rows of a store in the order of the log."""
    source = spark.read.format("rocketmq").option("decompress", "false")
    table = source.load(root).orderBy("physicalOffset").toArrow()
    return plain_rows(table.to_batches())


def contents(root: str | Path) -> dict[str, str]:
    """Return a checksum of each file of a folder."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(root).rglob("*"))
        if path.is_file()
    }


def is_gone(row: dict[str, Any]) -> bool:
    """Say whether a message is of somebody who is to be forgotten."""
    return not set(GONE).isdisjoint(row["keys"].split())


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_is_left_of_the_erased_and_all_of_the_others(
    spark: Any, store: str, tmp_path: Path
) -> None:
    """Rows, files and look-ups; the result is sound, and the old store as it was."""
    before = contents(store)
    target = str(tmp_path / "forgotten")
    report = erase(
        spark,
        store=store,
        to=target,
        messages=ErasedMessages(key=list(GONE)),
        run=EraseRun(partition_bytes=200_000),
    )
    old = rows(spark, store)
    assert rows(spark, target) == [row for row in old if not is_gone(row)]
    assert report.is_written
    assert report.messages > sum(map(is_gone, old)) > 50
    assert report.messages + report.kept == 3000
    assert {row["topic"] for row in report.topics} == {
        *("orders", "payments", SCHEDULE_TOPIC, HALF, TIMER_TOPIC)
    }
    assert report.index_entries == 3 * report.messages
    assert list(check(RealDisk(), target)) == []
    assert before == contents(store)
    note = Path(StoreLayout(target).erased)
    assert json.loads(note.read_text()) == {"messages": report.messages}
    for path in (path for path in Path(target).rglob("*") if path.is_file()):
        data = path.read_bytes()
        for person in GONE:
            assert person.encode() + b">" not in data
            assert person.encode() + b"\x02" not in data
            assert person.encode() + b"\x01" not in data
    assert "timerwheel" not in report.not_copied
    assert "timerlog" not in report.not_copied
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=1 << 20)
    opened = Store.open(RealDisk(), target, settings, FakeClock())
    try:
        for topic in ("orders", "payments"):
            found = [opened.find(topic, person, max_count=9999).offsets for person in GONE]
            assert found == [[], []]
        left = opened.find("orders", "person-4", max_count=9999).offsets
        assert len(left) == sum(
            row["topic"] == "orders" and "person-4" in row["keys"].split() for row in old
        )
        timers = TimerFiles(opened.disk, StoreLayout(target), 1000, is_whole=True)
        waiting = [one for _, rows in timers.log.rows() for one in rows.tolist()]
        timers.close()
        assert len(waiting) == 60
        for _, _, _, _, _, place, size, _, _ in waiting:
            assert size == len(opened.record_at(place))
    finally:
        opened.close()


@pytest.mark.spark
@pytest.mark.slow
def test_what_compaction_has_kept_is_erased(spark: Any, tmp_path: Path) -> None:
    """Before and after rounds, and where the log has it no more; all other last values stay."""
    root, target = str(tmp_path / "store"), str(tmp_path / "forgotten")
    clock = FakeClock()
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=1 << 20)
    small = replace(Geometry.small(), log=LogGeometry(segment_bytes=1 << 14))
    opened = Store.open(RealDisk(), root, settings, clock, small)
    opened.take_compaction("last")
    values = {}
    for number in range(900):
        person = PEOPLE[number * 7 % 40]
        values[person] = body_of(person, number)
        opened.append(new("last", 0, values[person], keys=(person,)))
        opened.write()
        clock.advance(1000)
        if number % 300 == 250:
            maintain(opened)
            steps.run(opened.compact_steps(1 << 20))
    opened.sync()
    maintain(opened)
    clock.advance(1000 * 3600 * 24 * 365 * 100)
    assert clean(opened, RetentionSettings(keep_hours=0, force_percent=85), at_once=True) > 0
    opened.close()
    report = erase(spark, store=root, to=target, messages=ErasedMessages(key=list(GONE)))
    assert report.compacted > len(GONE)
    reader = spark.read.format("rocketmq").option("compacted", True)
    found = {row["keys"]: bytes(row.body) for row in reader.load(target).collect()}
    assert found == {person: body for person, body in values.items() if person not in GONE}
    for path in (path for path in Path(target).rglob("*") if path.is_file()):
        assert not [one for one in GONE if f"<{one}>".encode() in path.read_bytes()]
    assert list(check(RealDisk(), target)) == []


@pytest.mark.spark
@pytest.mark.slow
def test_the_same_run_makes_the_same_files(spark: Any, store: str, tmp_path: Path) -> None:
    """However the log is cut; and to erase again what is gone changes nothing."""
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    erase(spark, store=store, to=first, messages=ErasedMessages(key=list(GONE)))
    erase(
        spark,
        store=store,
        to=second,
        messages=ErasedMessages(key=list(GONE)),
        run=EraseRun(partition_bytes=150_000),
    )
    report = erase(spark, store=first, to=third, messages=ErasedMessages(key=list(GONE)))
    assert (report.messages, report.index_entries) == (0, 0)
    assert contents(first) == contents(second) == contents(third)


@pytest.mark.spark
@pytest.mark.slow
def test_a_filter_and_a_file_of_keys_choose_too(spark: Any, store: str, tmp_path: Path) -> None:
    """Both together; a dry run counts the same and writes nothing."""
    keys = tmp_path / "keys.txt"
    keys.write_text("person-3\n\n person-17 \n")
    where = "queueOffset < 20 and topic = 'orders' and queueId = 1"
    target = tmp_path / "forgotten"
    given: dict[str, Any] = {
        "store": store,
        "to": str(target),
        "messages": ErasedMessages(keys_file=str(keys), where=where),
    }
    counted = erase(spark, **given, run=EraseRun(dry_run=True))
    assert (counted.is_written, target.exists(), len(list(tmp_path.iterdir()))) == (False, False, 1)
    report = erase(spark, **given)
    assert (counted.messages, counted.bytes) == (report.messages, report.bytes)
    kept = [
        row
        for row in rows(spark, store)
        if not is_gone(row)
        and not (row["topic"] == "orders" and row["queueId"] == 1 and row["queueOffset"] < 20)
    ]
    assert rows(spark, str(target)) == kept


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_that_fails_leaves_no_target(spark: Any, store: str, tmp_path: Path) -> None:
    """A damaged record may hide a key: the run ends, and the next one begins anew."""
    import shutil

    damaged, target = str(tmp_path / "damaged"), tmp_path / "forgotten"
    shutil.copytree(store, damaged)
    path = Path(damaged, "commitlog", f"{1 << 19:020d}")
    data = bytearray(path.read_bytes())
    data[1000] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(QueryFailed, match=r"at physical offset \d+: "):
        erase(
            spark,
            store=damaged,
            to=str(target),
            messages=ErasedMessages(key=["person-3"]),
            run=EraseRun(partition_bytes=100_000),
        )
    assert not target.exists()
    shutil.copy(Path(store, "commitlog", path.name), path)
    sorted(Path(damaged, "commitlog").iterdir())[-1].unlink()
    with pytest.raises(CorruptRecord, match="the log ends here, and went to"):
        erase(spark, store=damaged, to=str(target), messages=ErasedMessages(key=["person-3"]))
    assert not target.exists()
    assert says("`pipe erase`", A_WRONG_BYTE) == (FAILS, NEVER)
    assert says("`pipe erase`", A_LOST_END) == (FAILS, NEVER)
    report = erase(spark, store=store, to=str(target), messages=ErasedMessages(key=["person-3"]))
    assert report.messages > 0
    assert not (tmp_path / "forgotten.erasing").exists()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("step", ["consumequeue", "commitlog", "index"])
def test_a_run_that_is_killed_leaves_nothing_half(
    spark: Any, store: str, tmp_path: Path, step: str
) -> None:
    """There is no target, or a whole one, whenever the kill comes; the next run makes it."""
    whole, target = str(tmp_path / "whole"), tmp_path / "forgotten"
    erase(spark, store=store, to=whole, messages=ErasedMessages(key=list(GONE)))
    before, wanted = contents(store), contents(whole)
    made = tmp_path / "forgotten.erasing" / step
    with (tmp_path / "run.log").open("wb") as log:
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.crash.erase_program", store, str(target)),
                *(str(tmp_path / "spark"), *GONE),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        peers.wait_until(
            lambda: run.poll() is not None or any(path.is_file() for path in made.rglob("*")),
            f"a file in {made}",
            seconds=300,
            every=0.01,
        )
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert run.returncode in (0, -signal.SIGKILL), (tmp_path / "run.log").read_text()[-6000:]
    if not target.exists():
        erase(spark, store=store, to=str(target), messages=ErasedMessages(key=list(GONE)))
    assert contents(target) == wanted
    assert contents(store) == before
    assert not made.parent.exists()


def test_what_cannot_be_erased_from_is_refused(store: str, tmp_path: Path) -> None:
    """With one line each, before anything is read."""
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    full = tmp_path / "full"
    full.mkdir()
    (full / "something").touch()
    with pytest.raises(SettingsError, match="name what to erase"):
        erase(None, store=store, to=str(tmp_path / "new"))
    with pytest.raises(SettingsError, match="expected a folder on a local disk"):
        erase(
            None,
            store=store,
            to="s3://bucket/store",
            messages=ErasedMessages(key=["a"]),
        )
    with pytest.raises(ForeignStore, match="expected a new or an empty folder"):
        erase(None, store=store, to=str(full), messages=ErasedMessages(key=["a"]))
    with pytest.raises(ForeignStore, match="expected a folder outside"):
        erase(None, store=store, to=f"{store}/inner", messages=ErasedMessages(key=["a"]))
    with pytest.raises(ForeignStore, match="there is no store"):
        erase(None, store=str(full), to=str(tmp_path / "new"), messages=ErasedMessages(key=["a"]))
    (copy / "batchconsumequeue" / "topic").mkdir(parents=True)
    with pytest.raises(ForeignStore, match="has batch queues"):
        erase(None, store=str(copy), to=str(tmp_path / "new"), messages=ErasedMessages(key=["a"]))
    (copy / "abort").touch()
    with pytest.raises(ForeignStore, match="is open, or was not closed"):
        erase(None, store=str(copy), to=str(tmp_path / "new"), messages=ErasedMessages(key=["a"]))
