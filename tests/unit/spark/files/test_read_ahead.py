"""A file read by few requests: the same bytes, none asked for twice, none behind the end."""

from hypothesis import given
from hypothesis import strategies as st

from sprocket.spark.files import ReadAhead

CONTENT = bytes(range(256)) * 4


class Noted:
    """A file in memory, and what was asked of it."""

    path = "noted"

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.is_open = True

    def size(self) -> int:
        """Return its length."""
        return len(CONTENT)

    def read(self, position: int, size: int) -> bytes:
        """Note the question."""
        self.asked.append((position, size))
        return CONTENT[position : position + size]

    def read_view(self, position: int, size: int) -> memoryview:
        """See `read`."""
        return memoryview(self.read(position, size))

    def close(self) -> None:
        """Note it."""
        self.is_open = False


@given(
    st.lists(st.tuples(st.integers(0, 1100), st.integers(0, 300))),
    st.integers(0, 1100),
    st.integers(1, 2000),
)
def test_the_same_bytes(reads: list[tuple[int, int]], end: int, ahead_bytes: int) -> None:
    """Whatever is read in whatever order, also behind the end that was told."""
    file = ReadAhead(Noted(), end, ahead_bytes)
    for position, size in reads:
        assert bytes(file.read_view(position, size)) == CONTENT[position : position + size]


def test_what_is_read_on_is_asked_for_once() -> None:
    """In large pieces, the last one up to the end."""
    noted = Noted()
    file = ReadAhead(noted, 1000, 300)
    for position in range(100, 1000, 60):
        assert file.read(position, 60) == CONTENT[position : position + 60]
    assert noted.asked == [(100, 300), (400, 300), (700, 300)]
    file.close()
    assert (file.path, file.size(), noted.is_open) == ("noted", len(CONTENT), False)


def test_more_than_a_piece_is_one_request() -> None:
    """As a record that is longer."""
    noted = Noted()
    assert ReadAhead(noted, 1000, 10).read(5, 700) == CONTENT[5:705]
    assert noted.asked == [(5, 700)]


def test_what_is_there_in_part_is_not_asked_for_again() -> None:
    """The rest alone is."""
    noted = Noted()
    file = ReadAhead(noted, 1000, 300)
    assert file.read(0, 200) == CONTENT[:200]
    assert file.read(180, 200) == CONTENT[180:380]
    assert noted.asked == [(0, 300), (300, 300)]
