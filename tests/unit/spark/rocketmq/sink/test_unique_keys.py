"""Unique keys: the same for what is written again, and no other row's."""

import re

import pyarrow as pa
import pytest

from sprocket.spark.rocketmq.sink.unique_keys import Writing, numbered, of_values

WRITING = Writing("query", "7", 3)
BODIES = pa.array([b"a", b"b", b"c"], pa.binary())
TEXTS = pa.array([b"TAGS\x01A\x02", b"", b""], pa.binary())


def keys(writing: Writing = WRITING, first: int = 0, bodies: pa.Array = BODIES) -> list[bytes]:
    """Return the keys of three rows."""
    made: list[bytes] = numbered(writing, first, bodies, TEXTS).to_pylist()
    return made


def test_the_form_is_that_of_the_clients() -> None:
    """32 digits of upper-case hex, all different."""
    made = keys()
    assert len(set(made)) == 3
    assert all(re.fullmatch(rb"[0-9A-F]{32}", key) for key in made)


def test_the_same_rows_have_the_same_keys() -> None:
    """However Spark cuts them into batches."""
    assert keys() == keys()
    later = numbered(WRITING, 1, BODIES.slice(1), TEXTS.slice(1)).to_pylist()
    assert later == keys()[1:]


@pytest.mark.parametrize(
    "other", [Writing("other", "7", 3), Writing("query", "8", 3), Writing("query", "7", 4)]
)
def test_another_write_batch_or_partition_has_others(other: Writing) -> None:
    """No key of one is a key of the other."""
    assert not set(keys(other)) & set(keys())


def test_rows_in_another_order_never_get_the_key_of_another_row() -> None:
    """Else whoever drops doubles would drop a row that is there once."""
    turned = keys(bodies=pa.array([b"b", b"a", b"c"], pa.binary()))
    assert turned[2] == keys()[2]
    assert not set(turned[:2]) & set(keys()[:2])
    texts = pa.array([b"TAGS\x01B\x02", b"", b""], pa.binary())
    assert numbered(WRITING, 0, BODIES, texts)[0].as_py() != keys()[0]


def test_more_rows_than_a_number_has_bits() -> None:
    """Row 2**32 has another key than row 0, also where one batch has both."""
    far = keys(first=2**32 - 1, bodies=pa.array([b"a", b"a", b"a"], pa.binary()))
    near = keys(first=0, bodies=pa.array([b"a", b"a", b"a"], pa.binary()))
    assert len({*far, *near}) == 6


def test_keys_of_values() -> None:
    """One value has one key, of one name."""
    values = pa.array([b"1", b"2", b"1"], pa.binary())
    made = of_values("app", values).to_pylist()
    assert made[0] == made[2] != made[1]
    assert of_values("", values)[0].as_py() != made[0]
    assert re.fullmatch(rb"[0-9A-F]{32}", made[0])
    assert len(set(of_values("n" * 100, values).to_pylist())) == 2
