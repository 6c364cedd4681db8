"""Columns of bytes are looked into and joined as a whole, slices of longer ones, too."""

import pyarrow as pa
import pytest

from sprocket.spark.rocketmq.sink.texts import first_with, joined, of_width, sizes, stored

WHOLE = pa.array([b"\x02 before", b"", None, b"plain", b"a\x02b", b"\x01"], pa.binary())


@pytest.mark.parametrize(
    ("first", "refused", "found"),
    [(0, (2,), 0), (1, (2,), 3), (1, (1, 2), 3), (5, (2,), None), (5, (1, 2), 0), (6, (2,), None)],
)
def test_the_first_value_with_a_byte(first: int, refused: tuple[int, ...], found: int) -> None:
    """Its number counts from the slice's first."""
    assert first_with(WHOLE.slice(first), refused) == found


def test_sizes_and_places_of_a_slice() -> None:
    """Null has none."""
    piece = WHOLE.slice(1, 4)
    assert sizes(piece).tolist() == [0, 0, 5, 3]
    starts, data = stored(piece)
    assert bytes(memoryview(data)[starts[2] : starts[4]]) == b"plaina\x02b"
    empty, none = stored(pa.array([], pa.binary()))
    assert (empty.tolist(), bytes(none)) == ([0], b"")


def test_pieces_are_joined() -> None:
    """Null if one of them is."""
    found = joined(b"<", WHOLE.slice(1, 3), b">").to_pylist()
    assert found == [b"<>", None, b"<plain>"]
    assert of_width(b"aabbcc", 2).to_pylist() == [b"aa", b"bb", b"cc"]
