"""The bit map of a message: which registered subscriptions it passes.

Each consumer group with a filter by properties owns a few bits, told by the hash of its name and
topic. When a message is dispatched each filter is tried on it, and the bits of those that it passes
are set; a pull of the group then looks at its bits first. A group may share all of its bits with
others, so set bits prove nothing; a missing one does.

Source: RocketMQ `BloomFilter`, `BitsArray`, `ConsumerFilterManager`; the hash is MurmurHash3
x64 128 with seed 0, of which the first half is used, as Guava computes it.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


class Bloom(Struct, frozen=True):
    """The size of a bit map; the default fits 32 subscriptions, of which one hit in 5 is wrong.

    Attributes:
        hashes: Bits that each subscription owns.
        bits: Bits of the map, a multiple of 8.
    """

    hashes: int = 3
    bits: int = 112

    @classmethod
    def of(cls, error_percent: int, subscriptions: int) -> "Bloom":
        """Return the size for so many subscriptions, and so many wrong hits of 100: 1 to 99."""
        error = error_percent / 100
        bits = math.ceil(subscriptions * _log(2, 1 / error) * _log(2, math.e))
        return cls(math.ceil(_log(0.5, error)), -(-bits // 8) * 8)

    def positions(self, group: str, topic: str) -> tuple[int, ...]:
        """Return the bits that a group's subscription to a topic owns."""
        low_first = murmur64(f"{group}#{topic}".encode())
        low, high = low_first & 0xFFFF_FFFF, low_first >> 32
        found = []
        for number in range(1, self.hashes + 1):
            combined = (low + number * high) & 0xFFFF_FFFF
            if combined >> 31:
                combined ^= 0xFFFF_FFFF
            found.append(combined % self.bits)
        return tuple(found)

    def bit_map(self, positions: Iterable[Sequence[int]]) -> bytes:
        """Return the map with the bits of all these subscriptions set."""
        made = bytearray(self.bits // 8)
        for owned in positions:
            for bit in owned:
                made[bit >> 3] |= 1 << (bit & 7)
        return bytes(made)


def murmur64(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3 x64 128 with seed 0."""
    h1 = h2 = 0
    padded = data + bytes(-len(data) % 16)
    whole = len(data) // 16 * 16
    for at in range(0, len(padded), 16):
        k1 = int.from_bytes(padded[at : at + 8], "little")
        k2 = int.from_bytes(padded[at + 8 : at + 16], "little")
        h1 ^= _rotated(k1 * _C1, 31) * _C2 & _MASK
        if at < whole:
            h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _rotated(k2 * _C2, 33) * _C1 & _MASK
        if at < whole:
            h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _mixed(h1) + _mixed(h2) & _MASK


def _log(base: float, value: float) -> float:
    """Return a logarithm as Java computes it; `math.log2` may differ in the last bit."""
    return math.log(value) / math.log(base)


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 64 - bits) & _MASK


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
