"""The newest queue offset of each key, in bounded memory.

A key counts by the 128 bits of its MD5, as in RocketMQ, which keeps no keys either. They stand in
sorted columns of 24 bytes a key.
"""

import hashlib

import numpy as np
import numpy.typing as npt

KEY_BYTES = 24
"""What a key takes: RocketMQ's entry, too."""

_Words = npt.NDArray[np.uint64]


def digest(key: str) -> bytes:
    """Return what stands for a key, 16 bytes."""
    return hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()


class KeyMap:
    """See the head of the module.

    Args:
        keys_max: How many keys it takes.

    Attributes:
        last_offset: The highest queue offset that was put, −1 without one.
        is_full: It takes no more.

    Threads: any, one at a time.
    """

    def __init__(self, keys_max: int) -> None:
        self.last_offset = -1
        self.is_full = False
        self._keys_max = keys_max
        self._high = self._low = np.empty(0, np.uint64)
        self._offset = np.empty(0, np.int64)

    def put(self, digests: list[bytes], offsets: list[int]) -> None:
        """Put keys, each with a queue offset that is higher than all before.

        If that makes more keys than it takes, those with the lowest offsets are put that it takes.
        """
        room = self._keys_max - len(self._offset)
        if len(digests) > room:
            known = self.newest(digests)
            is_new, seen = known < 0, set[bytes]()
            for number, (one, new) in enumerate(zip(digests, is_new, strict=True)):
                if new and one not in seen:
                    if len(seen) == room:
                        digests, offsets = digests[:number], offsets[:number]
                        self.is_full = True
                        break
                    seen.add(one)
        if not digests:
            return
        high, low = _words(digests)
        high = np.concatenate((self._high, high))
        low = np.concatenate((self._low, low))
        offset = np.concatenate((self._offset, np.array(offsets, np.int64)))
        order = np.lexsort((offset, low, high))
        high, low, offset = high[order], low[order], offset[order]
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        self._high, self._low, self._offset = high[is_last], low[is_last], offset[is_last]
        self.last_offset = offsets[-1]

    def newest(self, digests: list[bytes]) -> npt.NDArray[np.int64]:
        """Return the newest queue offset of each key, −1 for one that was not put."""
        found = np.full(len(digests), -1, np.int64)
        if not len(self._offset) or not digests:
            return found
        high, low = _words(digests)
        at = np.searchsorted(self._high, high)
        left = np.arange(len(digests))
        while len(left):  # twice only for keys whose first halves are the same
            left = left[at[left] < len(self._high)]
            left = left[self._high[at[left]] == high[left]]
            is_same = self._low[at[left]] == low[left]
            found[left[is_same]] = self._offset[at[left[is_same]]]
            left = left[~is_same]
            at[left] += 1
        return found


def _words(digests: list[bytes]) -> tuple[_Words, _Words]:
    pairs = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
