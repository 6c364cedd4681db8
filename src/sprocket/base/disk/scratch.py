"""Memory to read into, lent and used again, because new memory is dear.

The system clears each page that is new to a process, and a virtual machine may have to ask its host
for it: up to ten times as long as the read into it takes. So what is read only to be passed on goes
to memory that was there before, and is still in the processor's caches.

Invariants

1. What was lent is nobody else's while there is a view of it, in whosever hands.
2. No more than `CHUNKS_MAX` chunks are kept. A request for more than they have gets new memory.
"""

from sprocket.base.units import MIB

CHUNK_BYTES = 2 * MIB
"""Of one chunk: a long answer fits in. It is free again when no view of it is left."""

CHUNKS_MAX = 8
"""Slow readers keep this much at most; after that, others get new memory."""

_ALIGNMENT = 64


class Scratch:
    """Lends memory.

    Threads: one.
    """

    def __init__(self) -> None:
        self._chunks: list[bytearray] = []
        self._chunk = bytearray()
        self._at = 0

    def lend(self, size: int) -> memoryview:
        """Return `size` bytes of memory with anything in it, used again when no view is left."""
        chunk, start = self._chunk, self._at
        if start and _is_free(chunk):
            start = 0
        end = start + size
        if end > len(chunk):
            if not self._take_another(size):
                return memoryview(bytearray(size))
            chunk, start, end = self._chunk, 0, size
        self._at = end + -end % _ALIGNMENT
        return memoryview(chunk)[start:end]

    def _take_another(self, size: int) -> bool:
        """Continue in a chunk that is free; return whether there is one."""
        if size > CHUNK_BYTES:
            return False
        free = next(filter(_is_free, self._chunks), None)
        if free is None:
            if len(self._chunks) == CHUNKS_MAX:
                return False
            free = bytearray(CHUNK_BYTES)
            self._chunks.append(free)
        self._chunk, self._at = free, 0
        return True


def _is_free(chunk: bytearray) -> bool:
    """Say whether there is no view of a chunk: while there is one its length cannot change."""
    try:
        chunk.append(chunk.pop())
    except BufferError:
        return False
    return True
