"""Folders of virtual hosts with damage, and with files missing: what is told, what is handed out.

The table of the guide is held to; each of its rows is a folder that something happened to.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from tests.rabbit_vhosts import LARGE, Q, close, opened, publish
from tests.recorded_rabbitmq import RecordedVhosts
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, LOGGED, says
from tests.unit.spark.rabbitmq.test_reader import read

from sprocket.base.errors import CorruptRecord
from sprocket.testing.disk import SimulatedDisk

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark-rabbitmq.md"
COUNT = 24
STORED, EMBEDDED = b"body 4 ", b"body 17 "
"""How the bodies of a message in the store and of one in the index begin."""


def closed(folder: Path) -> Path:
    """Make a queue of ours, with messages in the store and in its index, and stop; return it."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, *range(COUNT // 2), size=LARGE)
    publish(queue, *range(COUNT // 2, COUNT))
    close(store)
    for path, data in disk.contents().items():
        target = folder / path.removeprefix("/vhosts/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def found(folder: Path, text: bytes) -> tuple[Path, int]:
    """Return the one file that has some text, and where."""
    places = [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]
    ((path, at),) = [(path, data.index(text)) for path, data in places if text in data]
    return path, at


def change(folder: Path, text: bytes, behind: int = 0) -> None:
    """Change a bit of the file that has some text, there or so many bytes behind."""
    path, at = found(folder, text)
    data = bytearray(path.read_bytes())
    data[at + behind] ^= 1
    path.write_bytes(data)


def forget_sums(folder: Path) -> None:
    """Have the folder of ours as RabbitMQ writes one: without checksums."""
    for path in [*folder.rglob("*.sums"), *folder.rglob("sprocket.wal.*")]:
        path.unlink()


def lose_segment(folder: Path) -> None:
    """Lose a segment of the queue's index, whose messages are all in there."""
    path, _ = found(folder, EMBEDDED)
    path.unlink()
    for sums in folder.rglob(f"{path.stem}.sums"):
        sums.unlink()


def kill(folder: Path) -> None:
    """Have the folder look as one that was not stopped."""
    for path in folder.rglob("recovery.dets"):
        path.unlink()


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return what makes several changes."""

    def change_all(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change_all


def in_store(folder: Path) -> None:
    """Change a byte of a body in the message store."""
    change(folder, STORED, 50)


def in_index(folder: Path) -> None:
    """Change a byte of a body in the index."""
    change(folder, EMBEDDED, 10)


DAMAGE: Mapping[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "a byte of a body in the message store": (in_store, {}),
    "a byte of a body in the index of a queue": (in_index, {}),
    "the same without checksums, as RabbitMQ writes": (both(forget_sums, in_store, in_index), {}),
    "a byte of a body in the message store, where no message is asked for": (
        in_store,
        {"view": "meta"},
    ),
    "the same with `verifyCrc=true`": (in_store, {"view": "meta", "verifyCrc": "true"}),
    "a byte of a body, with `verifyCrc=false`": (
        both(in_store, in_index),
        {"verifyCrc": "false"},
    ),
    "what a message is made of, around its body": (
        both(forget_sums, lambda folder: change(folder, STORED, -5)),
        {},
    ),
    "a file of the message store that is missing": (
        lambda folder: found(folder, STORED)[0].unlink(),
        {},
    ),
    "a segment of an index that is missing, after a clean stop": (lose_segment, {}),
    "a segment of an index that is missing, after a kill": (both(kill, lose_segment), {}),
}
"""By what the table calls it: how it is done, and with which options it is read."""

ERROR, AS_IT_IS, NOT_TOLD = "an error", "returned as it is", "missing, not reported"
LEFT_OUT, ROW = "left out, and named in the log", "a row that names it"


def outcome(folder: Path, mode: str, given: dict[str, str]) -> str:
    """Return what becomes of damage in one mode, in the words of the table."""
    try:
        with structlog.testing.capture_logs() as told:
            rows = read(str(folder), **given, mode=mode)
    except CorruptRecord:
        return ERROR
    if any(row.get("corruption") for row in rows):
        assert all(row.get("body") is None for row in rows if row["corruption"])
        return ROW
    if len(rows) == COUNT:
        return AS_IT_IS
    named = [one["place"] for one in told if one["event"] == "damage is left out"]
    return LEFT_OUT if named else NOT_TOLD


@pytest.mark.parametrize("name", DAMAGE)
def test_the_table_of_the_guide(tmp_path: Path, name: str) -> None:
    """Each row says what each mode makes of a kind of damage."""
    folder = closed(tmp_path)
    assert len(read(str(folder))) == COUNT
    make, given = DAMAGE[name]
    make(folder)
    cells = [outcome(folder, mode, given) for mode in ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")]
    if cells[:2] == [ERROR, LEFT_OUT] and make is in_store:
        assert says("`spark.read` of a virtual host", A_WRONG_BYTE) == (FAILS, LOGGED)
    if cells[:2] == [ERROR, LEFT_OUT] and make is lose_segment:
        assert says("`spark.read` of a virtual host", A_LOST_END) == (FAILS, LOGGED)
    assert " | ".join(["", name, *cells, ""]).strip() in GUIDE.read_text(encoding="utf-8")


def test_the_guide_has_no_other_rows() -> None:
    """Each of its rows is one of those above."""
    text = GUIDE.read_text(encoding="utf-8")
    table = text.partition("| what is damaged |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (.+?) \|", table, re.M) == list(DAMAGE)


def test_checksums_are_not_read_where_nobody_asks(tmp_path: Path) -> None:
    """A file of them that is damaged itself harms nobody; other damage is told nevertheless."""
    folder = closed(tmp_path)
    for path in folder.rglob("*.sums"):
        path.write_bytes(b"\xff" * path.stat().st_size)
    given: dict[str, Any] = {"verifyCrc": "false"}
    assert len(read(str(folder), **given)) == COUNT
    found(folder, STORED)[0].unlink()
    with pytest.raises(CorruptRecord, match=r"is missing|has no message"):
        read(str(folder), **given)


def test_the_store_of_an_index_of_version_2(tmp_path: Path) -> None:
    """There RabbitMQ itself writes checksums, and the option is for them, too."""
    folder = RecordedVhosts("08-classic-v2").unpack(tmp_path)
    given = {"columns": "seqId,queue,body"}
    whole = read(folder, **given)
    for path in Path(folder).rglob("*.qs"):
        data = bytearray(path.read_bytes())
        data[-30] ^= 1
        path.write_bytes(data)
    with pytest.raises(CorruptRecord, match="the message does not fit its checksum"):
        read(folder, **given)
    assert len(read(folder, mode="DROPMALFORMED", **given)) < len(whole)
    assert len(read(folder, verifyCrc="false", **given)) == len(whole)
