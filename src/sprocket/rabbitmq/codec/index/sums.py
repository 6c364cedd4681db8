"""Checksums of a queue's index, in files of ours beside RabbitMQ's: `<N>.sums`, `journal.sums`.

    file  = *entry
    entry = "SpI1" check:4 position:8 size:4 crc:4 skeleton-size:4 skeleton

An entry is about this many bytes of the index file from a position on, which were appended at once.
`crc` is their CRC-32. The skeleton is the same bytes, where each message's term is replaced by its
CRC-32. So a changed byte is not only noticed: the records themselves are known, and which message
is not what was stored. `check` is the CRC-32 of the rest of the entry.

Source: ours; see docs/formats/rabbitmq-index-sums.md.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.rabbitmq.codec.index.reading import IndexFinding, read_journal, read_segment
from sprocket.rabbitmq.codec.index.records import (
    JOURNAL_HEAD_BYTES,
    JOURNAL_PREFIX_BYTES,
    SEGMENT_HEAD_BYTES,
    SEGMENT_PREFIX_BYTES,
)
from sprocket.rabbitmq.codec.message_term import DAMAGED

MAGIC = b"SpI1"
_HEAD = Struct(">4sIQIII")
_CHECKED_FROM = 8
_SUM = Struct(">I")


@dataclass(frozen=True, slots=True)
class IndexSum:
    """An entry.

    Attributes:
        position: The first byte of the index file that it covers.
        size: Of how many bytes.
        crc: Their CRC-32.
        skeleton: The same bytes, with the CRC-32 of each term in its place.
    """

    position: int
    size: int
    crc: int
    skeleton: bytes

    @property
    def end(self) -> int:
        """The first byte of the index file after that."""
        return self.position + self.size

    def encode(self) -> bytes:
        """Return the entry's bytes."""
        head = (self.position, self.size, self.crc, len(self.skeleton))
        whole = _HEAD.pack(MAGIC, 0, *head) + self.skeleton
        check = crc32(memoryview(whole)[_CHECKED_FROM:])
        return b"".join((MAGIC, _SUM.pack(check), memoryview(whole)[_CHECKED_FROM:]))


def index_sum(data: Buffer, position: int, *, is_segment: bool) -> IndexSum:
    """Return the entry for whole records that lie at a position of an index file."""
    head_bytes = SEGMENT_HEAD_BYTES if is_segment else JOURNAL_HEAD_BYTES
    records = read_segment(data) if is_segment else read_journal(data)
    assert records.stopped_at == len(data), "no whole records"
    starts = records.starts.tolist()
    view = memoryview(data)
    parts: list[Buffer] = []
    for start, end in zip(starts, [*starts, len(data)][1:], strict=True):
        term = start + head_bytes
        if end > term:
            parts += (view[start:term], _SUM.pack(crc32(view[term:end])))
        else:
            parts.append(view[start:end])
    return IndexSum(position, len(data), crc32(data), b"".join(parts))


def decode_sums(data: bytes) -> list[IndexSum]:
    """Return the entries of a file, by position; what is not an entry is skipped.

    Where a later entry begins, earlier ones do not count any more: the file was cut there.
    """
    found: list[IndexSum] = []
    at = data.find(MAGIC)
    while 0 <= at <= len(data) - _HEAD.size:
        _, check, position, size, crc, skeleton_size = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        end = start + skeleton_size
        if end > len(data) or check != crc32(memoryview(data)[at + _CHECKED_FROM : end]):
            at = data.find(MAGIC, at + 1)
            continue
        while found and found[-1].end > position:
            found.pop()
        found.append(IndexSum(position, size, crc, data[start:end]))
        at = data.find(MAGIC, end)
    return found


class CheckedIndex(NamedTuple):
    """The bytes of an index file, compared.

    Attributes:
        data: What the file should hold, but that messages which are not what was stored begin with
            DAMAGED, so that nobody takes them for any.
        repaired: What is to be written; None if that is what there is.
        damaged: Where messages begin that are not what was stored.
        findings: What is wrong besides: records that are not what was written.
        covered: Up to where checksums cover it without a gap.
        summed: The end of what the last of them covers, whether those bytes are there or not.
    """

    data: bytes
    repaired: bytes | None = None
    damaged: tuple[int, ...] = ()
    findings: tuple[IndexFinding, ...] = ()
    covered: int = 0
    summed: int = 0


def check_index(data: bytes, sums: list[IndexSum], *, is_segment: bool) -> CheckedIndex:
    """Compare an index file, as far as it counts, with its checksums.

    Args:
        data: The file. Entries about bytes after its end say nothing.
        sums: As `decode_sums` gives them.
        is_segment: Whether it is a segment's, else a journal's.
    """
    covered, summed = 0, sums[-1].end if sums else 0
    parts: list[_Part] = []
    view = memoryview(data)
    for one in sums:
        if one.end > len(data):
            break
        if one.position == covered:
            covered = one.end
        here = view[one.position : one.end]
        if crc32(here) != one.crc and (part := _compared(one, here, is_segment=is_segment)):
            parts.append(part)
    if not parts:
        return CheckedIndex(data, covered=covered, summed=summed)
    read, repaired = bytearray(data), bytearray(data)
    for part in parts:
        read[part.start : part.end] = repaired[part.start : part.end] = part.data
        for start in part.damaged:
            read[start : start + len(DAMAGED)] = DAMAGED
    return CheckedIndex(
        bytes(read),
        bytes(repaired) if repaired != data else None,
        tuple(start for part in parts for start in part.damaged),
        tuple(finding for part in parts for finding in part.findings),
        covered,
        summed,
    )


class _Part(NamedTuple):
    """What should be in a part of an index file, and where messages begin that are not."""

    start: int
    end: int
    data: bytes
    damaged: list[int]
    findings: list[IndexFinding]


def _compared(one: IndexSum, here: memoryview, *, is_segment: bool) -> _Part | None:
    """Compare a part record by record; None if the skeleton is that of other bytes."""
    head_bytes = SEGMENT_HEAD_BYTES if is_segment else JOURNAL_HEAD_BYTES
    mark_bytes = SEGMENT_PREFIX_BYTES if is_segment else JOURNAL_PREFIX_BYTES
    skeleton, at, row = one.skeleton, 0, 0
    found = _Part(one.position, one.end, bytes(here), [], [])
    image = bytearray(here)
    while row < len(skeleton):
        is_publish = (skeleton[row] >= 0x80) == is_segment
        size = head_bytes if is_publish else mark_bytes
        head = skeleton[row : row + size]
        row += size
        if row > len(skeleton) or at + size > len(here):
            return None
        if here[at : at + size] != head:
            what = "a record is not what was written: it is taken from the checksums beside"
            found.findings.append(IndexFinding(one.position + at, what))
            image[at : at + size] = head
        at += size
        term_size = _SUM.unpack_from(head, size - _SUM.size)[0] if is_publish else 0
        if not term_size:
            continue
        row += _SUM.size
        if row > len(skeleton) or at + term_size > len(here):
            return None
        if crc32(here[at : at + term_size]) != _SUM.unpack_from(skeleton, row - _SUM.size)[0]:
            found.damaged.append(one.position + at)
        at += term_size
    return found._replace(data=bytes(image)) if at == len(here) else None
