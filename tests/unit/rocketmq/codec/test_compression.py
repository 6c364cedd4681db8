"""Packing of bodies and the system flag that tells of it."""

import pytest

from sprocket.base.compression import Method
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import compression

BODY = b"hello, hello, hello" * 10


@pytest.mark.parametrize(
    ("method", "flag"), [(Method.ZLIB, 0x301), (Method.LZ4, 0x101), (Method.ZSTD, 0x201)]
)
def test_the_flag_names_the_method(method: Method, flag: int) -> None:
    """What compress says is what decompress needs; other bits do not matter."""
    packed, got = compression.compress(BODY, method=method)
    assert flag == got
    assert compression.decompress(packed, flag | 0x30) == BODY


def test_old_clients_name_no_method() -> None:
    """Without method bits a packed body is zlib."""
    packed, _ = compression.compress(BODY)
    assert compression.decompress(packed, 0x1) == BODY


def test_a_plain_body_stays_as_it_is() -> None:
    """Only bit 0 says that a body is packed."""
    assert compression.decompress(memoryview(BODY), 0x300) == BODY


def test_an_unknown_method_is_refused() -> None:
    """The method bits may not hold 4 to 7, nor the body exceed the limit."""
    for method in (0x400, 0x500, 0x600, 0x700):
        with pytest.raises(WireError, match="unknown compression"):
            compression.decompress(BODY, 0x1 | method)
    packed, flag = compression.compress(bytes(1000))
    with pytest.raises(WireError):
        compression.decompress(packed, flag, bytes_max=999)
