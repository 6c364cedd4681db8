"""Properties decoded many at a time are those of the plain decoder."""

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import property_strings

from sprocket.rocketmq.codec.record import properties as plain
from sprocket.spark.arrow import text
from sprocket.spark.rocketmq.rows.properties import Properties


@given(
    st.lists(property_strings() | st.binary(max_size=12), max_size=6)
    | st.builds(lambda one, count: [one] * count, property_strings(), st.integers(2, 9))
)
@example([b"k\1a\2k\1b\2", b"", b"k\1c"])
@example([b"k\1a\1b\2x\1y\2", b"\2\2\1\1\2a\1\2"])
@example([b"a\1b", b"\2", b"c\1d"])
@example([b"CONSUMER_A\1x\2CONSUMER_B\1y\2"] * 3)
@example([b"CONSUMER_A\1x\2CONSUMER_A\1y\2"] * 3)
@example([b"a\1b\2"] * 2 + [b"a\1b\2a\1c\2"] + [b"", b"a\1b\2"])
@example([b"TAGS\1b\2TAGS\0\1c\2"] * 2)
@example([b"abc\1d\2", b"abd\1d\2"])
@example([b"abc\1d\2", b"abc\0\1d\2"])
@example([b"k\1a\2TAGS\1bc\2", b"k\1d\2TAGS\1ef\2", b"k\1\1\2TAGS\1\xffg\2"])
@example([b"k\1abcd\2", b"k\1a\2x\1\2", b"k\1\1bc\2\2"])
@example([b"k\1a\2TAGS\1b\2k\1cd\2", b"k\1d\2TAGS\1b\2k\1ef\2"])
@example([b"a\1bc\2k\1d", b"a\1ef\2k\1g"])
@example([b"a\1bc\2\1d\2x\1\2", b"a\1ef\2\1g\2x\1\2"])
@settings(max_examples=150)
def test_equal_the_plain_decoder(stored: list[bytes]) -> None:
    """Last duplicates win, empty names and values go, a value may hold 0x01, U+FFFD for rubbish."""
    made = Properties(pa.array(stored, pa.binary()))
    wanted = [plain.decode(one) for one in stored]
    assert wanted == [dict(pairs) for pairs in made.map().to_pylist()]
    assert [len(pairs) for pairs in wanted] == [len(pairs) for pairs in made.map().to_pylist()]
    for name in ("TAGS", "a", "k", "missing", "CONSUMER_B"):
        assert [pairs.get(name) for pairs in wanted] == made.value(name).to_pylist()


def test_repeats_are_found_among_many_pairs() -> None:
    """Records with more pairs than are compared with one another lose their repeats, too."""
    many = b"".join(b"n%d\1v\2" % number for number in range(20))
    stored = [many, many + b"n14\1w\2", b"", b"n0\1x\2"]
    made = Properties(pa.array(stored, pa.binary()))
    found = made.map().to_pylist()
    assert [len(pairs) for pairs in found] == [20, 20, 0, 1]
    assert found[1][-1] == ("n14", "w")
    assert made.value("n14").to_pylist() == ["v", "w", None, None]


def test_text_replaces_what_is_not_utf8() -> None:
    """Valid text is kept as it is, other bytes become U+FFFD."""
    stored = [b"", b"a", b"\xc3\xa4", b"", b"\xff", b"b\xff\xff", b"c", b""]
    assert text(pa.array(stored)).to_pylist() == ["", "a", "ä", "", "�", "b��", "c", ""]
