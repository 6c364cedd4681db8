"""Checksums and hashes equal what zlib and Java compute."""

import zlib

import pytest

from sprocket.base.checksum import abs_hash, cached_hash32, crc31, hash32


@pytest.mark.parametrize("data", [b"", b"a", b"123456789", bytes(range(256)) * 100])
def test_crc31_is_crc32_without_its_top_bit(data: bytes) -> None:
    """Any buffer gives zlib's CRC-32, its top bit cleared."""
    expected = zlib.crc32(data) & 0x7FFFFFFF
    assert crc31(data) == crc31(bytearray(data)) == crc31(memoryview(data)) == expected


def test_crc31_of_the_usual_check_text() -> None:
    """The check value of CRC-32 is 0xCBF43926."""
    assert crc31(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2_598_919),
        ("AaAa", 2_031_744),
        ("BBBB", 2_031_744),
        ("polygenelubricants", -(1 << 31)),
        ("ü", 252),
        ("😀", 1_772_899),
    ],
)
def test_hash32_is_javas(text: str, value: int) -> None:
    """Over UTF-16 units, wrapped to 32 bits with a sign; values as `String.hashCode` gives them."""
    assert hash32(text) == cached_hash32(text) == value


@pytest.mark.parametrize(
    ("value", "absolute"),
    [(0, 0), (5, 5), (-5, 5), (-(1 << 31), 0), ((1 << 31) - 1, (1 << 31) - 1)],
)
def test_abs_hash(value: int, absolute: int) -> None:
    """The one number without a counterpart becomes 0."""
    assert abs_hash(value) == absolute
