"""What the disk does not give is told with file and position, never invented or written over.

A store of several log files has a sector that cannot be read, in turn at each place of its log, or
one read of many that fails. What must hold of check, salvage, recovery and pulls:

* None of them looks at the log through a map, where a bad sector kills the process.
* They go on behind it: every record that does not lie in the sector is found.
* What they report names the file, and the position in it.
* No body is given that is not the one that was stored.
"""

from collections.abc import Iterator

import pytest
from tests.stores import ROOT, filled, filled_parts, maintain, new, open_store

from sprocket.base.disk import segments
from sprocket.base.errors import DiskFailed, StoreError
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.repair import Rule, salvage
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import BLOCK, SimulatedDisk

COUNT = 40
NEW = "/new"
LOG = f"{ROOT}/commitlog"


def closed() -> tuple[SimulatedDisk, dict[int, bytes]]:
    """A store that was stopped, and its records by their places."""
    disk, store = filled(COUNT)
    maintain(store)
    store.close()
    return disk, records(disk)


def records(disk: SimulatedDisk, root: str = ROOT) -> dict[int, bytes]:
    """Return the messages of a store by their places."""
    store = Store.open_read_only(disk, root)
    try:
        found = {int(offset): bytes(data) for offset, data in store.records()}
    finally:
        store.close()
    return {offset: data for offset, data in found.items() if record.entry(data).queueable}


def sectors(disk: SimulatedDisk) -> Iterator[tuple[str, int, int]]:
    """Give path, position and place in the log of some sectors that hold records."""
    for name in disk.list(LOG):
        path = f"{LOG}/{name}"
        end = disk.open(path).data_end()
        for position in range(0, end, BLOCK):
            yield path, position, int(name) + position


def touched(whole: dict[int, bytes], place: int) -> set[int]:
    """Return which records have bytes in a sector."""
    return {at for at, data in whole.items() if at < place + BLOCK and place < at + len(data)}


SECTORS = list(sectors(closed()[0]))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the small store are no longer than what a real disk reads at once."""
    monkeypatch.setattr(segments, "READ_BLOCK_BYTES", BLOCK)


@pytest.fixture(params=range(len(SECTORS)), ids=[f"{place}" for *_, place in SECTORS])
def spoilt(request: pytest.FixtureRequest) -> tuple[SimulatedDisk, dict[int, bytes], str, set[int]]:
    """A store with a bad sector: disk, records before, the file, and which records are in it."""
    path, position, place = SECTORS[request.param]
    disk, whole = closed()
    disk.spoil(path, position, BLOCK)
    disk.calls.clear()
    return disk, whole, path, touched(whole, place)


Spoilt = tuple[SimulatedDisk, dict[int, bytes], str, set[int]]


def test_check_names_the_file_and_goes_on(spoilt: Spoilt) -> None:
    """Whatever else it finds wrong lies in the sector."""
    disk, whole, path, gone = spoilt
    found = list(check(disk, ROOT))
    told = [finding for finding in found if "Input/output error" in finding.found]
    assert told
    assert {finding.path for finding in told} == {path}
    assert {finding.record for finding in found if finding.record in whole} <= gone
    assert disk.calls["view"] == 0


def test_salvage_leaves_behind_what_it_cannot_read(spoilt: Spoilt) -> None:
    """And nothing else; the new store is whole."""
    disk, whole, path, gone = spoilt
    report = salvage(disk, ROOT, NEW, FakeClock())
    assert records(disk, NEW) == {at: data for at, data in whole.items() if at not in gone}
    assert [left.why for left in report.left if path in left.why]
    assert list(check(disk, NEW)) == []
    assert disk.calls["view"] == 0


def test_recovery_goes_on_and_leaves_it_as_it_is(spoilt: Spoilt) -> None:
    """The rest is read; should the sector be read another day, its messages are there again."""
    disk, whole, path, gone = spoilt
    opening.distrust(disk, ROOT)
    store = open_store(disk)
    damage = store.report.damage
    assert gone == {at for at in whole for d in damage if d.start <= at < d.end}
    assert all(path in d.why and d.is_unreadable for d in damage)
    assert disk.calls["view"] == 0
    appended = store.append(new("topic", 0, b"after"))
    store.write()
    store.sync()
    store.dispatch()
    assert bytes(store.record_at(appended.physical_offset))[88:93] == b"after"
    store.close()
    left = {at: data for at, data in records(disk).items() if at in whole}
    assert left == {at: data for at, data in whole.items() if at not in gone}
    for file in SECTORS:
        disk.repair(file[0])
    assert {at: data for at, data in records(disk).items() if at in whole} == whole
    store = open_store(disk)
    for at, data in whole.items():
        assert store.record_at(at) == data
    store.close()


def test_a_pull_of_what_cannot_be_read_fails_and_others_do_not(spoilt: Spoilt) -> None:
    """It names the file. What lies before it in the same answer is given first.

    What recovery has already met, at the end of the log, is passed over: a filler stands for it.
    """
    disk, whole, path, gone = spoilt
    store = open_store(disk)
    damage = store.report.damage
    passed_over = {at for at in gone for d in damage if d.start <= at < d.end}
    pull_all(store, whole, path, gone, passed_over)
    assert disk.calls["view"] == 0


@pytest.mark.parametrize(("path", "position", "place"), SECTORS)
def test_a_pull_of_what_was_written_and_given_back_fails_no_other_way(
    path: str, position: int, place: int
) -> None:
    """Though its records are trusted, and many of them read by one call."""
    disk, store, opened = filled_parts(COUNT)
    opened.log.warm_from = store.written
    whole = records(closed()[0])
    disk.spoil(path, position, BLOCK)
    disk.calls.clear()
    pull_all(store, whole, path, touched(whole, place), set())
    assert disk.calls["view"] == 0


def pull_all(
    store: Store, whole: dict[int, bytes], path: str, gone: set[int], passed_over: set[int]
) -> None:
    """Pull all there is; see that what cannot be read fails, and nothing else does."""
    given: set[int] = set()
    failed: set[int] = set()
    told: list[str] = []
    for queue_id in (0, 1):
        offset, (_, end) = 0, store.queue_range("topic", queue_id)
        while offset < end:
            try:
                got = store.get_messages("topic", queue_id, offset)
            except DiskFailed as error:
                told.append(str(error))
                failed.add(store.units("topic", queue_id, offset, 1)[0][1])
                offset += 1
                continue
            assert got.status is GetStatus.FOUND
            for stored in got.records:
                place = record.entry(stored).physical_offset
                assert stored == whole[place]
                given.add(place)
            offset = got.next_offset
    assert all(path in text for text in told)
    assert failed == gone - passed_over
    assert given == set(whole) - gone


OTHERS = [path for path in closed()[0].contents() if not path.startswith(LOG)]


@pytest.mark.parametrize("path", OTHERS)
def test_check_goes_on_where_another_file_cannot_be_read(path: str) -> None:
    """It names the file, if it looks at it, and finds what is wrong with the log."""
    disk, whole = closed()
    size = disk.size(path)
    place = list(whole)[7]
    disk.open(f"{LOG}/{0:020d}", write=True).write([b"?"], place + 90)
    disk.spoil(path, 0, size)
    found = list(check(disk, ROOT))
    assert place in [finding.record for finding in found]
    told = {finding.path for finding in found if finding.rule is Rule.FILE_READ}
    assert told == ({path} if size and _is_looked_at(path) else set())


def _is_looked_at(path: str) -> bool:
    """Say whether a check reads a file: marks tell what they do by being there."""
    kinds = "consumequeue/", "index/", "config/", "checkpoint"
    is_kind = path.removeprefix(f"{ROOT}/").startswith(kinds)
    return is_kind and not path.endswith("/queueEnds.json")


@pytest.mark.parametrize("path", OTHERS)
def test_salvage_takes_from_the_log_what_other_files_do_not_give(path: str) -> None:
    """All of it; the report says what could not be read."""
    disk, whole = closed()
    disk.spoil(path, 0, disk.size(path))
    report = salvage(disk, ROOT, NEW, FakeClock())
    assert records(disk, NEW) == whole
    assert all(path in text for text in report.unread)


def _count(disk: SimulatedDisk, command: str) -> int:
    run(disk.kill(), command)
    again = disk.kill()
    run(again, command)
    return again.calls["read"]


def run(disk: SimulatedDisk, command: str) -> object:
    """Run one of the commands."""
    if command == "check":
        return list(check(disk, ROOT))
    if command == "salvage":
        return salvage(disk, ROOT, NEW, FakeClock())
    opening.distrust(disk, ROOT)
    store = open_store(disk)
    store.close()
    return store.report


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(4, id="each fourth"),
        pytest.param(1, id="each", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("command", ["check", "salvage", "recover"])
def test_one_read_that_fails_is_an_error_or_costs_nothing(command: str, step: int) -> None:
    """In turn: what is there afterwards is what was there before."""
    disk, whole = closed()
    told: list[str] = []
    for nth in range(1, _count(disk, command) + 1, step):
        again = disk.kill()
        again.fail("read", nth)
        try:
            run(again, command)
        except StoreError as error:
            told.append(str(error))
        else:
            if command == "salvage":
                assert records(again, NEW) == whole, nth
        assert records(again) == whole, nth
        store = open_store(again)
        for at, data in whole.items():
            assert store.record_at(at) == data, nth
        store.close()
    assert all("Input/output error" in text for text in told)
