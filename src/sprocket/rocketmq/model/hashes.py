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
