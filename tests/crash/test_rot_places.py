"""One bit is wrong of what a record says of its own place, late in the log of a killed store.

Everything else of it is whole, so it is kept and told, and nothing else is missing.
"""

from itertools import product

import pytest
from tests.stores import filled, maintain, new, open_store

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.codec.record_layout import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from sprocket.rocketmq.store.store import Store
from sprocket.testing.disk import SimulatedDisk

LAST = 10
DAY_STEP = 23
SEGMENT = 4096


def killed(*, crc_tail: bool, is_kept: bool) -> tuple[SimulatedDisk, list[tuple[int, bytes]]]:
    """A store that died, with all its records; the last ones are younger than its checkpoint."""
    disk, store = filled(24, crc_tail=crc_tail)
    if is_kept:
        maintain(store)
    for number in range(LAST):
        store.append(new("topic", number % 2, b"late %d" % number * 8, name=f"L{number}"))
        store.write()
    store.sync()
    store.dispatch()
    store.dispatch_index()
    return disk, [(int(place), bytes(data)) for place, data in store.records()]


def messages(store: Store) -> dict[tuple[int, int], tuple[int, bytes]]:
    """What consumers get: by queue and offset what the record says that is, and its body."""
    found = {}
    for topic, queue_id, (at, end) in store.queues():
        while at < end:
            got = store.get_messages(topic, queue_id, at, max_count=32)
            for data in got.records:
                one = record.decode(data)
                found[queue_id, one.queue_offset] = one.physical_offset, one.stored_body
            assert got.next_offset > at
            at = got.next_offset
    return found


def flip(disk: SimulatedDisk, place: int, at: int, bit: int) -> None:
    """Change one bit of a record's field of eight bytes."""
    file = disk.open(f"/store/commitlog/{place - place % SEGMENT:020d}", write=True)
    position = place % SEGMENT + at + 7 - bit // 8
    file.write([bytes([file.read(position, 1)[0] ^ 1 << bit % 8])], position)


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly]), DAY_STEP]
)
@pytest.mark.parametrize("crc_tail", [True, False])
def test_a_record_that_names_a_wrong_place_is_kept_and_told(step: int, crc_tail: bool) -> None:
    """Of its log or of its queue, with a checksum over these or without; and once is enough."""
    for is_kept in (False, True):
        disk, records = killed(crc_tail=crc_tail, is_kept=is_kept)
        right = messages(open_store(disk.kill(), crc_tail=crc_tail))
        assert len(right) == len(records) == 24 + LAST
        every = list(product(records[-LAST:], (QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT), range(64)))
        for (place, data), at, bit in every[::step]:
            case = f"bit {bit} of byte {at} at {place}"
            wrong = disk.kill()
            flip(wrong, place, at, bit)
            store = open_store(wrong, crc_tail=crc_tail)
            assert messages(store) == right, case
            assert [one.place for one in store.report.misplaced] == [place], case
            again = open_store(wrong.kill(), crc_tail=crc_tail)
            assert bytes(again.record_at(place)) == data, case
            assert not again.report.misplaced, case
