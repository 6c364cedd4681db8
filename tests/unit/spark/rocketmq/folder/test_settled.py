"""A place that belongs to the log for certain: trusted only where index, log and queue agree."""

import shutil
from pathlib import Path

import pytest
from tests.unit.spark.samples import DATA, expected, unpack

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.store.index import HEADER
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.rocketmq.folder import log_files
from sprocket.spark.rocketmq.folder.plan import DOUBTED_BYTES
from sprocket.spark.rocketmq.folder.settled import settled_place


def settled(store: str, doubted: int = DOUBTED_BYTES) -> tuple[int, int]:
    """Return the place of a store, and where its newest file begins."""
    layout = StoreLayout(store)
    last = log_files(RealDisk(), layout)[-1]
    place = settled_place(RealDisk(), layout, last.path, last.start, last.end, doubted)
    return place, last.start


CLOSED = [
    *("01-basic", "05-long-topic", "08-consumers", "09-index", "10a-crc-tail", "10b-cq-ext-sql"),
    *("10c-lmq", "11a-ipv6-store-host", "11b-ipv6-born-host", "13-oversize", "14-retention"),
]


@pytest.mark.parametrize("case", CLOSED)
def test_stores_that_a_broker_closed(tmp_path: Path, case: str) -> None:
    """It is the last record that has a key; all but some behind it are before it."""
    place, start = settled(unpack(case, tmp_path))
    lines = [line["phys"] for line in expected(case)]
    assert place in lines
    assert start < place
    assert len(lines) - lines.index(place) <= 3


def test_remains_behind_the_end_are_not_trusted(tmp_path: Path) -> None:
    """An index may know a record behind the end that recovery cut; the record itself is whole."""
    store = unpack("15-rewritten-tail", tmp_path)
    index = sorted((Path(store) / "index").iterdir())[-1]
    indexed = HEADER.unpack(index.read_bytes()[: HEADER.size])[3]
    assert indexed > max(line["phys"] for line in expected("15-rewritten-tail"))
    place, start = settled(store)
    assert place == start


KILLED = "02-kill9-load"


def test_of_a_store_that_was_killed_the_end_is_followed(tmp_path: Path) -> None:
    """Its place is a record as far before the last indexed one as may be there in part."""
    store = unpack(KILLED, tmp_path)
    assert settled(store)[0] == settled(store)[1]
    place, _ = settled(store, 10_000)
    lines = [line["phys"] for line in expected(KILLED)]
    assert place in lines
    index = sorted((Path(store) / "index").iterdir())[-1]
    indexed = HEADER.unpack(index.read_bytes()[: HEADER.size])[3]
    assert 5_000 < indexed - place <= 10_000


def test_damage_before_the_indexed_record_is_not_passed_over(tmp_path: Path) -> None:
    """Where a chain does not lead up to it, the file is followed whole."""
    store = unpack(KILLED, tmp_path)
    place, start = settled(store, 40_000)
    log = Path(store) / "commitlog" / f"{start:020d}"
    data = bytearray(log.read_bytes())
    at = sorted(line["phys"] for line in expected(KILLED) if line["phys"] > place)[2]
    data[at - start : at - start + 8] = b"damaged!"
    log.write_bytes(data)
    assert settled(store, 40_000) == (start, start)


def test_each_of_the_three_must_agree(tmp_path: Path) -> None:
    """Without an index, or a queue, or with another record there, nothing is trusted."""
    store = Path(unpack("05-long-topic", tmp_path))
    place, start = settled(str(store))
    assert place > start
    index = sorted((store / "index").iterdir())[-1]
    whole = index.read_bytes()
    for wrong in (-1, 0, 8, place + 1, 1 << 62):
        header = list(HEADER.unpack(whole[: HEADER.size]))
        header[3] = wrong
        index.write_bytes(HEADER.pack(*header) + whole[HEADER.size :])
        assert settled(str(store))[0] == start
    index.write_bytes(whole)
    assert settled(str(store))[0] == place
    shutil.rmtree(store / "consumequeue")
    assert settled(str(store))[0] == start
    shutil.rmtree(store / "index")
    assert settled(str(store))[0] == start


def test_a_long_record_is_read_whole(tmp_path: Path) -> None:
    """The rest of it is one more read."""
    cases = [path.name for path in DATA.iterdir() if path.is_dir()]
    assert "13-oversize" in cases
    store = unpack("13-oversize", tmp_path)
    place, start = settled(store)
    assert place > start
