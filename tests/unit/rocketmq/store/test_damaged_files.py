"""No damaged file stops a start that can do without it, and what was done about it is told."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.stores import ROOT, SMALL, filled, maintain

from sprocket.base.disk import read_file
from sprocket.base.errors import ForeignStore, StoreError
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

COUNT = 120
SIZE = SMALL.log.segment_bytes
LOG, INDEX, QUEUE = f"{ROOT}/commitlog", f"{ROOT}/index", f"{ROOT}/consumequeue/topic/0"
MARKS = ("config/sprocket.json", "config/clean.json", "config/queues.json")


def left(*, clean: bool = True, noted: bool = True) -> SimulatedDisk:
    """A store of several files of each kind; `noted` if it says that Sprocket made it."""
    disk, store = filled(COUNT)
    maintain(store)
    if clean:
        store.close()
    else:
        disk = disk.kill()
    if not noted:
        for name in MARKS:
            if disk.exists(f"{ROOT}/{name}"):
                disk.remove(f"{ROOT}/{name}")
    return disk


def opened(disk: SimulatedDisk) -> Store:
    """Open it as a broker would that knows nothing of its geometry."""
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048)
    return Store.open(disk, ROOT, settings, FakeClock())


def bodies(store: Store) -> list[int]:
    """Return the numbers of the messages that are there, in their queues and by their keys."""
    found = []
    for number in range(COUNT):
        got = store.get_messages("topic", number % 2, number // 2, max_count=1)
        if got.status is GetStatus.FOUND and got.next_offset == number // 2 + 1:
            message = record.decode(got.records[0])
            assert message.stored_body == b"body %d" % number * 10
            assert message.physical_offset in store.find("topic", f"N{number}").offsets
            found.append(number)
    return found


def sizes(geometry: Geometry) -> tuple[object, ...]:
    """Return what files tell that are there."""
    return geometry.log, geometry.queue.units_per_file, geometry.index


def places(disk: SimulatedDisk) -> list[int]:
    """Return where the messages lie."""
    store = Store.open_read_only(disk, ROOT)
    try:
        return [int(offset) for offset, _ in store.records()]
    finally:
        store.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_log_file_that_was_cut_short_is_filled_up(number: int, noted: bool, clean: bool) -> None:
    """A copy that broke off; what it lost is lost, all else is there, and the report says both."""
    disk = left(clean=clean, noted=noted)
    starts = places(disk)
    name = disk.list(LOG)[number]
    cut = int(name) + 1000
    disk.open(f"{LOG}/{name}", write=True).resize(1000)
    store = opened(disk)
    assert [(one.path, one.bytes) for one in store.report.filled_up] == [(f"{LOG}/{name}", 1000)]
    end = int(name) + SIZE
    behind = [*starts[1:], end]
    lost = [n for n, at in enumerate(starts) if int(name) <= at < end and behind[n] > cut]
    assert bodies(store) == [n for n in range(COUNT) if n not in lost]
    store.close()
    assert disk.size(f"{LOG}/{name}") == SIZE
    assert list(check(disk, ROOT)) == []


@pytest.mark.slow
def test_a_start_that_ends_while_it_fills_up_is_begun_again() -> None:
    """Wherever it ends: the next one does not take the zeros for what a clean stop left."""
    disk = left()
    starts = places(disk)
    disk.open(f"{LOG}/{disk.list(LOG)[2]}", write=True).resize(1000)
    disk.remove(f"{ROOT}/config/recovery.json")
    behind = [*starts[1:], 3 * SIZE]
    lost = [n for n, at in enumerate(starts) if at >= 2 * SIZE and behind[n] > 2 * SIZE + 1000]
    kept = [n for n in range(COUNT) if n not in lost or starts[n] >= 3 * SIZE]
    whole, calls = disk.kill(), list[tuple[str, str]]()
    whole.before = lambda call, path: calls.append((call, path))
    opened(whole).close()
    filled_up = next(
        n for n, (call, path) in enumerate(calls) if call == "resize" and path.startswith(LOG)
    )
    for nth in (*range(filled_up - 12, filled_up + 40, 2), *range(100, len(calls), 200)):
        again = disk.kill()
        again.fail("any", nth)
        ended = False
        with suppress(StoreError):
            opened(again).close()
            ended = True
        again = again.kill()
        was_told = ended or again.exists(f"{ROOT}/config/recovery.json")
        store = opened(again)
        assert bodies(store) == kept, nth
        assert was_told or [one.bytes for one in store.report.filled_up] == [1000], nth
        store.close()
        assert list(check(again, ROOT)) == [], nth


def test_an_empty_log_file_between_others_is_filled_up() -> None:
    """Only the last one may be the trace of a file that was being made."""
    disk = left()
    name = disk.list(LOG)[1]
    disk.open(f"{LOG}/{name}", write=True).resize(0)
    starts = places(disk)
    store = opened(disk)
    assert [one.bytes for one in store.report.filled_up] == [0]
    assert len(bodies(store)) == len(starts)
    store.close()
    assert list(check(disk, ROOT)) == []


def test_a_reader_takes_a_short_file_as_it_is() -> None:
    """And changes nothing."""
    disk = left()
    before = places(disk)
    name = disk.list(LOG)[1]
    disk.open(f"{LOG}/{name}", write=True).resize(1000)
    after = places(disk)
    assert disk.size(f"{LOG}/{name}") == 1000
    assert [at for at in before if not SIZE <= at < 2 * SIZE] == [
        at for at in after if not SIZE <= at < 2 * SIZE
    ]


def test_a_file_that_is_too_long_is_refused() -> None:
    """It is of another geometry: nothing says where in it a record lies."""
    disk = left()
    disk.open(f"{LOG}/{disk.list(LOG)[1]}", write=True).resize(2 * SIZE)
    with pytest.raises(ForeignStore, match="expected 4096 bytes, found 8192"):
        opened(disk)


def _shorten(disk: SimulatedDisk, path: str) -> None:
    disk.open(path, write=True).resize(disk.size(path) - 11)


def _lengthen(disk: SimulatedDisk, path: str) -> None:
    disk.open(path, write=True).resize(disk.size(path) + 11)


def _garble(disk: SimulatedDisk, path: str) -> None:
    size = disk.size(path)
    disk.open(path, write=True).write([bytes(255 - n % 251 for n in range(size))], 0)


def _garble_head(disk: SimulatedDisk, path: str) -> None:
    disk.open(path, write=True).write([b"\xff" * 40], 0)


def _empty(disk: SimulatedDisk, path: str) -> None:
    disk.open(path, write=True).resize(0)


def _spoil(disk: SimulatedDisk, path: str) -> None:
    disk.spoil(path, 0, disk.size(path))


DAMAGES = (_shorten, _lengthen, _garble, _garble_head, _empty, _spoil)
Harm = Callable[[SimulatedDisk, str], None]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("harm", DAMAGES)
def test_a_damaged_index_file_is_made_again(
    harm: Harm, number: int, noted: bool, clean: bool
) -> None:
    """Its geometry is told by its neighbours; every key is found."""
    disk = left(clean=clean, noted=noted)
    harm(disk, f"{INDEX}/{disk.list(INDEX)[number]}")
    store = opened(disk)
    assert bodies(store) == list(range(COUNT))
    assert sizes(store.geometry) == sizes(SMALL)
    store.close()
    assert [f.rule.name for f in check(disk, ROOT)] == []


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("harm", DAMAGES)
def test_an_index_without_a_whole_file_is_made_again(harm: Harm, noted: bool) -> None:
    """Where nothing tells its geometry it gets the default one, or the one that is wanted."""
    disk = left(noted=noted)
    for name in disk.list(INDEX):
        harm(disk, f"{INDEX}/{name}")
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048)
    store = Store.open(disk, ROOT, settings, FakeClock(), SMALL)
    assert bodies(store) == list(range(COUNT))
    store.close()
    assert list(check(disk, ROOT)) == []


def test_an_index_that_tells_nothing_gets_the_default_geometry() -> None:
    """A start does not wait for somebody who knows."""
    disk = left(noted=False)
    for name in disk.list(INDEX):
        _garble(disk, f"{INDEX}/{name}")
    reader = Store.open_read_only(disk, ROOT)
    assert reader.geometry.index.slots == 5_000_000
    reader.close()


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("harm", [_shorten, _lengthen, _empty])
def test_a_damaged_queue_file_is_made_again(harm: Harm, number: int, noted: bool) -> None:
    """Whatever its length."""
    disk = left(noted=noted)
    harm(disk, f"{QUEUE}/{disk.list(QUEUE)[number]}")
    store = opened(disk)
    assert bodies(store) == list(range(COUNT))
    assert sizes(store.geometry) == sizes(SMALL)
    store.close()
    assert list(check(disk, ROOT)) == []


def test_what_is_no_queue_file_is_left_alone() -> None:
    """Somebody's note does not stop a start, and is not thrown away."""
    disk = left()
    disk.open(f"{QUEUE}/notes.txt", write=True, create=True).write([b"mine"], 0)
    store = opened(disk)
    assert bodies(store) == list(range(COUNT))
    store.close()
    assert read_file(disk, f"{QUEUE}/notes.txt") == b"mine"


def test_a_record_that_names_another_place_is_kept_and_told() -> None:
    """By recovery, which gives it its place again, by salvage, and by check, which names it."""
    disk = left(clean=False)
    starts = places(disk)
    place = starts[50]
    path, position = f"{LOG}/{place // SIZE * SIZE:020d}", place % SIZE + 28
    disk.open(path, write=True).write([b"\x01"], position)
    disk.remove(f"{ROOT}/checkpoint")
    assert place in [
        finding.record for finding in check(disk, ROOT) if finding.position == position
    ]
    store = opened(disk)
    ((found, named),) = [(one.place, one.named) for one in store.report.misplaced]
    assert (found, named) == (place, place + (1 << 56))
    assert store.report.damage == []
    assert bodies(store) == list(range(COUNT))
    store.close()
    assert list(check(disk, ROOT)) == []
