"""Checksums of messages in a message store, in files of ours beside RabbitMQ's, `<N>.sums`.

    file   = *record
    record = id:16 size:4 crc:4 check:4

`size` is that of the message's term, `crc` its CRC-32, `check` the CRC-32 of the rest of the
record, all big-endian without a sign. Records have no order. As a message's id stands for its
content, a record holds wherever the message lies; one that is missing means that nothing is known.

Source: ours; see docs/formats/rabbitmq-message-sums.md.
"""

from dataclasses import dataclass
from struct import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer

_RECORD = Struct(">16sIII")
RECORD_BYTES = _RECORD.size
_CHECKED = Struct(">16sII")


@dataclass(frozen=True, slots=True)
class TermSum:
    """What a message's term must be: its bytes, and their CRC-32."""

    size: int
    crc: int


def encode(message_id: bytes, known: TermSum) -> bytes:
    """Return a record."""
    checked = _CHECKED.pack(message_id, known.size, known.crc)
    return checked + crc32(checked).to_bytes(4, "big")


def decode(data: Buffer) -> dict[bytes, TermSum]:
    """Return what a file says, by ids; records that are not whole say nothing."""
    found = {}
    whole = len(data) - len(data) % RECORD_BYTES
    view = memoryview(data)[:whole]
    for start, (message_id, size, crc, check) in zip(
        range(0, whole, RECORD_BYTES), _RECORD.iter_unpack(view), strict=True
    ):
        if crc32(view[start : start + _CHECKED.size]) == check:
            found[message_id] = TermSum(size, crc)
    return found
