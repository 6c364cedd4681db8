"""Checksums equal what zlib computes."""

import zlib

import pytest

from sprocket.base.checksum import crc31


@pytest.mark.parametrize("data", [b"", b"a", b"123456789", bytes(range(256)) * 100])
def test_crc31_is_crc32_without_its_top_bit(data: bytes) -> None:
    """Any buffer gives zlib's CRC-32, its top bit cleared."""
    expected = zlib.crc32(data) & 0x7FFFFFFF
    assert crc31(data) == crc31(bytearray(data)) == crc31(memoryview(data)) == expected


def test_crc31_of_the_usual_check_text() -> None:
    """The check value of CRC-32 is 0xCBF43926."""
    assert crc31(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
