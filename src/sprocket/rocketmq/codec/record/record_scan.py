"""Follows the records of one log file: quickly, or so that it says exactly why it stopped."""

from collections.abc import Iterator
from enum import Enum
from itertools import repeat

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    FIXED_BYTES,
    HEAD,
    HOSTS_V6,
    I16,
    I64,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    PLACE_AND_LENGTHS,
    RECORD_BYTES_MIN,
    TOPIC_BYTES_MAX_V1,
    parts,
    tail_fits,
)
from sprocket.rocketmq.model.offsets import PhysicalOffset


def positions(data: Buffer, start: int, end: int, count_max: int) -> tuple[list[int], int]:
    """Follow record sizes through `data[start:end]`, looking at nothing but size and magic.

    A record begins at `start`; at most `count_max` are found. Costs about 0.15 µs a record.

    Returns:
        Where each record begins, bytes into `data`, and the first byte behind the last of them.
    """
    found: list[int] = []
    add, read = found.append, HEAD.unpack_from
    v1, v2, smallest = MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN
    at, room = start, end - smallest
    for _ in repeat(None, min(count_max, (end - start) // smallest)):
        if at > room:
            break
        size, magic = read(data, at)
        if (magic != v1 and magic != v2) or size < smallest:
            break
        add(at)
        at += size
    if at > end:  # the last one goes on beyond it
        at = found.pop()
    return found, at


def plain_positions(
    data: Buffer, start: int, end: int, base: int, count_max: int
) -> tuple[list[int], int]:
    """Do what `positions` does for records of which nothing is odd, and look at all of each.

    It is of version 1, between IPv4 hosts, lies where it says (`base` is the physical offset of
    `data[0]`), and is as long as its parts. Costs about 0.4 µs a record, `parts` alone 1.2. The one
    at which it ends may be right as well.
    """
    found: list[int] = []
    add, read, read_length = found.append, PLACE_AND_LENGTHS.unpack_from, I16.unpack_from
    at, room = start, end - RECORD_BYTES_MIN
    while at <= room and len(found) < count_max:
        size, magic, place, sys_flag, body_bytes = read(data, at)
        topic_at = at + FIXED_BYTES + body_bytes
        behind = at + size
        if (
            magic != MAGIC_V1
            or sys_flag & HOSTS_V6
            or place != base + at
            or body_bytes < 0
            or behind > end
            or topic_at + 3 > behind
        ):
            break
        properties_at = topic_at + 1 + data[topic_at]
        if data[topic_at] > TOPIC_BYTES_MAX_V1 or properties_at + 2 > behind:
            break
        (length,) = read_length(data, properties_at)
        if properties_at + 2 + length != behind:
            break
        add(at)
        at = behind
    return found, at


class ScanStop(Enum):
    """Why a scan went no further."""

    END = "the range is at its end"
    BLANK = "a blank record ends the file"
    ZEROS = "nothing was written here"
    TORN = "a record is not whole"
    BAD_MAGIC = "no record begins here"
    BAD_SIZE = "the lengths of a record do not add up"
    BAD_OFFSET = "a record names another place in the log"
    BAD_CRC = "a record does not fit its checksum"


class Scan:
    """A scan of the records of one file; iterate to get `(position, size)` of each.

    When the iteration is over, `stop` and `why` say the reason and `position` the first byte that
    belongs to no record that was given (the start of the blank record, if that is what stopped).

    Args:
        data: One file of the log, or as much of it as there is.
        base: Physical offset of the first byte of `data`.
        start: Position in `data` where a record begins.
        end: Position to stop at.
        check_crc: Compare each body with its CRC, unless a CRC tail fits.
        check_tail: Compare CRC tails, see `decode`.
    """

    def __init__(
        self,
        data: memoryview,
        base: PhysicalOffset | int,
        start: int,
        end: int,
        *,
        check_crc: bool = True,
        check_tail: bool = False,
    ) -> None:
        assert 0 <= start <= end <= len(data), (start, end, len(data))
        self.stop = ScanStop.END
        self.why = ""
        self.position = start
        self.blank_size = 0
        self._data = data
        self._base = base
        self._end = end
        self._check_crc = check_crc
        self._check_tail = check_tail

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Give the place and size of each record until something stops the scan."""
        data, end, base = self._data, self._end, self._base
        check_crc, check_tail = self._check_crc, self._check_tail
        position = self.position
        while end - position >= RECORD_BYTES_MIN:
            size, magic = HEAD.unpack_from(data, position)
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                break
            if size < RECORD_BYTES_MIN or size > end - position:
                break
            (offset,) = I64.unpack_from(data, position + PHYSICAL_OFFSET_AT)
            if offset != base + position:
                break
            try:
                fields, body, _topic, _topic_end, _end = parts(data, position)
            except WireError:
                break
            fits = tail_fits(data, position, position + size) if check_tail else None
            if fits is False:
                break
            is_body_due = check_crc and not fits  # a tail that fits covers the body
            if is_body_due and crc32(data[body : body + fields[14]]) & 0x7FFFFFFF != fields[2]:
                break
            yield position, size
            position += size
            self.position = position
        self._explain(position)

    def _explain(self, position: int) -> None:
        """Find out why no record was given at `position`."""
        data, end = self._data, self._end
        at = f"at {self._base + position}"
        left = end - position
        if left < BLANK_BYTES:
            self.stop = ScanStop.TORN if left and any(data[position:end]) else ScanStop.END
            self.why = f"{left} bytes are left {at}"
            return
        size, magic = HEAD.unpack_from(data, position)
        if magic == MAGIC_BLANK:
            fits = size >= BLANK_BYTES and position + size >= end
            self.stop = ScanStop.BLANK if fits else ScanStop.BAD_SIZE
            self.blank_size = size
            self.why = f"blank record of {size} bytes {at}"
        elif size == 0 and magic == 0:
            self.stop, self.why = ScanStop.ZEROS, f"nothing is written {at}"
        elif magic != MAGIC_V1 and magic != MAGIC_V2:
            self.stop, self.why = ScanStop.BAD_MAGIC, f"magic {magic:#010x} {at}"
        elif size < RECORD_BYTES_MIN:
            self.stop, self.why = ScanStop.BAD_SIZE, f"a record of {size} bytes {at}"
        elif size > left:
            self.stop, self.why = ScanStop.TORN, f"a record of {size} bytes {at}, {left} are there"
        else:
            self._explain_record(position, size, at)

    def _explain_record(self, position: int, size: int, at: str) -> None:
        (offset,) = I64.unpack_from(self._data, position + PHYSICAL_OFFSET_AT)
        if offset != self._base + position:
            self.stop, self.why = ScanStop.BAD_OFFSET, f"the record {at} says it lies at {offset}"
            return
        try:
            parts(self._data[position : position + size], 0)
        except WireError as error:
            self.stop, self.why = ScanStop.BAD_SIZE, f"{at}: {error}"
        else:
            self.stop, self.why = ScanStop.BAD_CRC, f"the record of {size} bytes {at}"
