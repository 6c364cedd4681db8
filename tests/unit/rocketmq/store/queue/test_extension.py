"""Extended units: their bytes, the ends of files, loss, and the queue that they belong to."""

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.rocketmq.store.queue.given import FOLDER, SMALL, oldest

from sprocket.base.disk import read_file, steps
from sprocket.base.errors import DiskFull
from sprocket.rocketmq.codec.record import Entry, Extra
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import ExtendedUnit, FileQueues, OtherKinds, is_address
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.testing.disk import SimulatedDisk

EXTENSION = "/store/consumequeue_ext"
FIRST = -(1 << 63)
OTHERS = OtherKinds(EXTENSION, "/store/batchconsumequeue", extend=True)


def entry(offset: int, *, bits: bytes = b"", topic: str = "T") -> Entry:
    """Return the entry of a record of 100 bytes, stored at 1000 ms and its offset."""
    extra = Extra(bit_map=bits) if bits else None
    return Entry(topic, 0, offset, 100 * offset, 100, 7 * offset, 1000 + offset, extra=extra)


def opened(disk: SimulatedDisk, *, clean: bool = True, **changes: Any) -> FileQueues:
    """Return the queues that are on a disk; new units are extended."""
    others = OtherKinds(EXTENSION, OTHERS.batch_folder, **{"extend": True, **changes})
    queues = FileQueues(disk, FOLDER, SMALL, others=others)
    queues.load(clean=clean)
    return queues


def only(queues: FileQueues) -> FileQueue:
    """Return the queue T/0."""
    queue = queues.by_key.get(("T", 0))
    assert isinstance(queue, FileQueue)
    return queue


def units(queues: FileQueues) -> list[ExtendedUnit | None]:
    """Return the extended unit of each message of T/0."""
    queue = only(queues)
    return [queue.extended(queue.unit(n)[2]) for n in range(queue.min_offset, queue.max_offset)]


def expected(offset: int, bits: bytes = b"") -> ExtendedUnit:
    """Return what the extended unit of `entry` holds."""
    return ExtendedUnit(7 * offset, 1000 + offset, bits)


@pytest.fixture
def disk() -> SimulatedDisk:
    """Give an empty disk."""
    found = SimulatedDisk()
    found.make_folder("/store")
    return found


def test_addresses_are_below_every_hash() -> None:
    """The lowest hash of a tag is −2³¹."""
    assert is_address(-(1 << 31) - 1)
    assert not is_address(-(1 << 31))
    assert not is_address(1 << 40)


def test_units_have_rocketmqs_bytes(disk: SimulatedDisk) -> None:
    """Size, code, store time, length of the bit map, bit map; the queue holds the address."""
    queues = opened(disk)
    queues.put_round([entry(0), entry(1, bits=b"\1\2\3")])
    assert [only(queues).unit(n)[2] for n in (0, 1)] == [FIRST, FIRST + 20]
    data = read_file(disk, f"{EXTENSION}/T/0/{0:020d}")
    assert len(data) == SMALL.extension_bytes
    assert data[:43].hex() == (
        "0014" + "0000000000000000" + "00000000000003e8" + "0000"
        "0017" + "0000000000000007" + "00000000000003e9" + "0003" + "010203"
    )
    assert data[43:] == bytes(len(data) - 43)
    assert units(queues) == [expected(0), expected(1, b"\1\2\3")]


def test_a_unit_that_does_not_fit_begins_the_next_file(disk: SimulatedDisk) -> None:
    """Four bytes are never used, and −1 says that the file ends."""
    queues = opened(disk)
    per_file = (SMALL.extension_bytes - 4) // 34
    entries = [entry(n, bits=bytes(14)) for n in range(2 * per_file + 1)]
    queues.put_round(entries)
    files = [read_file(disk, f"{EXTENSION}/T/0/{n * 256:020d}") for n in range(3)]
    assert [data[per_file * 34 :][:2] for data in files] == [b"\xff\xff", b"\xff\xff", b"\0\0"]
    assert only(queues).unit(per_file)[2] == FIRST + SMALL.extension_bytes
    assert units(opened(disk)) == [expected(n, bytes(14)) for n in range(len(entries))]


def test_what_no_address_leads_to_is_nothing(disk: SimulatedDisk) -> None:
    """A hash, a place behind the end or before the first file, a size that is none."""
    queues = opened(disk)
    queues.put_round([entry(0), entry(1)])
    queue = only(queues)
    for code in (0, 42, FIRST + 40, FIRST + 4096, FIRST + 1, FIRST + 39):
        assert queue.extended(code) is None


def test_a_long_bit_map_is_read_whole(disk: SimulatedDisk) -> None:
    """Longer than what one read brings."""
    queues = opened(disk)
    queues.put_round([entry(0, bits=bytes(range(100)))])
    assert units(queues) == [expected(0, bytes(range(100)))]


def test_light_queues_are_not_extended(disk: SimulatedDisk) -> None:
    """They hold plain codes, as RocketMQ writes them."""
    queues = opened(disk)
    queues.put_round([entry(1, topic="%LMQ%a")])
    queue = queues.by_key.get(("%LMQ%a", 0))
    assert queue is not None
    assert queue.unit(1)[2] == 7
    assert not disk.exists(f"{EXTENSION}/%LMQ%a")


def test_a_store_with_extended_units_goes_on_with_them(disk: SimulatedDisk) -> None:
    """Whatever the setting says; a queue that had plain units keeps those."""
    plain = opened(disk, extend=False)
    plain.put_round([entry(0)])
    assert not disk.exists(EXTENSION)
    opened(disk).put_round([entry(1)])
    again = opened(disk, extend=False)
    again.put_round([entry(2)])
    assert [only(again).unit(n)[2] for n in range(3)] == [0, FIRST, FIRST + 20]
    assert units(again) == [None, expected(1), expected(2)]


def test_putting_again_changes_nothing(disk: SimulatedDisk) -> None:
    """No second extended unit for what is there already."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(5)])
    queues.put_round([entry(n) for n in range(3, 6)])
    assert only(queues).unit(5)[2] == FIRST + 100


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 15, 20])
def test_a_cut_takes_the_units_of_what_is_cut(disk: SimulatedDisk, keep: int) -> None:
    """Put again they lie where they lay, byte for byte."""
    queues = opened(disk)
    entries = [entry(n, bits=bytes([n]) * 14) for n in range(20)]
    queues.put_round(entries)
    before = _files(disk)
    queues.truncate(PhysicalOffset(100 * keep))
    assert units(queues) == [expected(n, bytes([n]) * 14) for n in range(keep)]
    assert _used(disk) == keep
    queues.put_round(entries[keep:])
    assert _files(disk) == before


def _files(disk: SimulatedDisk) -> dict[str, bytes]:
    folder = f"{EXTENSION}/T/0"
    return {name: read_file(disk, f"{folder}/{name}") for name in disk.list(folder)}


def _used(disk: SimulatedDisk) -> int:
    """Return how many units there are in the files."""
    return sum(data.count(b"\0\x22\0\0\0\0\0\0\0") for data in _files(disk).values())


def test_units_that_a_kill_left_over_are_wiped(disk: SimulatedDisk) -> None:
    """Those that no queue unit points at yet; the next ones take their place."""
    queues = opened(disk)
    queues.put_round([entry(n, bits=bytes(14)) for n in range(3)])
    disk.fail("write", 2, errno.ENOSPC)
    with pytest.raises(DiskFull):
        queues.put_round([entry(n, bits=bytes(14)) for n in range(3, 6)])
    after = opened(disk, clean=False)
    assert _used(disk) == 6
    after.wipe_behind_ends()
    kept = only(after).max_offset
    assert _used(disk) == kept < 6
    after.put_round([entry(kept)])
    assert units(after)[-1] == expected(kept)


def test_a_failed_round_may_be_put_again(disk: SimulatedDisk) -> None:
    """Whichever write failed, the files are as if none had."""
    entries = [entry(n, bits=bytes([n]) * 14) for n in range(20)]
    reference = SimulatedDisk()
    opened(reference).put_round(entries)
    for nth in range(1, 6):
        failing = SimulatedDisk()
        queues = opened(failing)
        queues.put_round(entries[:2])
        failing.fail("write", nth, errno.ENOSPC)
        with pytest.raises(DiskFull):
            queues.put_round(entries[2:])
        queues.put_round(entries[2:])
        assert _files(failing) == _files(reference)


def test_lost_units_are_not_taken_for_others(disk: SimulatedDisk) -> None:
    """Without the files old addresses lead nowhere, and new units lie where none leads."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(3)])
    disk.remove_tree(f"{EXTENSION}/T")
    after = opened(disk)
    after.put_round([entry(n) for n in range(3, 5)])
    assert units(after) == [None, None, None, expected(3), expected(4)]
    assert units(opened(disk)) == units(after)
    disk.open(f"{EXTENSION}/T/0/{256:020d}", write=True).write([bytes(256)], 0)
    damaged = opened(disk)
    damaged.put_round([entry(5)])
    assert units(damaged) == [None] * 5 + [expected(5)]


def test_extended_units_are_durable_before_the_units_that_name_them(disk: SimulatedDisk) -> None:
    """After a flush both are, the extension having been synced first."""
    queues = opened(disk)
    queues.put_round([entry(n) for n in range(5)])
    (extension, own) = only(queues).all_files
    taken = extension.take_unsynced()
    assert own is only(queues).files
    assert taken.segments
    assert all(EXTENSION in segment.path for segment in taken.segments)
    extension.give_back(taken)
    queues.flush()
    assert units(opened(disk.crash(oldest))) == [expected(n) for n in range(5)]


def test_what_was_found_after_a_kill_is_synced(disk: SimulatedDisk) -> None:
    """It may have been in the page cache only."""
    opened(disk).put_round([entry(n) for n in range(5)])
    opened(disk, clean=False).flush()
    assert units(opened(disk.crash(oldest))) == [expected(n) for n in range(5)]


def test_old_extended_units_go_with_their_messages(disk: SimulatedDisk) -> None:
    """Files before the first message that is left, the newest stays."""
    queues = opened(disk)
    queues.put_round([entry(n, bits=bytes(14)) for n in range(20)])
    steps.run(queues.clean_steps(PhysicalOffset(1000)))
    assert disk.list(f"{EXTENSION}/T/0") == [f"{256:020d}", f"{512:020d}"]
    assert units(queues) == [expected(n, bytes(14)) for n in range(10, 20)]
    assert units(opened(disk))[-10:] == units(queues)
    steps.run(queues.clean_steps(PhysicalOffset(5000)))
    queues.put_round([entry(20)])
    assert units(opened(disk))[-1] == expected(20)


def test_a_removed_queue_takes_its_extension_along(disk: SimulatedDisk) -> None:
    """It is made anew with the queue."""
    queues = opened(disk)
    queues.put_round([entry(0)])
    queues.remove("T", 0)
    assert not disk.exists(f"{EXTENSION}/T/0")
    queues.put_round([entry(0)])
    assert disk.exists(f"{EXTENSION}/T/0")


@pytest.mark.slow
@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=40),
    st.integers(0, 40),
    st.integers(1, 10),
)
def test_any_bit_maps_come_back(bit_maps: list[bytes], cut: int, size: int) -> None:
    """In rounds of any size, cut anywhere and put again."""
    disk = SimulatedDisk()
    disk.make_folder("/store")
    queues = opened(disk)
    entries = [entry(n, bits=bits) for n, bits in enumerate(bit_maps)]
    for first in range(0, len(entries), size):
        queues.put_round(entries[first : first + size])
    queues = opened(disk, clean=False)
    queues.truncate(PhysicalOffset(100 * cut))
    queues.put_round(entries)
    found = only(opened(disk))
    wanted = [expected(n, bits) for n, bits in enumerate(bit_maps)]
    codes = [found.unit(n)[2] for n in range(len(bit_maps))]
    assert [found.extended(code) for code in codes] == wanted
    for map_bytes in {len(bit_map) for bit_map in bit_maps} - {0}:
        bits = OwnedBits((0, map_bytes * 8 - 1), map_bytes, since_ms=1000)
        rejected = {
            code
            for code, unit in zip(codes, wanted, strict=True)
            if unit.stored_at_ms > 1000
            and len(unit.bit_map) == map_bytes
            and not (unit.bit_map[0] & 1 and unit.bit_map[-1] & 128)
        }
        assert found.rejected(codes, bits) == rejected
        assert found.rejected([*codes[::-1], 7, 1 - (1 << 63)], bits) == rejected
