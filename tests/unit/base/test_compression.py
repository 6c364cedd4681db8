"""Packed bodies: they come back, and damage or size cannot do harm."""

import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.base.errors import MethodMissing, WireError


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("data", [b"", b"a", b"hello " * 1000, bytes(range(256)) * 50])
def test_what_was_packed_comes_back(method: Method, data: bytes) -> None:
    """All three methods, also with bytes behind the stream."""
    packed = compression.compress(method, data)
    assert data == compression.decompress(method, packed)
    assert data == compression.decompress(method, memoryview(packed + b"behind"))


@pytest.mark.parametrize("method", Method)
def test_more_than_the_limit_is_refused(method: Method) -> None:
    """A small packed body cannot take much memory."""
    packed = compression.compress(method, bytes(100_000))
    assert len(packed) < 1000
    assert len(compression.decompress(method, packed, bytes_max=100_000)) == 100_000
    with pytest.raises(WireError, match="more than 99999"):
        compression.decompress(method, packed, bytes_max=99_999)


@pytest.mark.parametrize("method", Method)
def test_a_stream_that_breaks_off_is_refused(method: Method) -> None:
    """Every cut, none of them gives a shorter body."""
    packed = compression.compress(method, b"some words, some words, some words")
    for cut in range(len(packed)):
        with pytest.raises(WireError):
            compression.decompress(method, packed[:cut])


@given(st.sampled_from(Method), st.binary(max_size=100))
def test_any_bytes_give_a_body_or_a_wire_error(method: Method, data: bytes) -> None:
    """Whatever a library raises becomes a WireError."""
    try:
        compression.decompress(method, data)
    except WireError as error:
        assert method.value in str(error)  # noqa: PT017 - any other outcome is as good


def test_zlib_is_a_plain_zlib_stream() -> None:
    """RFC 1950, at the level that Java clients use."""
    assert zlib.compress(b"abc", 5) == compression.compress(Method.ZLIB, b"abc")


def test_a_method_whose_library_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """LZ4 has no wheel for every system; without it all else works."""
    monkeypatch.setitem(sys.modules, "lz4", None)
    with pytest.raises(MethodMissing, match=r"pip install 'sprocketmq\[lz4\]'"):
        compression.compress(Method.LZ4, b"x")
    with pytest.raises(MethodMissing, match=r"pip install 'sprocketmq\[lz4\]'"):
        compression.decompress(Method.LZ4, b"x")
