"""What lies between two places of the log is given whole, in order, in one form or the other."""

import pytest
from msgspec import structs
from tests.stores import (
    ROOT,
    SMALL,
    end_with_a_blank,
    filled,
    log_files,
    new,
    open_store,
    overwrite,
)

from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import CorruptRecord, OffsetTooSmall
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.codec.record_layout import PHYSICAL_OFFSET_AT
from sprocket.rocketmq.store.log import Tail
from sprocket.rocketmq.store.reput import log_follower
from sprocket.rocketmq.store.reput.log_follower import LogPart
from sprocket.testing.disk import SimulatedDisk


@pytest.fixture(autouse=True, params=["entries", "columns"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test holds for few records and for many."""
    monkeypatch.setattr(log_follower, "COLUMNS_MIN", 1 if request.param == "columns" else 1 << 30)
    return str(request.param)


def _parts(disk: SimulatedDisk, start: int, limit: int, count_max: int = 1 << 30) -> list[LogPart]:
    """Return all parts between two places."""
    parts = []
    while part := log_follower.next_part(
        Tail(log_files(disk)), start, limit, count_max, with_keys=True
    ):
        parts.append(part)
        start = part.end
    return parts


def _entries(parts: list[LogPart]) -> list[Entry]:
    found = []
    for _, _, records in parts:
        found += records if isinstance(records, list) else records.entries()
    return found


def test_every_record_is_given_once(form: str) -> None:
    """From file to file, with what a scan gives of it."""
    disk, store = filled(40)
    assert len(log_files(disk)) > 1
    parts = _parts(disk, 0, store.end)
    assert len(parts) == len(log_files(disk))
    assert [isinstance(part.records, list) for part in parts] == [form != "columns"] * len(parts)
    offsets = [offset for offset, _ in store.records()]
    assert [entry.physical_offset for entry in _entries(parts)] == offsets
    assert [entry.keys for entry in _entries(parts)] == [(f"N{n}",) for n in range(40)]
    assert [part.start for part in parts] == [0, *[part.end for part in parts[:-1]]]
    assert parts[-1].end == store.end
    assert parts[-1].last_stored_at_ms == _entries(parts)[-1].stored_at_ms


def test_a_part_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By who asks, and for all."""
    disk, store = filled(10)
    offsets = [offset for offset, _ in store.records()]
    whole = _parts(disk, offsets[2], offsets[7], 2)
    assert [len(part.records) for part in whole] == [2, 2, 1]
    assert [entry.physical_offset for entry in _entries(whole)] == offsets[2:7]
    monkeypatch.setattr(log_follower, "PART_MAX", 3)
    assert [len(part.records) for part in _parts(disk, 0, offsets[7])] == [3, 3, 1]


def test_a_few_are_entries_and_many_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the limit on."""
    monkeypatch.setattr(log_follower, "COLUMNS_MIN", 4)
    disk, store = filled(10)
    offsets = [offset for offset, _ in store.records()]
    for count, columns in ((3, False), (4, True), (9, True)):
        (part,) = _parts(disk, 0, offsets[count])
        assert len(part.records) == count
        assert isinstance(part.records, list) is not columns


def test_between_equal_places_lies_nothing() -> None:
    """Nor in a file that is yet to be made, nor behind a blank."""
    disk, store = filled(10)
    assert _parts(disk, store.end, store.end) == []
    assert _parts(SimulatedDisk(), 0, 0) == []
    end = end_with_a_blank(log_files(disk), store.end)
    assert end == SMALL.log.segment_bytes
    last = _parts(disk, 0, end)[-1].end
    assert _parts(disk, last, end) == []


def test_keys_of_entries_are_left_out_if_nobody_asks(form: str) -> None:
    """Queues need none; columns look for them when asked."""
    disk, store = filled(1)
    part = log_follower.next_part(Tail(log_files(disk)), 0, store.end, 1, with_keys=False)
    assert part is not None
    (entry,) = _entries([part])
    assert entry.keys == (("N0",) if form == "columns" else ())
    (whole,) = _entries(_parts(disk, 0, store.end))
    assert structs.replace(whole, keys=entry.keys, unique=entry.unique) == entry


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"\0\0\0\0"),
        (4, b"\0\0\0\0"),
        (0, b"\x7f\0\0\0"),
        (PHYSICAL_OFFSET_AT, b"\7"),
        (84, b"\x7f"),
        (88 + 60 + 1, b"\xff"),
    ],
    ids=["size", "magic", "long", "place", "body", "topic"],
)
def test_what_was_not_written_there_is_an_error(at: int, data: bytes) -> None:
    """Rather than passed over: nobody would ever get what lies behind it."""
    disk = SimulatedDisk()
    store = open_store(disk)
    for number in range(3):
        last = store.append(new(body=b"b" * 60, name=f"N{number}"))
    store.write()
    overwrite(log_files(disk), last.physical_offset + at, data)
    with pytest.raises(CorruptRecord, match=f"{last.physical_offset}"):
        _parts(disk, 0, store.end)


def test_what_is_gone_is_an_error() -> None:
    """The log was cleaned beyond the place."""
    files = SegmentFiles(SimulatedDisk(), ROOT, 4096)
    files.add(8192)
    with pytest.raises(OffsetTooSmall):
        log_follower.next_part(Tail(files), 100, 9000, 1, with_keys=True)
