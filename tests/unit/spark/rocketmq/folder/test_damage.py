"""Stores with damage, and with a log that ends too soon: what is told, what is handed out.

The table of the guide is held to; each of its rows is a store of ours that something happened to.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from tests.stores import new
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, LOGGED, says
from tests.unit.spark.samples import plain_rows, schema

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, DataLost
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.spark.rocketmq.folder import DirectoryReader, DirectoryStream, LeftOut
from sprocket.spark.rocketmq.options import read_directory
from sprocket.testing.clock import FakeClock

GUIDE = Path(__file__).resolve().parents[5] / "docs" / "guides" / "spark.md"
FILE_BYTES = 4096
COUNT = 60
BODY_AT, TOPIC_AT = 88, 100


def closed(folder: Path, *, crc_tail: bool = True, apart_ms: int = 1000) -> Path:
    """Make a store of ours of some files, and close it; return its folder."""
    settings = StoreSettings(fill_ahead_bytes=0, crc_tail=crc_tail)
    clock = FakeClock()
    store = Store.open(RealDisk(), str(folder), settings, clock, Geometry.small())
    for number in range(COUNT):
        store.append(new("orders", number % 2, b"body %04d" % number, name=f"N{number:04d}"))
        clock.advance(apart_ms)
        store.write()
    store.sync()
    store.dispatch()
    store.close()
    return folder


def logs(store: Path) -> list[Path]:
    """Return the files of a log."""
    return sorted((store / "commitlog").iterdir())


def change(path: Path, at: int) -> None:
    """Change a bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    """Leave a part of a file, which ends inside of a record."""
    path.write_bytes(path.read_bytes()[:300])


def reader_of(store: Path, **given: str) -> DirectoryReader:
    """Return the reader of a store."""
    options = read_directory({"path": str(store), **given})
    return DirectoryReader(schema(options), options)


def read(store: Path, left_out: LeftOut | None = None, **given: str) -> list[dict[str, Any]]:
    """Return the rows of a store."""
    reader = reader_of(store, **given)
    parts = [part.value for part in reader.partitions()]
    return plain_rows([batch for part in parts for batch in reader.batches(part, left_out)])


def kill(store: Path) -> None:
    """Have a store look as one that was not closed."""
    (store / "abort").write_text("1 sprocket\n")
    (store / "config" / "clean.json").unlink()


def cut_a_killed_one(store: Path) -> None:
    """Cut the newest file of a store that was not closed at a record's end."""
    kill(store)
    rows = read(store, columns="physicalOffset,size")
    last = max(row["physicalOffset"] for row in rows)
    path = logs(store)[-1]
    data = path.read_bytes()
    position = last - int(path.name)
    path.write_bytes(data[:position].ljust(len(data), b"\0"))


DAMAGE: Mapping[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "a byte of a body": (lambda store: change(logs(store)[0], BODY_AT), {}),
    "a byte of properties, topic, queue or time": (
        lambda store: change(logs(store)[0], TOPIC_AT),
        {},
    ),
    "the same without a checksum over the whole record, as RocketMQ writes by default": (
        lambda store: change(logs(store)[0], TOPIC_AT + 20),
        {"crc_tail": ""},
    ),
    "a byte of a body, where neither bodies nor properties are asked for": (
        lambda store: change(logs(store)[0], BODY_AT),
        {"view": "meta"},
    ),
    "a byte of a body, with `verifyCrc=false`": (
        lambda store: change(logs(store)[0], BODY_AT),
        {"verifyCrc": "false"},
    ),
    "the size of a record, or the number that it begins with": (
        lambda store: change(logs(store)[0], 4),
        {},
    ),
    "a file of the log that is missing between others": (
        lambda store: logs(store)[1].unlink(),
        {},
    ),
    "the newest file cut short, or missing, of a store that was closed": (
        lambda store: logs(store)[-1].unlink(),
        {},
    ),
    "the end of the newest file, of a store that was not closed": (cut_a_killed_one, {}),
}
"""By what the table calls it: how it is done, and with which options it is read."""

ERROR, AS_IT_IS, NOT_TOLD = "an error", "returned as it is", "missing, not reported"
COUNTED, ROW = "left out, named and counted", "a row that names it"


def outcome(store: Path, whole: int, mode: str, given: dict[str, str]) -> str:
    """Return what becomes of damage in one mode, in the words of the table."""
    left_out = LeftOut()
    try:
        rows = read(store, left_out, **given, mode=mode)
    except CorruptRecord:
        return ERROR
    told = [row for row in rows if row.get("corruption")]
    if told:
        assert all(row.get("body") is None for row in told)
        return ROW if len(told) == 1 else f"{len(told)} rows"
    if left_out.count:
        assert left_out.count == len(left_out.named) == 1
        return COUNTED
    return AS_IT_IS if len(rows) == whole else NOT_TOLD


@pytest.mark.parametrize("name", DAMAGE)
def test_the_table_of_the_guide(tmp_path: Path, name: str) -> None:
    """Each row says what each mode makes of a kind of damage."""
    make, given = DAMAGE[name]
    given = dict(given)
    store = closed(tmp_path / "store", crc_tail=given.pop("crc_tail", "tail") == "tail")
    assert len(read(store)) == COUNT
    make(store)
    modes = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")
    cells = [outcome(store, COUNT, mode, given) for mode in modes]
    if name == "a byte of a body":
        assert says("`spark.read` of a directory", A_WRONG_BYTE) == (FAILS, LOGGED)
    assert " | ".join(["", name, *cells, ""]).strip() in GUIDE.read_text(encoding="utf-8")


def test_the_guide_has_no_other_rows() -> None:
    """Each of its rows is one of those above."""
    text = GUIDE.read_text(encoding="utf-8")
    table = text.partition("| what is damaged |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (.+?) \|", table, re.M) == list(DAMAGE)


@pytest.mark.parametrize("hurt", [cut_short, Path.unlink])
def test_a_closed_log_that_ends_too_soon_is_told(
    tmp_path: Path, hurt: Callable[[Path], None]
) -> None:
    """Before any task reads; where the end was lost, how much, and who says so."""
    store = closed(tmp_path / "store")
    end = json.loads((store / "config" / "clean.json").read_text())["log_end"]
    hurt(logs(store)[-1])
    with pytest.raises(CorruptRecord, match=f"went to {end} when it was closed.*clean.json"):
        reader_of(store).partitions()
    left_out = LeftOut()
    rows = read(store, left_out, mode="DROPMALFORMED")
    (lost,) = left_out.named
    assert (lost.start + lost.size, lost.why.endswith("bytes are lost")) == (end, True)
    assert lost.where == str(logs(store)[-1])
    assert 0 < len(rows) < COUNT
    assert says("`spark.read` of a directory", A_LOST_END) == (FAILS, LOGGED)


@pytest.mark.parametrize("has_queues", [False, True])
def test_of_a_store_of_rocketmq_queues_and_checkpoint_tell(
    tmp_path: Path, has_queues: bool
) -> None:
    """It leaves no note; the checkpoint has the time of the last message, the queues its place."""
    store = closed(tmp_path / "store")
    (store / "config" / "clean.json").unlink()
    assert len(read(store)) == COUNT
    logs(store)[-1].unlink()
    told_by = "orders/[01] says"
    if not has_queues:
        os.rename(store / "consumequeue", store / "queues")
        told_by = "checkpoint says"
    with pytest.raises(CorruptRecord, match=rf"the log ends here.*{told_by}"):
        read(store)


def test_a_store_that_rocketmq_ran_on_later(tmp_path: Path) -> None:
    """Our note of before is not a sign that all is there; its checkpoint is younger."""
    store = closed(tmp_path / "store")
    note = store / "config" / "clean.json"
    kept = json.loads(note.read_text())
    note.write_text(json.dumps({**kept, "log_end": FILE_BYTES}))
    os.utime(note, (1, 1))
    assert len(read(store)) == COUNT
    logs(store)[-1].unlink()
    with pytest.raises(CorruptRecord, match=r"orders/[01] says"):
        read(store)


def test_a_time_that_no_broker_wrote_tells_nothing(tmp_path: Path) -> None:
    """A checkpoint with a wrong bit has a time that lies ahead of its own file."""
    store = closed(tmp_path / "store")
    (store / "config" / "clean.json").unlink()
    change(store / "checkpoint", 2)
    assert len(read(store)) == COUNT


def test_an_end_that_is_not_asked_for_is_not_missed(tmp_path: Path) -> None:
    """What was stored before a time that the log still has, and an hour more, is all there."""
    store = closed(tmp_path / "store", apart_ms=600_000)
    rows = read(store, columns="storeTimestamp,physicalOffset")
    logs(store)[-1].unlink()
    until = str(rows[5]["storeTimestamp"])
    with pytest.raises(CorruptRecord, match="when it was closed"):
        read(store, startingTimestamp=until)
    assert len(read(store, endingTimestamp=until)) == 5


def test_nothing_is_left_of_a_closed_log(tmp_path: Path) -> None:
    """All of its files are missing: an error, and not an empty table."""
    store = closed(tmp_path / "store")
    for path in logs(store):
        path.unlink()
    with pytest.raises(CorruptRecord, match="the log ends here, and went to"):
        read(store)
    assert read(store, mode="DROPMALFORMED") == []


def test_a_stream_tells_of_a_closed_log_that_ends_too_soon(tmp_path: Path) -> None:
    """When it starts; it goes on if damage is not an error, with what is there."""
    store = closed(tmp_path / "store")

    def stream(**given: str) -> DirectoryStream:
        options = read_directory({"path": str(store), **given}, is_stream=True)
        return DirectoryStream(schema(options), options)

    reader = stream()
    start = reader.initialOffset()
    whole = reader.latestOffset(start, reader.getDefaultReadLimit())
    logs(store)[-1].unlink()
    for given in ({}, {"mode": "FAILFAST"}):
        reader = stream(**given)
        with pytest.raises(CorruptRecord, match=r"went to .* when it was closed"):
            reader.latestOffset(start, reader.getDefaultReadLimit())
        reader = stream(**given)
        with pytest.raises(CorruptRecord, match=r"went to .* when it was closed"):
            reader.prepareForTriggerAvailableNow()
    reader = stream(mode="DROPMALFORMED")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert start["phys"] < end["phys"] < whole["phys"]
    with pytest.raises(DataLost, match="is gone, the log ends at"):
        reader.latestOffset(whole, reader.getDefaultReadLimit())


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_a_running_stream_tells_of_an_end_that_is_lost_meanwhile(tmp_path: Path, mode: str) -> None:
    """Whenever the end goes back, not at its start alone; and once each time."""
    store = closed(tmp_path / "store")
    options = read_directory(
        {"path": str(store), "mode": mode, "failOnDataLoss": "false"}, is_stream=True
    )
    reader = DirectoryStream(schema(options), options)
    limit = reader.getDefaultReadLimit()
    whole = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(whole, limit) is whole
    logs(store)[-1].unlink()
    if mode == "FAILFAST":
        for _ in range(2):
            with pytest.raises(CorruptRecord, match=r"went to .* when it was closed"):
                reader.latestOffset(whole, limit)
        return
    with structlog.testing.capture_logs() as told:
        end = reader.latestOffset(whole, limit)
        assert reader.latestOffset(end, limit) is end
    assert [one["event"] for one in told].count("damage is left out") == 1
    assert end["phys"] < whole["phys"]
    assert says("`spark.readStream` of a directory", A_LOST_END) == (FAILS, LOGGED)
