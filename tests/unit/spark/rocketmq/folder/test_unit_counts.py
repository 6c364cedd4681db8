"""Counting by units gives what counting by records gives, or says that it does not know."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.spark.rocketmq.folder.test_reader import CASES, rows
from tests.unit.spark.samples import unpack

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import UNIT_BYTES
from sprocket.rocketmq.store.queue.queue import FILLER
from sprocket.spark.rocketmq.folder import plan, unit_counts
from sprocket.spark.rocketmq.folder.unit_counts import UnitCounts

COUNTED = ("01-basic", "05-long-topic", "09-index", "10a-crc-tail", "14-retention")
"""Stores that were stopped cleanly, and that have a unit for every record that is left."""


def known(store: str) -> list[bool]:
    """Tell of each part of a log whether its units cover it."""
    disk = RealDisk()
    counts = UnitCounts(disk, StoreLayout(store))
    spans = [span for part in plan.plan(disk, store, 1 << 30) for span in part if not span.why]
    return [counts.of(span) is not None for span in spans]


def counted(store: str, **given: str) -> Counter[tuple[str, int]]:
    """Count messages as a query does that asks for nothing else."""
    found: Counter[tuple[str, int]] = Counter()
    for row in rows(store, columns="rowCount,queueId,topic", **given):
        found[row["topic"], row["queueId"]] += row["rowCount"]
    return found


def looked_at(store: str, **given: str) -> Counter[tuple[str, int]]:
    """Count the rows of the messages."""
    found = rows(store, columns="queueId,topic,physicalOffset", **given)
    return Counter((row["topic"], row["queueId"]) for row in found)


@pytest.mark.parametrize("case", CASES)
def test_every_store_of_a_real_broker(tmp_path: Path, case: str) -> None:
    """Whatever it holds, with its own topics and without, one topic of it, and one queue."""
    store = unpack(case, tmp_path)
    every = looked_at(store, includeInternalTopics="true")
    assert counted(store, includeInternalTopics="true") == every
    assert counted(store) == looked_at(store)
    for topic, queue_id in sorted(every)[:3]:
        filters = f'{{"topic":["{topic}"],"queueId":[{queue_id}]}}'
        assert counted(store, filters=filters) == looked_at(store, filters=filters)
    if case in COUNTED:
        assert all(known(store))
        assert counted(store, subscribe=topic) == looked_at(store, subscribe=topic)


def _unit(number: int, data: bytes) -> Callable[[Path], None]:
    """Return what overwrites a unit of the queue that has most."""

    def change(queue: Path) -> None:
        path = max(queue.iterdir())
        stored = bytearray(path.read_bytes())
        at = number * UNIT_BYTES
        stored[at : at + len(data)] = data
        path.write_bytes(stored)

    return change


def _extra(queue: Path) -> None:
    """Put a unit of no bytes before the second one."""
    path = max(queue.iterdir())
    stored = path.read_bytes()
    first, second = stored[:UNIT_BYTES], stored[UNIT_BYTES : 2 * UNIT_BYTES]
    path.write_bytes(first + second[:8] + bytes(12) + stored[UNIT_BYTES:])


def _twice(queue: Path) -> None:
    other = queue.with_name("77")
    other.mkdir()
    (other / f"{0:020d}").write_bytes(max(queue.iterdir()).read_bytes())


def _removed(queue: Path) -> None:
    for path in queue.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_unit(1, FILLER), id="a filler"),
        pytest.param(_unit(1, bytes(UNIT_BYTES)), id="nothing"),
        pytest.param(_unit(1, (1 << 40).to_bytes(8, "big")), id="a place beyond the log"),
        pytest.param(_unit(1, bytes(7) + b"\x01"), id="a place where no record begins"),
        pytest.param(_extra, id="a unit too many"),
        pytest.param(_twice, id="units of one record in two queues"),
        pytest.param(_removed, id="a queue without files"),
    ],
)
def test_units_that_do_not_cover_the_log_are_not_believed(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """The records are counted then."""
    store = unpack("01-basic", tmp_path)
    before = looked_at(store)
    topic, queue_id = before.most_common(1)[0][0]
    change(Path(StoreLayout(store).queue(topic, queue_id)))
    assert not all(known(store))
    assert counted(store) == before


def test_the_first_record_of_a_part_needs_a_unit_as_well(tmp_path: Path) -> None:
    """All others follow one another."""
    store = unpack("01-basic", tmp_path)
    before = looked_at(store, includeInternalTopics="true")
    for path in Path(StoreLayout(store).consumequeue).glob("*/*/*"):
        stored = path.read_bytes()
        if stored[:8] == bytes(8) and any(stored[:UNIT_BYTES]):
            path.write_bytes(FILLER + stored[UNIT_BYTES:])
    assert not known(store)[0]
    assert counted(store, includeInternalTopics="true") == before


def test_where_messages_were_erased_their_units_do_not_count(tmp_path: Path) -> None:
    """A unit is left of a message that no query shows."""
    store = unpack("01-basic", tmp_path)
    Path(StoreLayout(store).erased).write_bytes(b"{}")
    assert not any(known(store))


@pytest.mark.parametrize("reads", ["folders", "sizes", "open"])
def test_queues_that_cannot_be_read_fail_no_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """A bad sector, or a topic that is deleted meanwhile: the records are counted."""
    store = unpack("01-basic", tmp_path)
    before = looked_at(store)
    real = getattr(RealDisk, reads)

    def fail(disk: RealDisk, path: str, *given: object, **named: object) -> object:
        if path.startswith(StoreLayout(store).consumequeue):
            raise DiskFailed("bad sector", path)
        return real(disk, path, *given, **named)

    counts = unit_counts.UnitCounts(RealDisk(), StoreLayout(store))
    spans = [span for part in plan.plan(RealDisk(), store, 1 << 30) for span in part]
    monkeypatch.setattr(RealDisk, reads, fail)
    if reads == "open":
        assert counts.of(spans[0]) is None
    else:
        assert UnitCounts(RealDisk(), StoreLayout(store)).of(spans[0]) is None
    monkeypatch.undo()
    assert counted(store) == before


def test_units_of_batches_do_not_count(tmp_path: Path) -> None:
    """One of them stands for several messages."""
    store = unpack("01-basic", tmp_path)
    Path(StoreLayout(store).batch_queues).mkdir()
    assert not any(known(store))


def test_in_very_many_queues_units_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their records are read sooner."""
    store = unpack("01-basic", tmp_path)
    monkeypatch.setattr(unit_counts, "QUEUES_MAX", 1)
    assert not any(known(store))


@pytest.mark.parametrize(
    "given",
    [
        {"subExpression": "a"},
        {"filter": "TAGS = 'a'"},
        {"verifyCrc": "true"},
        {"mode": "DROPMALFORMED"},
        {"startingTimestamp": "1"},
        {"filters": '{"storeTimestamp":[1,null]}'},
    ],
)
def test_what_is_asked_of_a_message_itself_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """A tag, a checksum, a time: units do not say them."""
    monkeypatch.delattr(unit_counts.UnitCounts, "of")
    store = unpack("01-basic", tmp_path)
    assert counted(store, **given) == looked_at(store, **given)
