"""Properties decoded many at a time are those of the plain decoder."""

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import property_strings

from sprocket.rocketmq.codec.record import properties as plain
from sprocket.spark.rocketmq.rows.properties import Properties, text


@given(st.lists(property_strings() | st.binary(max_size=12), max_size=6))
@example([b"k\1a\2k\1b\2", b"", b"k\1c"])
@example([b"k\1a\1b\2x\1y\2", b"\2\2\1\1\2a\1\2"])
@example([b"a\1b", b"\2", b"c\1d"])
@settings(max_examples=150, deadline=None)
def test_equal_the_plain_decoder(stored: list[bytes]) -> None:
    """Last duplicates win, empty names and values go, a value may hold 0x01, U+FFFD for rubbish."""
    made = Properties(pa.array(stored, pa.binary()))
    wanted = [plain.decode(one) for one in stored]
    assert wanted == [dict(pairs) for pairs in made.map().to_pylist()]
    assert [len(pairs) for pairs in wanted] == [len(pairs) for pairs in made.map().to_pylist()]
    for name in ("TAGS", "a", "k", "missing"):
        assert [pairs.get(name) for pairs in wanted] == made.value(name).to_pylist()


def test_many_distinct_names_do_not_need_a_table() -> None:
    """Repeats are found as well where a table of records and names would be too large."""
    count = 3000
    stored = [b"".join(b"n%d\1v\2" % (number * 2 + k) for k in (0, 1)) for number in range(count)]
    stored[7] += b"n14\1w\2"
    made = Properties(pa.array(stored, pa.binary()))
    assert made.map().to_pylist()[7] == [("n15", "v"), ("n14", "w")]
    assert len(made.names) == 2 * count


def test_text_replaces_what_is_not_utf8() -> None:
    """Valid text is kept as it is, other bytes become U+FFFD."""
    assert text(pa.array([b"\xc3\xa4", b"\xff"])).to_pylist() == ["ä", "�"]
