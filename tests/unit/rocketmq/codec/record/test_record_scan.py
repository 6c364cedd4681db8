"""The scan of records: it gives every whole one and says exactly why it stopped."""

from itertools import pairwise
from random import Random

import pytest
from tests.unit.rocketmq.codec.given import new_record, stored

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import ScanStop, record, record_scan
from sprocket.rocketmq.codec.record_layout import HOSTS_V6, MAGIC_V1


class Log:
    """A log in memory, for the scan."""

    def __init__(self, base: int = 4096) -> None:
        self.base = base
        self.data = bytearray()

    def add(self, *, crc_tail: bool = True, **changes: object) -> int:
        """Add a record; return its position."""
        position = len(self.data)
        new = new_record(**changes)
        self.data += stored(new, at=self.base + position, crc_tail=crc_tail)
        return position

    def scan(self, **options: bool) -> tuple[list[int], record_scan.Scan]:
        """Scan all of it."""
        view = memoryview(bytes(self.data))
        scan = record_scan.Scan(view, self.base, 0, len(view), **options)
        return [position for position, _ in scan], scan


def test_scan_gives_every_record_and_says_why_it_stopped() -> None:
    """End of range, blank, zeros, and each kind of damage."""
    log = Log()
    places = [log.add(), log.add(topic="T" * 200), log.add(body=b"")]
    end = len(log.data)
    found, scan = log.scan()
    assert (found, scan.stop, scan.position) == (places, ScanStop.END, end)
    log.data += bytes(100)
    found, scan = log.scan()
    assert (found, scan.stop, scan.position) == (places, ScanStop.ZEROS, end)
    log.data[end : end + 8] = record.blank(100)
    found, scan = log.scan()
    assert (found, scan.stop) == (places, ScanStop.BLANK)
    assert (scan.position, scan.blank_size) == (end, 100)
    log.data[end : end + 8] = record.blank(99)
    assert log.scan()[1].stop is ScanStop.BAD_SIZE


@pytest.mark.parametrize(
    ("at", "value", "stop"),
    [
        (record_layout.SIZE_AT, b"\x7f\0\0\0", ScanStop.TORN),
        (record_layout.SIZE_AT, b"\0\0\0\x10", ScanStop.BAD_SIZE),
        (record_layout.SIZE_AT, b"\xff\0\0\0", ScanStop.BAD_SIZE),
        (record_layout.MAGIC_AT, b"\0\0\0\1", ScanStop.BAD_MAGIC),
        (record_layout.PHYSICAL_OFFSET_AT + 4, b"\0\0\0\1", ScanStop.BAD_OFFSET),
        (record_layout.FIXED_BYTES - 4, b"\0\0\1\0", ScanStop.BAD_SIZE),
        (record_layout.FIXED_BYTES - 4, b"\xff\0\0\0", ScanStop.BAD_SIZE),
        (record_layout.FIXED_BYTES, b"jello"[:4], ScanStop.BAD_CRC),
        (record_layout.BODY_CRC_AT, b"\0\0\0\0", ScanStop.BAD_CRC),
        (record_layout.FLAG_AT, b"\0\0\0\1", ScanStop.BAD_CRC),
    ],
)
def test_scan_stops_at_damage(at: int, value: bytes, stop: ScanStop) -> None:
    """The record before is given, the damaged one and what follows are not."""
    log = Log()
    log.add()
    damaged = log.add()
    log.add()
    log.data[damaged + at : damaged + at + len(value)] = value
    found, scan = log.scan(check_tail=True)
    assert (found, scan.stop, scan.position) == ([0], stop, damaged)
    assert str(log.base + damaged) in scan.why


def test_scan_without_checksums_passes_a_changed_body() -> None:
    """Lengths and places are looked at in any case, checksums only if asked for."""
    log = Log()
    log.add()
    log.data[record_layout.FIXED_BYTES] ^= 1
    assert log.scan()[1].stop is ScanStop.BAD_CRC
    assert log.scan(check_crc=False)[1].stop is ScanStop.END
    assert log.scan(check_crc=False, check_tail=True)[1].stop is ScanStop.BAD_CRC


def test_scan_of_a_torn_end() -> None:
    """Every cut of the last record ends the scan before it."""
    log = Log()
    last = [log.add(), log.add()][1]
    whole = bytes(log.data)
    for cut in range(last, len(whole)):
        log.data = bytearray(whole[:cut])
        found, scan = log.scan()
        assert (found, scan.position) == ([0], last)
        # The first bytes of a size are zeros, which do not tell that something was written.
        assert scan.stop is (ScanStop.END if cut <= last + 3 else ScanStop.TORN)


def test_places_follow_sizes_and_nothing_else() -> None:
    """Up to the end, to a count, to what is not a record, or to one that goes on beyond the end."""
    log = Log()
    starts = [
        log.add(body=b"b" * number, topic="t" * (1 + 126 * (number % 2))) for number in range(5)
    ]
    end = len(log.data)
    data = memoryview(log.data)
    assert record_scan.positions(data, 0, end, 9) == (starts, end)
    assert record_scan.positions(data, starts[2], end, 9) == (starts[2:], end)
    assert record_scan.positions(data, 0, end, 3) == (starts[:3], starts[3])
    assert record_scan.positions(data, 0, end, 0) == ([], 0)
    assert record_scan.positions(data, 0, end - 1, 9) == (starts[:4], starts[4])
    assert record_scan.positions(data, 0, starts[4] + 4, 9) == (starts[:4], starts[4])
    assert record_scan.positions(data, end, end, 9) == ([], end)
    for at, wrong in ((0, b"\0\0\0\1"), (0, b"\xff"), (4, b"\0")):
        broken = bytearray(log.data)
        broken[starts[1] + at : starts[1] + at + len(wrong)] = wrong
        assert record_scan.positions(broken, 0, end, 9) == (starts[:1], starts[1])


def _plain_by_parts(data: bytes, end: int, base: int) -> tuple[list[int], int]:
    """Return what `plain_positions` does, by the general ways."""
    starts, behind = record_scan.positions(data, 0, end, len(data))
    for number, (at, after) in enumerate(pairwise([*starts, behind])):
        try:
            fields, *_ = record_layout.parts(data[:after], at)
        except WireError:
            return starts[:number], at
        is_plain = fields[1] == MAGIC_V1 and not fields[7] & HOSTS_V6
        if not is_plain or fields[6] != base + at:
            return starts[:number], at
    return starts, behind


@pytest.mark.parametrize("seed", range(20))
def test_plain_records_are_found_as_by_their_parts(seed: int) -> None:
    """With bytes changed at random, the first one that is odd ends it."""
    random = Random(seed)
    log = Log()
    for number in range(6):
        host = bytes(20 if number > 3 and random.random() < 0.2 else 8)
        topic = "t" * random.choice((1, 127))
        log.add(body=bytes(random.randrange(40)), topic=topic, born_host=host)
    whole = bytes(log.data)
    ends = set()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(random.randrange(3)):
            data[random.randrange(len(data))] = random.choice((0, 1, 2, 16, 127, 128, 255))
        end = random.choice((len(data), random.randrange(len(data))))
        found = record_scan.plain_positions(data, 0, end, log.base, 99)
        assert found == _plain_by_parts(bytes(data), end, log.base)
        few = min(len(found[0]), 2)
        assert record_scan.plain_positions(data, 0, end, log.base, few)[0] == found[0][:few]
        ends.add(found[1])
    assert len(ends) >= 4


def test_a_topic_that_is_too_long_for_its_version_is_odd() -> None:
    """Though its parts add up."""
    log = Log()
    log.add(topic="t" * 127, body=b"", properties=bytes(100), crc_tail=False)
    length_at = record_layout.FIXED_BYTES + 1 + 127
    log.data[record_layout.FIXED_BYTES] = 128
    end = len(log.data)
    log.data[length_at + 1 : length_at + 3] = (end - length_at - 3).to_bytes(2, "big")
    assert record_scan.plain_positions(log.data, 0, end, log.base, 9) == ([], 0)
    with pytest.raises(WireError, match="topic that does not fit"):
        record_layout.parts(log.data, 0)
