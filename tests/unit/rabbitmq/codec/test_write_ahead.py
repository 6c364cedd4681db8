"""Entries of the write-ahead log: what a name says comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import write_ahead
from sprocket.rabbitmq.codec.write_ahead import ENTRY_HEAD, NamedOrigin


@given(
    st.text("0123456789ABCXYZ", min_size=1, max_size=25),
    st.integers(0, 2**64 - 1),
    st.one_of(st.just(b""), st.just(b"VHOST: a\nb\nQUEUE: c\0\3\n"), st.binary(max_size=40)),
)
def test_a_name_comes_back(folder: str, journal_bytes: int, queue_name: bytes) -> None:
    """With line feeds in the queue's, and without one, as logs of before have it."""
    named = NamedOrigin(folder, journal_bytes, queue_name)
    entry = write_ahead.name(7, named)
    assert write_ahead.decode_name(entry[ENTRY_HEAD.size :]) == named


@pytest.mark.parametrize("content", [b"", bytes(8), bytes(8) + b"\xff"])
def test_what_is_no_name_is_one_error(content: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(CorruptRecord, match="write-ahead log: a name"):
        write_ahead.decode_name(content)
