"""The files of a queue's index, version 2: segments N.qi and their messages N.qs.

    N.qi = header, *entry                ; 64 bytes, then 32 for each sequence id
    N.qs = header, *(head term)          ; 64 bytes, then 8 before each message

Source: RabbitMQ 3.10.8 `rabbit_classic_queue_index_v2`, `rabbit_classic_queue_store_v2`;
docs/formats/rabbitmq-queue-index-v2.md.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sprocket.base import checksum
from sprocket.base.disk import Buffer
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.index.reading import IndexFinding
from sprocket.rabbitmq.model.message import ID_BYTES

Ints: TypeAlias = npt.NDArray[np.int64]

HEADER_BYTES = 64
ENTRY_BYTES = 32
STORED_HEAD = struct.Struct(">IBHx")
"""Before each message of an N.qs: its size, flags, and 16 bits of its CRC-32."""
_HEADER = struct.Struct(">4sBQQ")
_INDEX_MAGIC, _STORE_MAGIC = b"RCQI", b"RCQS"
_VERSION = 2
_ENTRIES_MAX = 1 << 20
_HAS_CRC = 1
_PERSISTENT = 1
_ENTRY = np.dtype(
    {
        "names": ["status", "flags", "place", "id", "offset", "size", "body_size", "expiry_us"],
        "formats": ["u1", "u1", "u1", f"V{ID_BYTES}", ">u8", ">u4", ">u4", ">u8"],
        "offsets": [0, 1, 3, 4, 4, 12, 20, 24],
        "itemsize": ENTRY_BYTES,
    }
)


class MessagePlace(IntEnum):
    """Where the message of an entry is."""

    MEMORY = 0
    """It was never written."""
    SHARED_STORE = 1
    QUEUE_STORE = 2


class BoundsV2(NamedTuple):
    """Which sequence ids a segment has, as its header says.

    Attributes:
        first: The first one.
        end: The first one of the next segment.
        fault: What is wrong with the header; empty if nothing is.
    """

    first: int
    end: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SegmentV2:
    """The messages of one segment that are not acknowledged. Arrays hold one element for each.

    Attributes:
        seq_ids: Sequence ids, ascending.
        starts: Where each entry begins, bytes into the file.
        is_persistent: As published.
        places: Where each message is, as `MessagePlace`; another number if no one knows.
        message_ids: 16 bytes each, as rows; of those in the shared store.
        positions: Where the head is in the N.qs; of those in it.
        sizes: Bytes of the message's term after that head.
        body_sizes: Bytes of each body.
        expiry_us: Microseconds since 1970, 0 for never.
        end_seq_id: The first id of the next segment.
        findings: What RabbitMQ never writes.
    """

    seq_ids: Ints
    starts: Ints
    is_persistent: npt.NDArray[np.bool_]
    places: npt.NDArray[np.uint8]
    message_ids: npt.NDArray[np.uint8]
    positions: Ints
    sizes: Ints
    body_sizes: Ints
    expiry_us: npt.NDArray[np.uint64]
    end_seq_id: int
    findings: tuple[IndexFinding, ...]

    def __len__(self) -> int:
        return len(self.seq_ids)


def bounds_v2(data: Buffer, store_head: Buffer = b"") -> BoundsV2:
    """Return which sequence ids an N.qi has.

    Args:
        data: The file, or its first 64 bytes.
        store_head: Those of its N.qs, which say the same, if this one's are damaged.

    Raises:
        CorruptRecord: Neither is a header.
    """
    try:
        return BoundsV2(*_read_header(data, _INDEX_MAGIC))
    except CorruptRecord as error:
        if not store_head:
            raise
        fault = f"{error}; the header of the messages' file says the same, and is taken instead"
    return BoundsV2(*_read_header(store_head, _STORE_MAGIC), fault)


def read_segment_v2(data: Buffer, store_head: Buffer = b"") -> SegmentV2:
    """Return the messages of an N.qi; takes and raises as `bounds_v2`."""
    first, end, fault = bounds_v2(data, store_head)
    findings = [IndexFinding(0, fault)] if fault else []
    count, rest = divmod(max(len(data) - HEADER_BYTES, 0), ENTRY_BYTES)
    if rest:
        at = len(data) - rest
        findings.append(IndexFinding(at, f"{rest} bytes of an entry that was not written whole"))
    if count > end - first:
        at = HEADER_BYTES + ENTRY_BYTES * (end - first)
        findings.append(IndexFinding(at, "entries behind the last id of the segment: passed over"))
        count = end - first
    rows = np.frombuffer(data, _ENTRY, count, HEADER_BYTES)
    status = rows["status"]
    for number in np.flatnonzero(status > 1).tolist():
        at = HEADER_BYTES + ENTRY_BYTES * number
        findings.append(
            IndexFinding(at, f"the status of an entry is {status[number]}: taken for 1")
        )
    chosen = np.flatnonzero(status)
    rows = rows[chosen]
    for number in np.flatnonzero(rows["place"] > MessagePlace.QUEUE_STORE).tolist():
        at = HEADER_BYTES + ENTRY_BYTES * int(chosen[number])
        findings.append(
            IndexFinding(at, f"there is no place {rows['place'][number]} for a message")
        )
    ids = np.ascontiguousarray(rows["id"]).view(np.uint8).reshape(-1, ID_BYTES)
    return SegmentV2(
        seq_ids=first + chosen.astype(np.int64),
        starts=HEADER_BYTES + ENTRY_BYTES * chosen.astype(np.int64),
        is_persistent=rows["flags"] & _PERSISTENT != 0,
        places=rows["place"].copy(),
        message_ids=ids,
        positions=rows["offset"].astype(np.int64),
        sizes=rows["size"].astype(np.int64),
        body_sizes=rows["body_size"].astype(np.int64),
        expiry_us=rows["expiry_us"].astype(np.uint64),
        end_seq_id=end,
        findings=tuple(findings),
    )


def _read_header(data: Buffer, magic: bytes) -> tuple[int, int]:
    if len(data) < HEADER_BYTES:
        raise CorruptRecord(f"expected a header of {HEADER_BYTES} bytes, found {len(data)}")
    found, version, first, end = _HEADER.unpack_from(data)
    if found != magic or version != _VERSION:
        what = f"{magic.decode()} of version {_VERSION}"
        raise CorruptRecord(f"expected {what}, found {bytes(data[:5]).hex()}")
    if not first < end <= first + _ENTRIES_MAX or first % (end - first):
        raise CorruptRecord(f"a segment cannot have the ids from {first} to {end - 1}")
    return first, end


def stored_term(data: bytes, size: int, *, check_crc: bool = True) -> bytes:
    """Return the term of a message of an N.qs.

    Args:
        data: What is in the file from the message's head on, head and term.
        size: Of the term, as the index says.
        check_crc: Compare it with its checksum, if it has one.

    Raises:
        CorruptRecord: It is cut, of another size, or its checksum is wrong.
    """
    if len(data) < STORED_HEAD.size:
        raise CorruptRecord("the file ends before the message")
    counted, flags, crc = STORED_HEAD.unpack_from(data)
    if counted != size:
        raise CorruptRecord(f"expected a message of {size} bytes, found one of {counted}")
    term = data[STORED_HEAD.size : STORED_HEAD.size + size]
    if len(term) < size:
        raise CorruptRecord(f"the file ends inside the message, after {len(term)} bytes of {size}")
    if check_crc and flags & _HAS_CRC and checksum.crc32(term) & 0xFFFF != crc:
        raise CorruptRecord("the message does not fit its checksum")
    return term
