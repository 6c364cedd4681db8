"""The job that checks a store: what `sprocket store check` says, and where each damage lies."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests import repetition
from tests.recorded import CASES, Recorded
from tests.stores import HOST, maintain
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FINDING, NEVER, says

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError, StoreError
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import CRC_TAIL_BYTES
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.repair import Rule
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.spark.jobs import JobFiles, fsck
from sprocket.spark.jobs.fsck import FsckReport
from sprocket.testing.clock import FakeClock

MESSAGES = 8000
LOG_BYTES = 1 << 20
GEOMETRY = Geometry(
    log=LogGeometry(segment_bytes=LOG_BYTES),
    queue=QueueGeometry(units_per_file=1000),
    index=IndexGeometry(slots=1000, units=4000),
)
BODY_AT = 88


class Placed(NamedTuple):
    """A record of the store: where it lies, its size, its queue and queue offset."""

    place: int
    size: int
    queue_id: int
    queue_offset: int


def told(root: str, report: FsckReport) -> list[tuple[Any, ...]]:
    """Return the findings of a report, in an order of their own."""
    return sorted(
        (row["rule"], row["file"], row["position"], row["expected"], row["found"])
        for row in report.findings
    )


def checked(root: str) -> list[tuple[Any, ...]]:
    """Return those of a check of the whole."""
    return sorted(
        (
            *(one.rule.name, one.path.removeprefix(f"{root}/"), one.position),
            *(one.expected, one.found),
        )
        for one in check(RealDisk(), root)
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Placed]]:
    """A store of ours of 8,000 messages, with checksums over whole records."""
    root = tmp_path_factory.mktemp("sound") / "store"
    clock, draw = FakeClock(), random.Random(7)
    settings = StoreSettings(fill_ahead_bytes=0, crc_tail=True)
    store = Store.open(RealDisk(), str(root), settings, clock, GEOMETRY)
    for number in range(MESSAGES):
        pairs = {"TAGS": "T", "KEYS": f"key-{number}", "UNIQ_KEY": f"{number:032d}"}
        store.append(
            NewRecord(
                topic="topic",
                queue_id=number % 4,
                body=draw.randbytes(draw.randrange(60, 400)),
                properties=properties.encode(pairs),
                born_host=HOST,
                store_host=HOST,
            )
        )
        clock.advance(10)
        if number % 200 == 0:
            store.write()
    store.write()
    store.sync()
    store.dispatch()
    store.dispatch_index()
    maintain(store)
    placed = [_placed(stored) for _, stored in store.records()]
    store.close()
    return root, placed


def _placed(stored: Any) -> Placed:
    entry = record.entry(stored)
    return Placed(entry.physical_offset, entry.size, entry.queue_id, entry.queue_offset)


def copied(sound: Path, folder: Path) -> Path:
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(sound, folder / "store"))


def change(root: Path, place: int, at: int, data: bytes | None = None) -> None:
    """Change a byte of the log, or some."""
    start = place // LOG_BYTES * LOG_BYTES
    with (root / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(place - start + at)
        old = file.read(1)
        file.seek(place - start + at)
        file.write(bytes([old[0] ^ 0x41]) if data is None else data)


def change_unit(root: Path, one: Placed, data: bytes) -> None:
    """Change a unit of a queue."""
    size = 1000 * 20
    at = one.queue_offset * 20
    path = root / "consumequeue" / "topic" / str(one.queue_id) / f"{at // size * size:020d}"
    with path.open("r+b") as file:
        file.seek(at % size)
        file.write(data)


def _topic_at(root: Path, one: Placed) -> int:
    """Return where the length of the topic stands in a record of version 1."""
    start = one.place // LOG_BYTES * LOG_BYTES
    with (root / "commitlog" / f"{start:020d}").open("rb") as file:
        file.seek(one.place - start + BODY_AT - 4)
        (size,) = struct.unpack(">i", file.read(4))
    return BODY_AT + int(size)


DAMAGES: dict[str, Callable[[Path, Placed], None]] = {
    "header": lambda root, one: change(root, one.place, 5),
    "size": lambda root, one: change(root, one.place, 2),
    "body": lambda root, one: change(root, one.place, BODY_AT + 7),
    "topic": lambda root, one: change(root, one.place, _topic_at(root, one) + 2),
    "properties": lambda root, one: change(root, one.place, one.size - CRC_TAIL_BYTES - 5),
    "CRC tail": lambda root, one: change(root, one.place, one.size - 4),
    "hole": lambda root, one: change(root, one.place, 0, bytes(one.size)),
    "unit": lambda root, one: change_unit(root, one, struct.pack(">qiq", one.place + 1, 9, 9)),
    "lost unit": lambda root, one: change_unit(root, one, bytes(20)),
}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kind", repetition.some(DAMAGES, ["unit"]))
def test_each_of_a_thousand_damages_is_named_at_its_place(
    kind: str, spark: Any, sound: tuple[Path, list[Placed]], tmp_path: Path
) -> None:
    """A thousand records or units are damaged; each is a finding at its place, and nothing else."""
    root = copied(sound[0], tmp_path)
    draw = random.Random(kind)
    # Not the very last one, behind which nothing shows that there was more; nor neighbours in the
    # log or in a queue, whose damage is one stretch.
    damaged = [sound[1][number] for number in range(3, len(sound[1]) - 9, 6)]
    damaged = draw.sample(damaged, 1000)
    for one in damaged:
        DAMAGES[kind](root, one)
    report = fsck(spark, store=str(root), partition_bytes=LOG_BYTES // 3)
    places = [row["physical_offset"] for row in report.findings]
    assert sorted(places) == sorted(one.place for one in damaged)
    rules = {"unit": Rule.QUEUE_UNIT, "lost unit": Rule.QUEUE_MISSING}
    wanted = rules.get(kind, Rule.LOG_RECORD)
    assert {row["rule"] for row in report.findings} == {wanted.name}
    assert report.complaint() == "1,000 broken rules"
    if wanted is Rule.LOG_RECORD:
        starts = [one.place % LOG_BYTES for one in damaged]
        assert sorted(row["position"] for row in report.findings) == sorted(starts)
        assert report.breaks == 1000
    if kind in ("body", "topic", "properties", "CRC tail"):
        assert report.wrong_checksums == 1000
    assert report.complaint()
    assert says("`pipe fsck`", A_WRONG_BYTE) == (FINDING, NEVER)


@pytest.mark.spark
@pytest.mark.slow
def test_a_torn_end_is_named(spark: Any, sound: tuple[Path, list[Placed]], tmp_path: Path) -> None:
    """The last record lost its second half: where it begins, and the unit that it left."""
    root = copied(sound[0], tmp_path)
    last = sound[1][-1]
    change(root, last.place, last.size // 2, bytes(last.size - last.size // 2))
    report = fsck(spark, store=str(root), partition_bytes=LOG_BYTES // 3)
    assert (last.place, Rule.LOG_RECORD.name) in [
        (row["physical_offset"], row["rule"]) for row in report.findings
    ]
    assert checked(str(root)) == told(str(root), report)
    assert any("where the log was closed" in row["expected"] for row in report.findings)
    assert says("`pipe fsck`", A_LOST_END) == (FINDING, NEVER)


@pytest.mark.spark
@pytest.mark.slow
def test_a_sound_store_gives_ranges_that_join_up(
    spark: Any, sound: tuple[Path, list[Placed]]
) -> None:
    """Nothing is found, each record is counted once, and the ranges follow each other."""
    steps: list[tuple[str, int, int]] = []
    root, placed = sound
    report = fsck(
        spark,
        store=str(root),
        index=True,
        partition_bytes=LOG_BYTES // 3,
        progress=lambda what, done, total=0: steps.append((what, done, total)),
    )
    assert (report.findings, report.broken, report.complaint()) == ([], [], "")
    assert (report.messages, report.bytes) == (len(placed), sum(one.size for one in placed))
    assert len(report.ranges) > 2 * report.end // LOG_BYTES
    assert [row["end"] for row in report.ranges[:-1]] == [row["start"] for row in report.ranges[1:]]
    assert (placed[0].place, placed[-1].place) == (
        report.ranges[0]["first"],
        report.ranges[-1]["last"],
    )
    assert "checking" in {what for what, _, _ in steps}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", repetition.some(CASES, ["02-kill9-load", "03-torn-last-cut"]))
def test_the_same_is_said_of_recorded_stores(name: str, spark: Any, tmp_path: Path) -> None:
    """As by `sprocket store check`, whatever state a real broker left them in."""
    recorded = Recorded(name)
    if recorded.is_rocksdb:
        pytest.importorskip("rocksdict")
    root = recorded.unpack(tmp_path)
    report = fsck(spark, store=root, index=True, partition_bytes=16 << 10)
    assert checked(root) == told(root, report)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
def test_a_store_in_an_object_store_is_checked_there(
    spark: Any, tmp_path: Path, object_store: Any
) -> None:
    """With the same findings, after damage of log and queue."""
    root = Recorded("01-basic").unpack(tmp_path)
    log = next(Path(root, "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff\xff")
    address = object_store.put(root, "fsck")
    settings = [f"{name}={value}" for name, value in object_store.settings.items()]
    far = fsck(spark, store=address, index=True, files=JobFiles(fs=settings))
    assert far.findings
    assert checked(root) == told(address, far)


def test_settings_of_a_file_system_need_one(tmp_path: Path) -> None:
    """On the local disk they are refused before anything is looked at."""
    with pytest.raises(SettingsError, match="--fs is for folders on s3://"):
        fsck(None, store=str(tmp_path), files=JobFiles(fs=["region=eu-west-1"]))


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """In the words of the other check."""
    with pytest.raises(StoreError, match="there is no store"):
        fsck(None, store=str(tmp_path))
