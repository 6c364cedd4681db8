"""The scan of records: it gives every whole one and says exactly why it stopped."""

import pytest
from tests.unit.rocketmq.codec.given import new_record, stored

from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import ScanStop, record, record_scan


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
