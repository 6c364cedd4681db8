"""Packing of bodies and the system flag that tells of it."""

import pytest

from sprocket.base import compression
from sprocket.base.compression import DECOMPRESSED_BYTES_MAX, Method
from sprocket.base.errors import WireError
from sprocket.rocketmq.model.message import compression_flag, unpacked

BODY = b"hello, hello, hello" * 10


@pytest.mark.parametrize(
    ("method", "flag"), [(Method.ZLIB, 0x301), (Method.LZ4, 0x101), (Method.ZSTD, 0x201)]
)
def test_the_flag_names_the_method(method: Method, flag: int) -> None:
    """What compress says is what decompress needs; other bits do not matter."""
    packed = compression.compress(method, BODY)
    assert flag == compression_flag(method)
    assert unpacked(packed, flag | 0x30) == BODY


def test_old_clients_name_no_method() -> None:
    """Without method bits a packed body is zlib."""
    assert unpacked(compression.compress(Method.ZLIB, BODY), 0x1) == BODY


def test_a_plain_body_stays_as_it_is() -> None:
    """Only bit 0 says that a body is packed."""
    assert unpacked(memoryview(BODY), 0x300) == BODY


def test_an_unknown_method_is_refused() -> None:
    """The method bits may not hold 4 to 7."""
    for method in (0x400, 0x500, 0x600, 0x700):
        with pytest.raises(WireError, match="unknown compression"):
            unpacked(BODY, 0x1 | method)


@pytest.mark.slow
def test_a_body_that_is_too_large_unpacked_is_refused() -> None:
    """A few bytes may stand for many."""
    packed = compression.compress(Method.ZLIB, bytes(DECOMPRESSED_BYTES_MAX + 1))
    with pytest.raises(WireError):
        unpacked(packed, 0x301)
