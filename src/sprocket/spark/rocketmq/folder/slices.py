"""Reading a file of the log slice by slice: the one way, for planning and for rows alike."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.columns import Records, Stop, records, scan
from sprocket.rocketmq.codec.record_layout import (
    FIXED,
    FIXED_BYTES,
    HEAD,
    HOST_V6_EXTRA,
    I32,
    MAGIC_AT,
    PHYSICAL_OFFSET_AT,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
    claims_to_fit,
)
from sprocket.spark.files import ReadableFile

SLICE_BYTES = 4 * MIB
"""How much of a file is read at once at most; a longer record is read whole."""
SLICE_BYTES_MIN = MIB
SLICE_RECORDS = 4096
"""How many records a slice should have. Fewer cost more calls for each of them; with more, what is
made of them no longer fits into a core's cache: at 100 bytes a body a record then takes a third
longer."""
LOOK_BYTES = 16 * KIB
"""How much is read at first to find a record; one of a KiB or two begins in it a dozen times."""

_NO_BODY = I32.pack(0)

MAGICS = tuple(magic.to_bytes(4, "big") for magic in record_layout.MAGICS)


SKIPPED_BYTES = 32 * KIB
"""Records from this size on are read without their bodies where these are not wanted. A read for
each costs 0.7 µs and 1.3 more to make records of it, the 32 KiB themselves 4.8."""

FIRST_BYTES = 4096
"""Enough of a file for one record, mostly."""
_HEAD_BYTES = FIXED_BYTES + 2 * HOST_V6_EXTRA


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Some records of a file.

    Args:
        records: The records; maybe none in the last slice. Where bodies are skipped they may have
            empty ones, and say so in their header.
        start: Bytes into the file where the first begins.
        end: Bytes into the file after the last.
        stop: Why there are no more; None if the next slice goes on.
        why: The same for people, where `stop` is BROKEN.
    """

    records: Records
    start: int
    end: int
    stop: Stop | None
    why: str = ""


def slices(
    file: ReadableFile,
    base: int,
    start: int,
    end: int,
    slice_bytes: int = SLICE_BYTES,
    *,
    skip_bodies: bool = False,
) -> Iterator[Slice]:
    """Give the records from `start` on, up to `end` or the first place where none begins.

    Args:
        file: A file of the log.
        base: Physical offset of its first byte.
        start: Bytes into the file, where a record begins.
        end: Bytes into the file; END means that a record ends exactly there.
        slice_bytes: Bytes to read at once at most.
        skip_bodies: Bodies are not wanted: leave them out where they are large.
    """
    at, wanted = start, min(slice_bytes, SLICE_BYTES_MIN)
    while True:
        data = file.read(at, min(wanted, end - at))
        found = scan(data, 0, len(data))
        kept = records(data, found.positions, found.stopped_at, base + at)
        reached = at + (int(kept.end[-1]) if len(kept) else 0)
        is_rest = at + len(data) >= end or len(data) < min(wanted, end - at)
        if kept.defect:
            yield Slice(kept, at, reached, Stop.BROKEN, kept.defect)
            return
        if found.stop in (Stop.PARTIAL, Stop.END) and not is_rest:
            if len(kept):
                yield Slice(kept, at, reached, None)
                each = (reached - at) // len(kept)
                at, wanted = reached, _slice_bytes(each, slice_bytes)
                if skip_bodies and each >= SKIPPED_BYTES:
                    for piece in _without_bodies(file, base, at, end):
                        yield piece
                        at = piece.end
                continue
            if found.size <= end - at:
                wanted = max(found.size, RECORD_BYTES_MIN)
                continue
        stop, why = found.stop, ""
        if stop not in (Stop.END, Stop.BLANK):
            stop, why = Stop.BROKEN, _why(data, found.stopped_at, end - reached, found.size)
        yield Slice(kept, at, reached, stop, why)
        return


def _without_bodies(file: ReadableFile, base: int, start: int, end: int) -> Iterator[Slice]:
    """Give records from `start` on without their bodies, while they are large and nothing is odd.

    What else there is, and the last record before `end`, is left to callers that read everything.
    """
    at, head = start, file.read(start, min(_HEAD_BYTES, end - start))
    while True:
        first, data = at, bytearray()
        positions: list[int] = []
        places: list[int] = []
        while len(positions) < SLICE_RECORDS and len(head) == _HEAD_BYTES:
            size, magic = HEAD.unpack_from(head)
            if magic not in record_layout.MAGICS or not claims_to_fit(head, 0):
                break
            fixed = FIXED[head[SYS_FLAG_AT + 3] >> 4 & 3].size
            (body_size,) = I32.unpack_from(head, fixed - I32.size)
            if size < SKIPPED_BYTES or at + size + _HEAD_BYTES > end:
                break
            rest = size - fixed - body_size
            tail = file.read(at + size - rest, rest + _HEAD_BYTES)
            positions.append(len(data))
            places.append(base + at)
            data += head[: fixed - I32.size]
            data += _NO_BODY
            data += tail[:rest]
            at, head = at + size, tail[rest:]
        kept = records(bytes(data), np.array(positions, np.int64), len(data))
        good = kept.number("physical_offset") == np.array(places[: len(kept)], np.int64)
        if not good.all():
            kept = kept.part(0, int(np.argmin(good)))
        if len(kept):
            whole = len(kept) == len(positions)
            yield Slice(kept, first, at if whole else places[len(kept)] - base, None)
        if len(kept) < SLICE_RECORDS:
            return


def time_of_record(file: ReadableFile, base: int, start: int, end: int) -> int | None:
    """Return when the record was stored that begins at `start`, milliseconds since 1970.

    None if none begins there, or one that does not fit its checksums. The parameters are those of
    `slices`.
    """
    found = next(slices(file, base, start, end, FIRST_BYTES)).records
    return int(found.stored_at_ms[0]) if len(found) and not found.wrong_sums()[0] else None


def _slice_bytes(record_bytes: int, most: int) -> int:
    """Return how much to read next, records having had this many bytes."""
    return min(most, max(SLICE_BYTES_MIN, SLICE_RECORDS * record_bytes))


def resync(
    file: ReadableFile, base: int, start: int, end: int, slice_bytes: int = SLICE_BYTES
) -> int:
    """Return the first position from `start` on where a record says that it lies; −1 for none.

    The parameters are those of `slices`; the record's header must stand before `end`. Little is
    read at first, since most records are short, and then more and more.
    """
    first, size = start, min(slice_bytes, LOOK_BYTES)
    while first < end:
        data = file.read(first, min(size + RECORD_BYTES_MIN, end - first))
        places = [_own_place(data, magic, base + first) for magic in MAGICS]
        found = [place for place in places if 0 <= place < size]
        if found:
            return first + min(found)
        first, size = first + size, min(slice_bytes, 2 * size)
    return -1


def _own_place(data: bytes, magic: bytes, base: int) -> int:
    """Return the first position in `data` with this magic and the offset of that place; or −1."""
    at = data.find(magic, MAGIC_AT)
    while at >= 0:
        start = at - MAGIC_AT
        own = (base + start).to_bytes(8, "big")
        if data.startswith(own, start + PHYSICAL_OFFSET_AT):
            return start
        at = data.find(magic, at + 1)
    return -1


def _why(data: bytes, at: int, left: int, size: int) -> str:
    """Say why no whole record begins at `at`."""
    if not any(data[at : at + 8]):
        return "nothing is written here"
    if size:
        return f"a record of {size} bytes does not end in the {left} bytes that are left"
    return f"no record begins here, but {data[at : at + 8].hex(' ')}"
