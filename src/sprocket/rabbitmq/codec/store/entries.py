"""The entries of a message store's file, N.rdq.

    file  = *entry
    entry = size:8 id:16 term mark:1     ; size = 16 + length of the term, mark = 255

Files have no header and no checksums. Those of RabbitMQ 3.10 are read up to the first size that
cannot be; `scan` continues after, at the next place that is an entry by all that can be seen of it.

Source: RabbitMQ 3.10.8 `rabbit_msg_file`; docs/formats/rabbitmq-message-store.md.
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sprocket.base.units import MIB
from sprocket.rabbitmq.model.message import ID_BYTES

MARK = b"\xff"
"""The last byte of an entry: it was written whole."""
HEAD = struct.Struct(f">Q{ID_BYTES}s")
OVERHEAD_BYTES = HEAD.size + len(MARK)
"""What an entry has besides its term."""

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Returns bytes of a file by position and size, fewer only at its end."""

_SIZE_BYTES = HEAD.size - ID_BYTES
_BLOCK_BYTES = MIB
_PERSISTENCE = b"d\0\x04true", b"d\0\x05false", b"w\x04true", b"w\x05false"
"""How the term of a message ends, after its id."""
_TAIL_BYTES = ID_BYTES + max(map(len, _PERSISTENCE)) + len(MARK)
_TERM_START = re.compile(rb"\x83h(?:\x06(?:d\0|w)\x0dbasic_message|\x04(?:d\0|w)\x02mc)")
_TERM_START_BYTES = 2 + 1 + 2 + 1 + len("basic_message")


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """Where a message lies in a file, its bytes not looked at but for both ends."""

    position: int
    """Of its first byte in the file."""
    size: int
    """Bytes of all of it."""
    id: bytes

    @property
    def end(self) -> int:
        """The position after it."""
        return self.position + self.size

    @property
    def term_position(self) -> int:
        """Where the message's term begins."""
        return self.position + HEAD.size

    @property
    def term_size(self) -> int:
        """Bytes of the message's term."""
        return self.size - OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of a file that holds no whole entry."""

    start: int
    end: int
    why: str
    hides_rest: bool
    """RabbitMQ 3.10 reads nothing of what is after it in the file."""


def entry(message_id: bytes, term: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what is written one after the other for a message."""
    return HEAD.pack(ID_BYTES + len(term), message_id), term, MARK


def entry_size(term_size: int) -> int:
    """Return the bytes of an entry whose term has that many."""
    return OVERHEAD_BYTES + term_size


def scan(read: ReadAt, size: int) -> Iterator[StoreEntry | Gap]:
    """Give each entry of a file in order, and what lies between them.

    Of a message only both ends are read, however large it is.

    Args:
        read: Reads the file; its errors come through.
        size: Length of the file.
    Source: RabbitMQ 3.10.8 `rabbit_msg_file:scan`; unlike it, continues after damage.
    """
    blocks = _Blocks(read, size)
    at = 0
    while at < size:
        found = _entry_at(blocks, at)
        if isinstance(found, StoreEntry) or not found.hides_rest:
            at = found.end
        else:
            at = _next_entry(blocks, at + 1)
            found = Gap(found.start, at, found.why, hides_rest=True)
        yield found


class _Blocks:
    """A file, of which the part that was read last is kept."""

    def __init__(self, read: ReadAt, size: int) -> None:
        self.size = size
        self._read = read
        self._start = 0
        self._data = b""

    def ahead(self, at: int, size: int) -> bytes:
        """Return bytes, and keep what follows them for the next time."""
        start = at - self._start
        if start < 0 or start + size > len(self._data):
            self._data = self._read(at, max(size, _BLOCK_BYTES))
            self._start, start = at, 0
        return self._data[start : start + size]

    def alone(self, at: int, size: int) -> bytes:
        """Return bytes that may lie anywhere."""
        start = at - self._start
        if start >= 0 and start + size <= len(self._data):
            return self._data[start : start + size]
        return self._read(at, size)


def _entry_at(blocks: _Blocks, at: int) -> StoreEntry | Gap:
    """Return the entry at a place, or a gap that begins there."""
    head = blocks.ahead(at, HEAD.size)
    if len(head) < HEAD.size:
        return Gap(at, blocks.size, "the file ends inside an entry", hides_rest=True)
    counted, message_id = HEAD.unpack(head)
    if not counted:
        return Gap(at, blocks.size, "zeros instead of an entry", hides_rest=True)
    end = at + _SIZE_BYTES + counted + len(MARK)
    if counted <= ID_BYTES:
        return Gap(at, blocks.size, f"an entry cannot count {counted} bytes", hides_rest=True)
    if end > blocks.size:
        why = f"the entry goes on to {end}, the file to {blocks.size}"
        return Gap(at, blocks.size, why, hides_rest=True)
    found = StoreEntry(at, end - at, message_id)
    tail = blocks.alone(
        max(end - _TAIL_BYTES, at + HEAD.size), min(_TAIL_BYTES, found.term_size + 1)
    )
    if tail.endswith(MARK):
        if _ends_with_id(tail, message_id) or _may_begin(blocks, end):
            return found
        return Gap(at, end, "the size of an entry leads to no other one", hides_rest=True)
    if _may_begin(blocks, end):
        why = f"the mark of an entry is {tail[-1:].hex()}, not {MARK.hex()}"
        return Gap(at, end, why, hides_rest=False)
    return Gap(at, end, "neither mark nor size of an entry is right", hides_rest=True)


def _ends_with_id(tail: bytes, message_id: bytes) -> bool:
    """Say whether a message's term ends as that of this message does."""
    return tail.endswith(tuple(message_id + end + MARK for end in _PERSISTENCE))


def _may_begin(blocks: _Blocks, at: int) -> bool:
    """Say whether a file may end at a place, or an entry begin there."""
    if at == blocks.size:
        return True
    head = blocks.alone(at, HEAD.size + _TERM_START_BYTES)
    if len(head) < HEAD.size or _TERM_START.match(head, HEAD.size) is None:
        return False
    counted = HEAD.unpack_from(head)[0]
    return bool(at + _SIZE_BYTES + counted + len(MARK) <= blocks.size)


def _next_entry(blocks: _Blocks, at: int) -> int:
    """Return the first place from `at` on where a whole entry is; the end if there is none."""
    start = at + HEAD.size
    while start < blocks.size:
        data = blocks.ahead(start, min(_BLOCK_BYTES, blocks.size - start))
        for match in _TERM_START.finditer(data):
            place = start + match.start() - HEAD.size
            head = blocks.alone(place, HEAD.size)
            counted, message_id = HEAD.unpack(head)
            end = place + _SIZE_BYTES + counted + len(MARK)
            if counted > ID_BYTES and end <= blocks.size:
                tail = blocks.alone(end - _TAIL_BYTES, _TAIL_BYTES)
                if _ends_with_id(tail, message_id):
                    return place
        if len(data) < _TERM_START_BYTES:
            break
        start += len(data) - _TERM_START_BYTES + 1
    return blocks.size
