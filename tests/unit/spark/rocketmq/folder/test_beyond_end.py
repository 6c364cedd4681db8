"""What lies behind the end of a log: its own records behind damage, or remains."""

from pathlib import Path

import pytest
from tests.unit.spark.samples import STORED_AT_MS, encoded

from sprocket.base.disk import RealDisk
from sprocket.spark.rocketmq.folder import records_behind

BYTES = 120
BASE = 3 * BYTES
HOLE = bytes([0x55]) * BYTES


def one(number: int, place: int, offset: int | None = None) -> bytes:
    """Return the record of a number, which says when it was stored, at a place in records."""
    stored = bytearray(encoded(1, base=BASE + place * BYTES, first=number))
    if offset is not None:
        stored[20:28] = offset.to_bytes(8, "big")
    return bytes(stored)


def end_of(folder: Path, data: bytes, taken: int = 2, last: int = 1) -> int:
    """Return how many records' room a log has, which seems to end behind two."""
    path = folder / f"{BASE:020d}"
    path.write_bytes(data.ljust(100 * BYTES, b"\0"))
    found = records_behind(
        RealDisk(),
        str(path),
        BASE,
        BASE + 2 * BYTES,
        STORED_AT_MS + last,
        lambda found: found.offset < taken,
    )
    end = found[-1].end if found else BASE + 2 * BYTES
    assert (end - BASE) % BYTES == 0
    return (end - BASE) // BYTES


@pytest.mark.parametrize(
    ("behind", "end"),
    [
        (b"", 2),
        (HOLE, 2),
        (HOLE + one(3, 3), 4),
        (HOLE + one(3, 3) + one(4, 4), 5),
        (HOLE + one(3, 3) + HOLE + HOLE + one(6, 6), 7),
        # Remains: older than the last record, or with an offset that is taken.
        (HOLE + one(0, 3, offset=9), 2),
        (HOLE + one(3, 3, offset=1), 2),
        (HOLE + one(3, 3, offset=1) + one(4, 4), 5),
        # Directly behind a record it takes both signs.
        (HOLE + one(3, 3) + one(0, 4, offset=4), 5),
        (HOLE + one(3, 3) + one(0, 4), 4),
        # Not intact, or of another place.
        (HOLE + one(3, 3)[:-30] + HOLE, 2),
        (HOLE + one(3, 4), 2),
        (HOLE + one(3, 3).replace(b"body", b"beef"), 2),
    ],
)
def test_the_end_is_that_of_the_last_own_record(tmp_path: Path, behind: bytes, end: int) -> None:
    """However much damage and remains lie before it, and behind."""
    assert end_of(tmp_path, one(0, 0) + one(1, 1) + behind) == end
