"""Bit maps of subscriptions: sizes, hashes and bits as RocketMQ has them."""

import pytest
from tests import sql_cases

from sprocket.rocketmq.codec import bloom
from sprocket.rocketmq.codec.bloom import Bloom


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ],
)
def test_the_hash_is_murmur3(data: bytes, expected: int) -> None:
    """Known values of x64 128 with seed 0, with and without a tail."""
    assert expected == bloom.murmur64(data)


def test_the_default_is_that_of_rocketmq() -> None:
    """Three hashes, 112 bits, 14 bytes."""
    assert Bloom() == Bloom(hashes=3, bits=112)
    assert len(Bloom().bit_map([])) == 14


@pytest.mark.parametrize(
    ("group", "expected"),
    [("Sql_g0", (0, 104, 96)), ("Sql_g1", (37, 65, 50)), ("Sql_g2", (19, 83, 69))],
)
def test_groups_own_the_bits_that_a_real_broker_gave_them(
    group: str, expected: tuple[int, ...]
) -> None:
    """As in the `consumerFilter.json` of a real RocketMQ 5.3.3."""
    assert expected == Bloom().positions(group, "Sql")


def test_a_map_has_the_bits_of_all_that_passed() -> None:
    """The lowest bit of a byte first."""
    both = Bloom().bit_map([(0, 104, 96), (19, 83, 69)])
    assert both.hex() == "0100080000000000200008000101"
    bits = {bit for bit in range(112) if both[bit >> 3] >> (bit & 7) & 1}
    assert bits == {0, 104, 96, 19, 83, 69}
    assert Bloom().bit_map([]) == bytes(14)


@pytest.mark.parametrize("size", sql_cases.SIZES)
def test_sizes_bits_and_maps_are_those_of_the_real_filter(size: tuple[int, int]) -> None:
    """As recorded, of names of all lengths and scripts; the empty map is all zeros."""
    (recorded,) = [
        one for one in sql_cases.read().bloom if (one.error_percent, one.names_max) == size
    ]
    found = Bloom.of(*size)
    assert found == Bloom(recorded.hashes, recorded.bits)
    positions = {name: found.positions(*name.split("#", 1)) for name in recorded.positions}
    assert {name: tuple(bits) for name, bits in recorded.positions.items()} == positions
    assert recorded.bit_map == found.bit_map(positions.values()).hex()
