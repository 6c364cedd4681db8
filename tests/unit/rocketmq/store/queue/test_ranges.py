"""Queues put together of ranges: the same files as those that recovery makes, in order."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rocketmq.store.queue.given import FOLDER, SMALL, entry, oldest

from sprocket.base.errors import CorruptRecord, DiskFailed
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.store.queue import (
    UNIT_BYTES,
    FileQueues,
    JoinedQueue,
    QueueKey,
    RangeWriter,
    UnitBatch,
    UnitRange,
    ranges,
)
from sprocket.rocketmq.store.recovery.rebuild import Rebuild
from sprocket.testing.disk import SimulatedDisk

KEY = "T", 0
UNITS = SMALL.units_per_file


def log_of(offsets: list[tuple[int, int]]) -> list[Entry]:
    """Return records that follow each other in a log, given queue and queue offset of each."""
    return [
        entry(offset, at=100 * number, queue=queue)
        for number, (queue, offset) in enumerate(offsets)
    ]


def put(
    disk: SimulatedDisk,
    parts: list[list[Entry]],
    kept: dict[QueueKey, JoinedQueue] | None = None,
    folder: str = FOLDER,
) -> dict[QueueKey, JoinedQueue]:
    """Put parts of a log, the last first, and join them; return the queues."""
    told = []
    for part in reversed(parts):
        writer = RangeWriter(disk, folder, UNITS, kept)
        for number in range(0, len(part), 3):
            writer.put(UnitBatch.of_entries(part[number : number + 3]))
        told.append(list(writer.close()))
    joined: dict[QueueKey, JoinedQueue] = {}
    for found in reversed(told):
        for key, span in found:
            joined.setdefault(key, JoinedQueue()).add(span)
    return joined


def made(disk: SimulatedDisk, parts: list[list[Entry]]) -> int:
    """Make queues of the parts of a log, as the job does; return how many fillers they have."""
    joined = put(disk, parts)
    unsettled = {key: queue for key, queue in joined.items() if not queue.is_settled}
    for topic, queue_id in unsettled:
        disk.remove_tree(f"{FOLDER}/{topic}/{queue_id}")
    joined |= put(disk, parts, unsettled)
    assert all(queue.is_settled for queue in joined.values())
    return sum(ranges.complete(disk, FOLDER, UNITS, key, queue) for key, queue in joined.items())


def recovered(log: list[Entry]) -> tuple[dict[str, bytes], int]:
    """Return the files that recovery makes of a whole log, and how many fillers it put."""
    disk = SimulatedDisk()
    queues = FileQueues(disk, FOLDER, SMALL)
    queues.load(clean=True)
    rebuild = Rebuild(queues, None, from_first=True)
    for one in log:
        rebuild.add(one, after_damage=True)
    rebuild.finish()
    queues.close()
    return disk.contents(), rebuild.lost


@st.composite
def logs(draw: st.DrawFn) -> list[list[Entry]]:
    """Draw the parts of a log: most offsets follow, some leave gaps, repeat or begin anew."""
    reached: dict[int, int] = {}
    offsets = []
    for _ in range(draw(st.integers(0, 60))):
        queue = draw(st.integers(0, 1))
        step = draw(st.sampled_from([0] * 12 + [1, 4, 25, -1, -3, None]))
        at = reached.get(queue)
        if at is None:
            at = draw(st.sampled_from([0, 1, 9, 10, 23]))
        elif step is None:
            at = 0
        else:
            at = max(at + step, 0)
        offsets.append((queue, at))
        reached[queue] = at + 1
    log = log_of(offsets)
    cuts = sorted(draw(st.lists(st.integers(0, len(log)), max_size=3)))
    bounds = [0, *cuts, len(log)]
    return [log[a:b] for a, b in pairwise(bounds)]


@given(logs())
def test_the_files_are_those_that_recovery_makes(parts: list[list[Entry]]) -> None:
    """Whatever the log has, wherever it is cut, and though its parts are put from the back."""
    disk = SimulatedDisk()
    lost = made(disk, parts)
    log = [one for part in parts for one in part]
    wanted, fillers = recovered(log)
    assert disk.contents() == wanted
    # Of a queue that begins anew, what was lost before that counts for recovery alone.
    firsts = {one.queue_id: number for number, one in reversed([*enumerate(log)])}
    if all(one.queue_offset or firsts[one.queue_id] == number for number, one in enumerate(log)):
        assert lost == fillers


@given(logs())
def test_put_twice_is_put_once(parts: list[list[Entry]]) -> None:
    """A part that is put again, by another writer, changes nothing, nor does completing again."""
    disk = SimulatedDisk()
    joined = put(disk, parts)
    before = disk.contents()
    again = put(disk, parts)
    assert disk.contents() == before
    assert [one.ranges for one in again.values()] == [one.ranges for one in joined.values()]


def test_what_was_put_is_durable_when_it_is_complete() -> None:
    """Files with all their bytes, and with the names after one more sync."""
    disk = SimulatedDisk()
    log = log_of([(0, offset) for offset in range(23)])
    (queue,) = put(disk, [log]).values()
    assert ranges.complete(disk, FOLDER, UNITS, KEY, queue) == 0
    disk.sync_tree("/store")
    disk.sync_folder("/")
    assert disk.crash(oldest).contents() == recovered(log)[0]


def test_a_file_whose_maker_died_gets_its_length() -> None:
    """Which had made it, and had not given it its length."""
    disk = SimulatedDisk()
    disk.make_folder(f"{FOLDER}/T/0")
    disk.open(f"{FOLDER}/T/0/{0:020d}", write=True, create=True).close()
    log = log_of([(0, 0), (0, 1)])
    (queue,) = put(disk, [log]).values()
    ranges.complete(disk, FOLDER, UNITS, KEY, queue)
    assert disk.contents() == recovered(log)[0]


@pytest.mark.parametrize("byte", [0, 7, 8, 12, 19])
@pytest.mark.parametrize("unit", [0, 9, 10, 22])
def test_a_write_that_is_lost_is_found(unit: int, byte: int) -> None:
    """Whichever byte of a unit is not what its writer wrote."""
    disk = SimulatedDisk()
    (queue,) = put(disk, [log_of([(0, offset) for offset in range(23)])]).values()
    start = unit // UNITS * UNITS * UNIT_BYTES
    file = disk.open(f"{FOLDER}/T/0/{start:020d}", write=True)
    position = unit * UNIT_BYTES - start + byte
    file.write([bytes([file.read(position, 1)[0] ^ 0x10])], position)
    with pytest.raises(DiskFailed, match="are not those that were written"):
        ranges.complete(disk, FOLDER, UNITS, KEY, queue)


@pytest.mark.parametrize("first", [0, 1, 7])
def test_two_units_that_changed_places_are_found(first: int) -> None:
    """Their sum takes the offset into account, wherever they are."""
    disk = SimulatedDisk()
    (queue,) = put(disk, [log_of([(0, offset) for offset in range(10)])]).values()
    file = disk.open(f"{FOLDER}/T/0/{0:020d}", write=True)
    position = first * UNIT_BYTES
    units = file.read(position, 2 * UNIT_BYTES)
    file.write([units[UNIT_BYTES:], units[:UNIT_BYTES]], position)
    with pytest.raises(DiskFailed, match="are not those that were written"):
        ranges.complete(disk, FOLDER, UNITS, KEY, queue)


@pytest.mark.parametrize("offset", [-1, 1 << 59])
def test_an_offset_that_none_can_have_is_refused(offset: int) -> None:
    """Its error names queue and record."""
    with pytest.raises(CorruptRecord, match=f"T/0: the record at 100 cannot .* offset {offset}"):
        put(SimulatedDisk(), [log_of([(0, 0), (0, offset)])])


def test_a_gap_that_no_damage_leaves_is_refused() -> None:
    """It would be filled with gigabytes."""
    disk = SimulatedDisk()
    (queue,) = put(disk, [log_of([(0, 0), (0, 1 << 40)])]).values()
    with pytest.raises(CorruptRecord, match=f"the record at 100 says that it is number {1 << 40}"):
        ranges.complete(disk, FOLDER, UNITS, KEY, queue)
    assert disk.contents().keys() == {
        f"{FOLDER}/T/0/{start:020d}" for start in (0, (1 << 40) // UNITS * UNITS * UNIT_BYTES)
    }


def test_how_far_out_a_gap_is_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only how large it is."""
    monkeypatch.setattr(ranges, "FILLERS_MAX", 20)
    disk = SimulatedDisk()
    log = log_of([(0, offset) for offset in (*range(15), 18)])
    (queue,) = put(disk, [log]).values()
    ranges.complete(disk, FOLDER, UNITS, KEY, queue)
    assert disk.contents() == recovered(log)[0]


@pytest.mark.parametrize("chunk", [2, 1 << 16])
def test_fillers_keep_the_places_behind_the_end(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Into the next file, too, however many are written at once."""
    monkeypatch.setattr(ranges, "CHUNK_UNITS", chunk)
    disk = SimulatedDisk()
    log = log_of([(0, offset) for offset in range(8)])
    (queue,) = put(disk, [log]).values()
    ranges.complete(disk, FOLDER, UNITS, KEY, queue)
    ranges.fill(disk, FOLDER, UNITS, KEY, 8, 13)
    queues = FileQueues(disk, FOLDER, SMALL)
    queues.load(clean=True)
    assert (queues.by_key[KEY].max_offset, queues.by_key[KEY].last_unit()) == (13, (700, 100, 49))


def test_fillers_behind_the_end_are_durable() -> None:
    """On the machine that wrote them: `sync_tree` is called on another one, before or after."""
    disk = SimulatedDisk()
    (queue,) = put(disk, [log_of([(0, offset) for offset in range(8)])]).values()
    ranges.complete(disk, FOLDER, UNITS, KEY, queue)
    disk.sync_tree("/store")
    disk.sync_folder("/")
    ranges.fill(disk, FOLDER, UNITS, KEY, 8, 10)
    assert disk.crash(oldest).contents() == disk.contents()


def test_units_of_entries_are_parted_by_queue() -> None:
    """As those of columns are."""
    log = log_of([(1, 5), (0, 0), (1, 6)])
    found = {
        key: units.queue_offset.tolist() for key, units in UnitBatch.of_entries(log).by_queue()
    }
    assert found == {("T", 1): [5, 6], ("T", 0): [0]}


def test_ranges_cross_to_other_processes() -> None:
    """By what its ranges are."""
    queue = JoinedQueue()
    for first, stop in ((0, 4), (2, 6)):
        queue.add(UnitRange(first, stop, 100 * first, 100 * stop, 7))
    kept = msgspec.json.decode(msgspec.json.encode(queue.ranges), type=list[UnitRange])
    assert JoinedQueue(kept).ranges == queue.ranges
    assert not queue.is_settled
