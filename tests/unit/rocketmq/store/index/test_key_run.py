"""Index files that are made of runs of keys: the bytes of those that a store fills."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.kept_files import KeptFiles
from tests.unit.rocketmq.store.index.test_key_index import AT_MS, FOLDER, SMALL, find, opened

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.codec.columns import RecordBatch, columns
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.message import TRANSACTION_ROLLBACK, NewRecord
from sprocket.rocketmq.store.index import (
    IndexedKey,
    KeyRun,
    KeyRunWriter,
    file_name,
    index_of,
    key_of,
    key_run,
)
from sprocket.testing.disk import SimulatedDisk

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
ROOM = SMALL.units - 1


def batch(first: int, keys: list[list[str]], times: list[int]) -> RecordBatch:
    """Return records of a log with these keys, of which the first is rolled back."""
    log = b""
    for number, (words, at_ms) in enumerate(zip(keys, times, strict=True)):
        pairs = {"KEYS": " ".join(words), "UNIQ_KEY": f"U{number}"} if words else {"TAGS": "A"}
        new = NewRecord(
            topic="T",
            queue_id=0,
            body=b"",
            properties=properties.encode(pairs),
            born_host=HOST,
            store_host=HOST,
            sys_flag=0 if number else TRANSACTION_ROLLBACK,
        )
        log += record.encode(
            new,
            queue_offset=number,
            physical_offset=first + len(log),
            stored_at_ms=at_ms,
            crc_tail=False,
        )
    found = columns.scan(log, 0, len(log), len(keys))
    return RecordBatch(columns.records(log, found.positions, found.stopped_at, first))


def divided(disk: SimulatedDisk, runs: list[KeyRun]) -> list[str]:
    """Make index files of all keys of some runs; return their names."""
    keys = [replace(run, first=number, count=1) for run in runs for number in range(run.count)]
    names: list[str] = []
    before: IndexedKey | None = None
    disk.make_folder(FOLDER)
    for first in range(0, len(keys), ROOM):
        own = keys[first : first + ROOM]
        names.append(file_name(key_of(disk, own[0], 0).at_ms, names[-1] if names else ""))
        index_of(disk, f"{FOLDER}/{names[-1]}", SMALL, own, before)
        before = key_of(disk, own[-1], 0)
    return names


def files_of(disk: SimulatedDisk) -> list[bytes]:
    """Return the index files that are there, oldest first."""
    return [data for path, data in disk.contents().items() if path.startswith(FOLDER)]


def check(parts: list[list[tuple[list[str], int]]]) -> int:
    """Assert that parts of a log, keys and times, give the files of a store; return how many."""
    filled, disk = SimulatedDisk(), SimulatedDisk()
    wanted, runs, at = opened(filled), [], 0
    for number, part in enumerate(filter(None, parts)):
        found = batch(at, [words for words, _ in part], [AT_MS + ms for _, ms in part])
        at = found.end
        wanted.put_batch(found, 0)
        writer = KeyRunWriter(disk, f"/keys-{number}")
        writer.put(found)
        runs.append(writer.close())
    wanted.close()
    divided(disk, runs)
    assert files_of(disk) == files_of(filled)
    return len(files_of(disk))


@given(
    st.lists(st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=3), st.integers(0, 5000))),
    st.integers(0, 40),
)
def test_the_files_are_those_that_a_store_fills(
    keys: list[tuple[list[str], int]], cut: int
) -> None:
    """Byte for byte, however the log is cut, with rolled back messages and times that fall back."""
    check([keys[:cut], keys[cut:]])


def test_each_file_goes_on_where_the_one_before_ends() -> None:
    """Its first unit counts its seconds from there; a record's keys may lie in two files."""
    keys = [([f"k{number}", "x"], 7000 * number) for number in range(40)]
    assert check([keys[:11], keys[11:]]) == -(-3 * 38 // ROOM) == 3


def test_a_file_that_is_made_again_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a task is repeated whose file was there already; however many keys at a time."""
    monkeypatch.setattr(key_run, "CHUNK_KEYS", 2)
    disk = SimulatedDisk()
    writer = KeyRunWriter(disk, "/keys")
    writer.put(batch(0, [[], ["a", "b"], ["a"]], [AT_MS, AT_MS, AT_MS + 5000]))
    run = writer.close()
    (name,) = divided(disk, [run])
    before = disk.contents()
    index_of(disk, f"{FOLDER}/{name}", SMALL, [run])
    assert disk.contents() == before
    places = find(opened(disk), "a")
    assert len(places) == 2
    assert places[0] > places[1]


def test_what_was_made_is_durable() -> None:
    """But for its name, which the folder's sync brings."""
    disk = SimulatedDisk()
    writer = KeyRunWriter(disk, "/keys")
    writer.put(batch(0, [[], ["a"]], [AT_MS, AT_MS]))
    divided(disk, [writer.close()])
    disk.sync_folder(FOLDER)
    assert find(opened(disk.crash(lambda _count: 0)), "a") == find(opened(disk), "a") != []


def test_no_file_is_left_open(tmp_path: Path) -> None:
    """Neither of keys nor of the index."""
    disk = KeptFiles()
    writer = KeyRunWriter(disk, f"{tmp_path}/keys")
    writer.put(batch(0, [[], ["a"]], [AT_MS, AT_MS]))
    run = writer.close()
    index_of(disk, f"{tmp_path}/1", SMALL, [run])
    assert key_of(disk, run, 0).at_ms == AT_MS
    assert disk.left_open() == []


def test_keys_that_are_missing_or_mixed_up_are_found() -> None:
    """A machine that sees another folder, or an older one, makes no index."""
    disk = SimulatedDisk()
    runs = []
    for number, start in enumerate((0, 10_000)):
        writer = KeyRunWriter(disk, f"/keys-{number}")
        writer.put(batch(start, [[], ["a"], ["b"]], [AT_MS] * 3))
        runs.append(writer.close())
    disk.make_folder(FOLDER)
    with pytest.raises(DiskFailed, match="not in the order of the log"):
        index_of(disk, f"{FOLDER}/1", SMALL, reversed(runs))
    short = replace(runs[1], count=runs[1].count + 1)
    with pytest.raises(DiskFailed, match="keys are missing"):
        index_of(disk, f"{FOLDER}/1", SMALL, [runs[0], short])


def test_names_rise_though_times_do_not() -> None:
    """Of one millisecond, of a clock that was set back, and of times that no calendar has."""
    names = [""]
    for at_ms in (AT_MS, AT_MS, AT_MS - 5, -1, 1 << 62, 1 << 62):
        names.append(file_name(at_ms, names[-1]))
    assert names == sorted(set(names))
    assert {len(name) for name in names[1:]} == {17}
