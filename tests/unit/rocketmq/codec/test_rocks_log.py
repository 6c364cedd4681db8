"""The frames of a manifest: whether the last record is whole."""

import struct

import pytest

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec import rocks_log

HEAD = 7


def fragment(kind: int, size: int) -> bytes:
    """Return one with a body of zeros, which is where a wrong head would be taken for padding."""
    return struct.pack("<IHB", 0x12345678, size, kind) + bytes(size)


SMALL = fragment(1, 30)
FILLED = fragment(1, 32 * KIB - 2 * HEAD - 3)
"""It leaves room for a head, and for three bytes."""
SPLIT = FILLED + fragment(2, 3) + fragment(3, 32 * KIB - HEAD) + fragment(4, 9)
PADDED = fragment(1, 32 * KIB - HEAD - 6) + bytes(6) + SMALL
WHOLE = [SMALL, SMALL + SMALL, SPLIT, SPLIT + SMALL, PADDED]


@pytest.mark.parametrize("data", WHOLE, ids=len)
def test_what_is_whole_passes(data: bytes) -> None:
    """In one block or over several."""
    rocks_log.check_ends(data)


@pytest.mark.parametrize("data", WHOLE, ids=len)
def test_what_is_cut_is_refused(data: bytes) -> None:
    """But where a record ends; zeros that fill a block are not needed."""
    ends = {len(SMALL), len(FILLED), len(PADDED) - len(SMALL), len(SPLIT)}
    places = [*range(len(data) - 60, len(data)), *range(0, len(data), 997), 32 * KIB - HEAD]
    for size in places:
        if not 0 <= size < len(data):
            continue
        if size in ends or 32 * KIB - 6 <= size <= 32 * KIB == len(PADDED) - len(SMALL):
            continue
        with pytest.raises(WireError):
            rocks_log.check_ends(data[:size])


@pytest.mark.parametrize(
    "data",
    [
        fragment(0, 0),
        fragment(5, 3),
        fragment(3, 3),
        fragment(4, 3),
        fragment(2, 3),
        fragment(2, 3) + SMALL,
        fragment(2, 3) + fragment(2, 3),
        SMALL + bytes(HEAD),
        FILLED + fragment(2, 4) + fragment(4, 1),
        b"",
    ],
)
def test_wrong_heads_are_refused(data: bytes) -> None:
    """Of another kind, out of order, or with a size that leaves the block."""
    with pytest.raises(WireError):
        rocks_log.check_ends(data)
