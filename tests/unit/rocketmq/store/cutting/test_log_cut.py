"""A log that is cut is one that had always ended there, whatever happens meanwhile."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.crash import invariants
from tests.stores import ROOT, SMALL, fill, filled, log_files, new, open_store, overwrite

from sprocket.base.disk import RealDisk, read_file
from sprocket.base.errors import (
    CorruptRecord,
    DiskFailed,
    DiskFull,
    ForeignStore,
    OffsetTooLarge,
    StoreError,
    StoreLocked,
)
from sprocket.rocketmq.model.epochs import Epoch
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.cutting import Cut, log_cut
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.repair import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import CHANGES, SimulatedDisk

LAYOUT = StoreLayout(ROOT)
COUNT = 40


@dataclass(frozen=True)
class Whole:
    """A store that was closed, or killed, and where its records begin; the last is its end."""

    disk: SimulatedDisk
    places: list[int]


def made(count: int = COUNT, *, clean: bool = True) -> Whole:
    """Return a store with epochs: 1 begins with it, 2 and 3 lie in its second half."""
    disk, store = filled(count)
    places = [place for place, _ in store.records()]
    end: int = store.end
    if clean:
        store.close()
    else:
        disk = disk.crash(lambda _: 0)
    epochs = EpochFile(disk, LAYOUT)
    epochs.begin(Epoch(1, 0))
    if count > 30:
        epochs.begin(Epoch(2, places[20]))
        epochs.begin(Epoch(3, places[30]))
    return Whole(disk, [*places, end])


def content(store: Store) -> dict[str, object]:
    """Return all that can be seen of a store."""
    queues = list(store.queues())
    seen: dict[str, object] = {"end": store.end, "queues": queues}
    seen["log"] = [(place, bytes(stored)) for place, stored in store.records()]
    for topic, queue_id, bounds in queues:
        got = store.get_messages(topic, queue_id, bounds.min, max_count=1000, max_bytes=1 << 20)
        seen[f"{topic}/{queue_id}"] = b"".join(map(bytes, got.runs))
    for number in range(COUNT):
        seen[f"N{number}"] = store.find("topic", f"N{number}").offsets
    return seen


def settled(disk: SimulatedDisk) -> dict[str, object]:
    """Open a store, look at it, go on with it and close it; nothing may be wrong then."""
    store = open_store(disk)
    seen = content(store)
    assert not disk.exists(LAYOUT.cut_note)
    assert store.report.damage == []
    after = store.append(new("topic", 1, b"new", name="new"))
    store.write()
    seen["next"] = after.queue_offset
    store.close()
    assert list(check.check(disk, ROOT, SMALL)) == []
    entries, _ = invariants.log(disk, ROOT, SMALL)
    invariants.queues(disk, ROOT, entries, SMALL)
    invariants.index(disk, ROOT, entries, SMALL)
    return seen


@pytest.fixture(scope="module")
def always() -> dict[int, dict[str, object]]:
    """Return what stores look like that had no more messages, by their number."""
    return {count: settled(made(count).disk) for count in range(COUNT + 1)}


@pytest.mark.parametrize("clean", [True, False])
def test_it_opens_as_if_it_had_always_ended_there(
    always: dict[int, dict[str, object]], clean: bool
) -> None:
    """At each record, after a stop and after a kill: log, queues, keys, what comes next."""
    whole = made(clean=clean)
    for number in range(0, COUNT + 1, 1 if clean else 7):
        disk, place = whole.disk.crash(lambda _: 0), whole.places[number]
        done = log_cut.cut(disk, ROOT, place)
        assert (done.at, done.end, done.records) == (place, whole.places[-1], COUNT - number)
        assert settled(disk) == always[number], number


def test_epochs_end_with_the_log(always: dict[int, dict[str, object]]) -> None:
    """Those that had not begun; what was promised stays promised."""
    whole = made()
    for number, left in ((35, "[1@0, 2@{}, 3@{}]"), (30, "[1@0, 2@{}]"), (20, "[1@0]")):
        disk = whole.disk.crash(lambda _: 0)
        log_cut.cut(disk, ROOT, whole.places[number])
        found = EpochFile(disk, LAYOUT)
        assert str(found.epochs) == left.format(whole.places[20], whole.places[30])
        assert found.promised == 3
        found.agree_with(0, whole.places[number])


def test_what_comes_off_is_saved() -> None:
    """As log files in which it lies where it lay, that can be read as a store."""
    whole = made()
    before = dict(invariants.files(whole.disk, LAYOUT.commitlog))
    at = whole.places[25]
    done = log_cut.cut(whole.disk, ROOT, at)
    assert done == Cut(
        at=at,
        end=whole.places[-1],
        first=0,
        epoch=3,
        records=15,
        folder=f"3-{at}",
        is_cut=True,
    )
    assert done.bytes == whole.places[-1] - at
    folder = f"{LAYOUT.cuts}/3-{at}"
    assert whole.disk.list(folder) == ["commitlog", "cut.json", "epochFileCheckpoint"]
    for start, data in invariants.files(whole.disk, f"{folder}/commitlog"):
        hole = max(at - start, 0)
        assert data == bytes(hole) + before[start][hole:]
    with closing(Store.open_read_only(whole.disk, folder, SMALL)) as saved:
        assert [place for place, _ in saved.records()] == whole.places[25:-1]


def test_all_of_a_log_comes_off(always: dict[int, dict[str, object]]) -> None:
    """Its folder is moved; a log that begins later is emptied as well by a place before that."""
    whole = made()
    before = invariants.files(whole.disk, LAYOUT.commitlog)
    done = log_cut.cut(whole.disk, ROOT, 0)
    assert done.keeps_nothing
    assert invariants.files(whole.disk, f"{LAYOUT.cuts}/3-0/commitlog") == before
    assert invariants.files(whole.disk, LAYOUT.commitlog) == []
    assert settled(whole.disk) == always[0]


def test_nothing_comes_off_at_the_end(always: dict[int, dict[str, object]]) -> None:
    """Only an epoch in which nothing was written is forgotten."""
    whole = made()
    EpochFile(whole.disk, LAYOUT).begin(Epoch(7, whole.places[-1]))
    done = log_cut.cut(whole.disk, ROOT, whole.places[-1])
    assert (done.bytes, done.folder) == (0, "")
    assert EpochFile(whole.disk, LAYOUT).epochs.last == 3
    assert not whole.disk.exists(LAYOUT.cuts)
    assert settled(whole.disk) == always[COUNT]


def test_each_cut_is_saved_by_itself(always: dict[int, dict[str, object]]) -> None:
    """Also a second one before the store is opened, and one at the same place."""
    whole = made()
    log_cut.cut(whole.disk, ROOT, whole.places[30])
    done = log_cut.cut(whole.disk, ROOT, whole.places[25])
    assert (done.earlier, done.records) == ((f"3-{whole.places[30]}",), 5)
    assert log_cut.cut(whole.disk, ROOT, whole.places[25]) == done
    assert settled(whole.disk) == always[25]
    log_cut.cut(whole.disk, ROOT, whole.places[25])
    assert len(whole.disk.folders(LAYOUT.cuts)) == 3
    open_again(whole.disk)
    log_cut.cut(whole.disk, ROOT, whole.places[25])
    names = whole.disk.folders(LAYOUT.cuts)
    assert [name for name in names if name.endswith(".3")] == [f"2-{whole.places[25]}.3"]


def open_again(disk: SimulatedDisk) -> None:
    """Have a message more."""
    store = open_store(disk)
    store.append(new("topic", 0, b"more"))
    store.write()
    store.close()


@pytest.mark.parametrize(
    ("shift", "error", "why"),
    [
        (1, CorruptRecord, "no record begins at"),
        (-1, CorruptRecord, "no record begins at"),
        (100_000, OffsetTooLarge, "past the end"),
    ],
)
def test_a_place_in_a_record_is_refused(shift: int, error: type[StoreError], why: str) -> None:
    """And one behind the end; then nothing is changed."""
    whole = made()
    before = whole.disk.contents()
    with pytest.raises(error, match=why):
        log_cut.cut(whole.disk, ROOT, whole.places[25] + shift)
    assert whole.disk.contents() == before


def test_an_open_store_is_refused() -> None:
    """Its log is somebody's."""
    disk, store = filled(4)
    with pytest.raises(StoreLocked):
        log_cut.cut(disk, ROOT, 0)
    store.close()
    with pytest.raises(ForeignStore, match="there is no store"):
        log_cut.cut(disk, "/elsewhere", 0)


def test_damaged_epochs_are_refused() -> None:
    """Before anything is changed."""
    whole = made()
    for path in (LAYOUT.epochs, LAYOUT.epochs + ".bak"):
        whole.disk.open(path, write=True).write([b"x"], 0)
    before = whole.disk.contents()
    with pytest.raises(ForeignStore, match="epochFileCheckpoint"):
        log_cut.cut(whole.disk, ROOT, whole.places[25])
    assert whole.disk.contents() == before


def test_nobody_reads_a_log_that_is_half_cut() -> None:
    """Its broker finishes the cut; a note that is damaged stops it."""
    whole = made()
    log_cut.cut(whole.disk, ROOT, whole.places[25])
    with pytest.raises(ForeignStore, match=f"being cut at {whole.places[25]}"):
        Store.open_read_only(whole.disk, ROOT)
    note = read_file(whole.disk, LAYOUT.cut_note)
    whole.disk.open(LAYOUT.cut_note, write=True).write([b"9"], len(note) - 5)
    with pytest.raises(ForeignStore, match="it is not known where"):
        open_store(whole.disk)


def crashes(whole: Whole, at: int, choose: random.Random, states_each: int) -> list[SimulatedDisk]:
    """Return the disk as the power may leave it before each call of a cut that changes it."""
    found: list[SimulatedDisk] = []
    disk = whole.disk.crash(lambda _: 0)
    disk.before = lambda call, _: (
        found.extend(disk.crash(choose.randrange) for _ in range(states_each))
        if call in CHANGES
        else None
    )
    log_cut.cut(disk, ROOT, at)
    disk.before = None
    return [*found, *(disk.crash(choose.randrange) for _ in range(states_each))]


def ended(disk: SimulatedDisk, at: int, whole: Whole) -> dict[str, object]:
    """Go on after a crash: cut again unless the note was not there yet."""
    if not disk.exists(LAYOUT.cut_note):
        assert [p for p, _ in invariants.files(disk, LAYOUT.commitlog)] == [
            p for p, _ in invariants.files(whole.disk, LAYOUT.commitlog)
        ]
        log_cut.cut(disk, ROOT, at)
    return settled(disk)


@pytest.mark.parametrize(
    "number", [0, 33, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 20, 25, 39))]
)
def test_the_power_may_go_at_any_step(always: dict[int, dict[str, object]], number: int) -> None:
    """Whatever was not synced: the next opening ends where the cut would have ended."""
    whole = made()
    at = whole.places[number]
    for disk in crashes(whole, at, random.Random(number), 1):
        assert ended(disk, at, whole) == always[number]
        name = disk.folders(LAYOUT.cuts)[-1]
        with closing(Store.open_read_only(disk, f"{LAYOUT.cuts}/{name}", SMALL)) as saved:
            assert [place for place, _ in saved.records()] == whole.places[number:-1]


def crashes_of_opening(disk: SimulatedDisk, choose: random.Random) -> list[SimulatedDisk]:
    """Return the disk as the power may leave it in an opening."""
    states: list[SimulatedDisk] = []
    disk.before = lambda call, _: (
        states.append(disk.crash(choose.randrange))
        if call in CHANGES and not choose.randrange(8)
        else None
    )
    open_store(disk).close()
    disk.before = None
    return states


def every(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    """Give the disk as a loss of power may leave it now, in each way in which it may."""
    path: list[tuple[int, int]] = []
    while True:
        taken = 0

        def choose(count: int) -> int:
            nonlocal taken
            if taken == len(path):
                path.append((0, count))
            taken += 1
            return path[taken - 1][0]

        yield disk.crash(choose)
        while path and path[-1][0] == path[-1][1] - 1:
            path.pop()
        if not path:
            return
        path[-1] = path[-1][0] + 1, path[-1][1]


@pytest.mark.parametrize(
    ("count", "number"), [(6, 3), pytest.param(23, 20, marks=pytest.mark.nightly)]
)
def test_each_state_that_a_crash_can_leave(
    always: dict[int, dict[str, object]], count: int, number: int
) -> None:
    """Of a small log, of one file and of two: before each change, any of what was not synced."""
    whole = made(count)
    at = whole.places[number]
    disk = whole.disk.crash(lambda _: 0)
    states: dict[object, SimulatedDisk] = {}

    def take(call: str = "write", _: str = "") -> None:
        if call in CHANGES:
            for found in every(disk):
                states.setdefault(frozenset(found.contents().items()), found)

    disk.before = take
    log_cut.cut(disk, ROOT, at)
    disk.before = None
    take()
    assert len(states) > 40
    for found in states.values():
        assert ended(found, at, whole) == always[number]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_the_power_may_go_again_and_again(always: dict[int, dict[str, object]], seed: int) -> None:
    """Also in the opening that finishes a cut."""
    choose = random.Random(seed)
    number = choose.randrange(COUNT)
    whole = made()
    at = whole.places[number]
    for first in choose.sample(crashes(whole, at, choose, 1), 10):
        if first.exists(LAYOUT.cut_note):
            for disk in crashes_of_opening(first, choose):
                assert settled(disk) == always[number]


@pytest.mark.parametrize("number", [0, 25])
def test_a_disk_that_fails_is_an_error_and_no_more(
    always: dict[int, dict[str, object]], number: int
) -> None:
    """Each call of the cut once: it is raised, and the next opening finishes what has begun."""
    whole = made()
    at = whole.places[number]
    counted = whole.disk.crash(lambda _: 0)
    before = counted.calls["any"]
    log_cut.cut(counted, ROOT, at)
    calls = counted.calls["any"] - before
    for nth in range(1, calls + 1, 5):
        disk = whole.disk.crash(lambda _: 0)
        disk.fail("any", nth)
        try:
            log_cut.cut(disk, ROOT, at)
        except (DiskFailed, DiskFull):
            disk.heal()
        assert ended(disk, at, whole) == always[number], nth


def test_stale_bytes_behind_a_cut_would_be_found(
    always: dict[int, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocketMQ #10666: it does not zero what it truncates, and a crash brings it back."""
    whole = made()
    monkeypatch.setattr(log_cut, "_cut", lambda *_: None)
    log_cut.cut(whole.disk, ROOT, whole.places[25])
    with pytest.raises(AssertionError):
        assert settled(whole.disk) == always[25]


def test_zeros_that_a_failed_sync_lost_are_written_again() -> None:
    """The cache shows zeros that the disk has not: what was saved says where they belong."""
    whole = made()
    disk, at = whole.disk, whole.places[25]
    name = f"{LAYOUT.commitlog}/{at - at % SMALL.log.segment_bytes:020d}"
    syncs = 0

    def fail_the_zeros(call: str, path: str) -> None:
        nonlocal syncs
        if call == "sync" and path == name:
            syncs += 1
            if syncs == 1:
                disk.fail("sync", 1)

    disk.before = fail_the_zeros
    try:
        log_cut.cut(disk, ROOT, at)
    except StoreError:
        log_cut.cut(disk, ROOT, at)
    disk.before = None
    found = disk.crash(lambda _: 0)
    segment = read_file(found, name)
    assert not any(segment[at % SMALL.log.segment_bytes :])


def test_a_blank_goes_with_the_file_that_it_ends(always: dict[int, dict[str, object]]) -> None:
    """Cut where a file begins, or before the blank of the one before: the log goes on there."""
    whole = made()
    files = log_files(whole.disk)
    second = files.segments[1].start
    files.close()
    last = max(place for place in whole.places if place < second)
    number = whole.places.index(second) if second in whole.places else -1
    assert number > 0, "records of a file begin with it"
    disk = whole.disk.crash(lambda _: 0)
    log_cut.cut(disk, ROOT, second)
    store = open_store(disk)
    assert store.end in (second, last + entry_size(whole.disk, last))
    assert content(store)["topic/0"] == always[number]["topic/0"]
    store.close()


def entry_size(disk: SimulatedDisk, place: int) -> int:
    """Return the size of a record."""
    files = log_files(disk)
    segment = files.segment(place)
    size = int.from_bytes(segment.read(place - segment.start, 4), "big")
    files.close()
    return size


def test_damage_behind_the_cut_keeps_no_place() -> None:
    """Fillers of what came off are gone: the master gives these places to others."""
    whole = made()
    files = log_files(whole.disk)
    overwrite(files, whole.places[38] + 100, b"\xff")
    overwrite(files, whole.places[39] + 100, b"\xff")
    files.close()
    whole.disk.open(LAYOUT.abort, write=True, create=True)
    store = open_store(whole.disk)
    assert store.report.units_lost or store.report.damage or store.report.bytes_cut
    store.close()
    log_cut.cut(whole.disk, ROOT, whole.places[30])
    store = open_store(whole.disk)
    assert [bounds.max for _, _, bounds in store.queues()] == [15, 15]
    store.close()


def test_queues_in_a_database_end_there_too(tmp_path: Path) -> None:
    """As those in files do; and what comes next takes their places."""
    geometry = replace(SMALL, queue=replace(SMALL.queue, engine="rocksdb"))
    disk, folder = RealDisk(), str(tmp_path / "store")

    def opened() -> Store:
        return Store.open(disk, folder, StoreSettings(fill_ahead_bytes=0), FakeClock(), geometry)

    store = fill(opened(), FakeClock(), COUNT)
    places = [place for place, _ in store.records()]
    store.close()
    log_cut.cut(disk, folder, places[25])
    store = opened()
    assert [tuple(bounds) for _, _, bounds in store.queues()] == [(0, 13), (0, 12)]
    assert store.append(new("topic", 1, b"new")).queue_offset == 12
    store.close()
    assert list(check.check(disk, folder, geometry)) == []


def test_the_next_opening_looks_at_the_end_only() -> None:
    """As after a crash: queues and index are cut, and not made again from the whole log."""
    whole = made()
    log_cut.cut(whole.disk, ROOT, whole.places[30])
    store = open_store(whole.disk)
    report = store.report
    assert report.start >= whole.places[25]
    assert (report.end, report.queues_rebuilt) == (whole.places[30], [])
    assert report.units_rebuilt <= 5
    assert report.index_entries_rebuilt <= 5
    store.close()
