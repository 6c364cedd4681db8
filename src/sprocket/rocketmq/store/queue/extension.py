"""Extended units: what a queue of 20-byte units keeps beside them, for filters.

A queue's unit has room for one number. In a store with extended units that number is the address of
a longer one in `consumequeue_ext`: `i16 size, i64 tags code, i64 store time, i16 length b, b bytes
of bit map` (see `codec/bloom`). The address is the byte offset in the queue's extension with the
lowest i64 added to it, so that no hash of a tag can be taken for one. A unit lies in one file; if
it would come nearer than 4 bytes to the end, an i16 −1 ends the file and it begins the next.
See `docs/formats/consume-queue-extension.md`.

Invariants

1. Units lie in the order of the queue units that point at them; nothing lies between.
2. Behind the last of them, where the next one goes, all is zero.
3. What an address leads to is a whole unit or nothing.

Source: RocketMQ `ConsumeQueueExt`.
"""

import struct
from collections.abc import Sequence

from msgspec import Struct

from sprocket.base.disk import Steps
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.filters import OwnedBits
from sprocket.rocketmq.store.queue.queue_files import QueueFiles

_FIXED = struct.Struct(">hqqh")
_SIZE = struct.Struct(">h")
_FILE_END = _SIZE.pack(-1)
_END_BYTES = 4
"""So many bytes of a file are never used for units."""

_FIRST_ADDRESS = -(1 << 63)
_ADDRESS_MAX = -(1 << 31) - 1
_RUN_BYTES = 64 * KIB
"""Read at once for many units."""
_READ_BYTES = 64
"""Covers a unit with the default bit map of 14 bytes; a longer one takes a second read."""


def is_address(code: int) -> bool:
    """Say whether the code of a queue unit is an address: no hash of a tag is so low."""
    return code <= _ADDRESS_MAX


class ExtendedUnit(Struct, frozen=True):
    """What an address leads to.

    Attributes:
        tags_code: What the queue unit would hold without an extension.
        stored_at_ms: The message's store time.
        bit_map: Which subscriptions it passes; empty if there were none.
    """

    tags_code: int
    stored_at_ms: int
    bit_map: bytes


class Extension:
    """The extended units of one queue.

    Args:
        files: Its files; once they are loaded, `go_to` must follow.

    Attributes:
        files: As given.
        end: Byte offset where the next unit goes.
    """

    __slots__ = ("end", "files")

    def __init__(self, files: QueueFiles) -> None:
        self.end = 0
        self.files = files

    def get(self, address: int) -> ExtendedUnit | None:
        """Return what an address leads to, None if there is no such unit."""
        position = address - _FIRST_ADDRESS
        if not is_address(address) or not self.files.first <= position < self.end:
            return None
        return self._unit(position)

    def rejected(self, addresses: Sequence[int], bits: OwnedBits) -> set[int]:
        """Return which addresses lead to the units of messages that do not pass, by their maps.

        They mostly lie close, and are read together; 0.3 µs each.
        """
        found: set[int] = set()
        first, behind, since_ms = self.files.first, self.end, bits.since_ms
        map_at, map_bytes = _FIXED.size, bits.map_bytes
        whole = map_at + map_bytes
        tests = [(map_at + (bit >> 3), 1 << (bit & 7)) for bit in bits.positions]
        last = addresses[-1] - _FIRST_ADDRESS if addresses else 0
        start, data, most = 0, b"", -1
        for address in addresses:
            position = address - _FIRST_ADDRESS
            if not first <= position < behind or not is_address(address):
                continue
            at = position - start
            if not 0 <= at <= most:
                size = min(max(last - position, 0), _RUN_BYTES) + whole
                start, data = position, self.files.read(position, size)
                at, most = 0, len(data) - whole
                if most < 0:
                    continue  # too short for such a map
            size, _, stored_at_ms, length = _FIXED.unpack_from(data, at)
            if stored_at_ms <= since_ms or length != map_bytes or size != whole:
                continue
            for byte, mask in tests:
                if not data[at + byte] & mask:
                    found.add(address)
                    break
        return found

    def _unit(self, position: int) -> ExtendedUnit | None:
        data = self.files.read(position, _READ_BYTES)
        if len(data) < _FIXED.size:
            return None
        size, tags_code, stored_at_ms, length = _FIXED.unpack_from(data)
        if length < 0 or size != _FIXED.size + length or size > self.files.left(position):
            return None
        if size > len(data):
            data = self.files.read(position, size)
        return ExtendedUnit(tags_code, stored_at_ms, data[_FIXED.size : size])

    def put(self, entries: Sequence[Entry]) -> list[int]:
        """Write a unit for each record, one write a file; return their addresses.

        Raises:
            DiskFull, DiskFailed: None of them counts; they may be put again.
        """
        addresses = []
        run: list[bytes] = []
        at = self.end
        for entry in entries:
            unit = _packed(entry)
            left = self.files.left(at)
            if len(unit) > left - _END_BYTES:
                run.append(_FILE_END.ljust(left, b"\0"))
                at += left
            addresses.append(_FIRST_ADDRESS + at)
            run.append(unit)
            at += len(unit)
        if run:
            self.files.write(self.end, b"".join(run))
        self.end = at
        return addresses

    def go_to(self, last_address: int | None) -> None:
        """Go on behind the unit that the queue's last address leads to; None: it has none.

        If that unit is lost, so are those before it, and the next one goes into a new file, where
        no old address leads.
        """
        if last_address is None:
            self.end = self.files.first
            return
        position = last_address - _FIRST_ADDRESS
        is_there = self.files.first <= position < self.files.end
        unit = self._unit(position) if is_there else None
        if unit is not None:
            self.end = position + _FIXED.size + len(unit.bit_map)
        else:
            self.files.drop_from(0)
            self.end = position + self.files.left(position)

    # Recovery and cleaning.

    def cut(self, last_address: int | None) -> None:
        """Take away the units behind the one that the queue's last address leads to."""
        old = self.end
        self.go_to(last_address)
        self.files.cut(self.end, max(old, self.end))

    def wipe_behind_end(self) -> None:
        """Zero what a crash left behind the end, and delete the files there."""
        self.files.cut(self.end, self.files.end)

    def clean_steps(self, first_code: int) -> Steps:
        """Delete the files before the unit that the queue's first code leads to, if it does."""
        if is_address(first_code):
            yield from self.files.drop_before_steps(first_code - _FIRST_ADDRESS)


def _packed(entry: Entry) -> bytes:
    bit_map = b"" if entry.extra is None else entry.extra.bit_map
    size = _FIXED.size + len(bit_map)
    return _FIXED.pack(size, entry.tags_code, entry.stored_at_ms, len(bit_map)) + bit_map
