"""The hashes that tags, keys and queues are found by: Java's, of its strings."""

from functools import lru_cache

_WORD = 0xFFFFFFFF


def hash32(text: str) -> int:
    """Return Java's `String.hashCode` of `text`: over UTF-16 units, as a signed 32-bit integer."""
    if text.isascii():
        units: bytes | memoryview = text.encode()
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & _WORD
    return value - (1 << 32) if value >> 31 else value


@lru_cache(maxsize=4096)
def cached_hash32(text: str) -> int:
    """Return `hash32(text)` for texts that come again and again, such as tags."""
    return hash32(text)


def abs_hash(value: int) -> int:
    """Return the absolute value of a signed 32-bit hash; −2³¹ becomes 0 as in `IndexFile`."""
    return 0 if value == -(1 << 31) else abs(value)


_JUMP_FACTOR = 2862933555777941757
_WORD64 = (1 << 64) - 1


def jump_hash(value: int, buckets: int) -> int:
    """Return which of some buckets a value belongs to; of more buckets few values change theirs.

    Args:
        value: A signed 64-bit integer.
        buckets: How many there are, 1 at least.

    Source: Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", and Guava's
        `Hashing.consistentHash`, which computes the same.
    """
    state = value & _WORD64
    chosen = 0
    while True:
        state = (_JUMP_FACTOR * state + 1) & _WORD64
        following = int((chosen + 1) / (((state >> 33) + 1) / float(1 << 31)))
        if not 0 <= following < buckets:
            return chosen
        chosen = following
