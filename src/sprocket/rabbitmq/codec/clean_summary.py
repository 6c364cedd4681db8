"""What we leave at a clean stop beside RabbitMQ's own files: `sprocket.clean`.

    file = "SpC1" crc:4 json

`crc` is the CRC-32 of the JSON, without a sign, big-endian. RabbitMQ's recovery.dets says how many
messages each segment has, but not how long its file is; so it cannot be seen that one was cut, or
put back from a copy. This can, and it is read in a hundredth of the time. It holds for the one
recovery.dets whose checksum it has: when a RabbitMQ has run, there is another.

Source: ours; see docs/formats/rabbitmq-clean-stop.md.
"""

import msgspec
from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.errors import CorruptRecord

MAGIC = b"SpC1"
_CRC_BYTES = 4


class CleanSegment(Struct, frozen=True, array_like=True):
    """A segment as it was left."""

    unacked: int
    """Messages without an ack, the journal included."""
    file_bytes: int
    """Of its file; 0 if there is none."""


class CleanQueue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue, or one of its priorities, as it was left."""

    next_seq_id: int
    next_deliver_seq_id: int
    """A message with a smaller one was delivered before."""
    persistent_ref: bytes
    message_count: int
    body_bytes: int
    segments: dict[int, CleanSegment]
    journal_bytes: int = 0
    journal_crc: int = 0
    """CRC-32 of its journal.jif."""


class CleanSummary(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All queues of a virtual host as they were left."""

    terms_crc: int
    """CRC-32 of the recovery.dets that was written with it."""
    store_crc: int
    """CRC-32 of the three files that the message store left, one after the other."""
    queues: dict[str, CleanQueue]
    """By the names of their folders."""


def encode(found: CleanSummary) -> bytes:
    """Return the content of the file."""
    content = msgspec.json.encode(found)
    return MAGIC + crc32(content).to_bytes(_CRC_BYTES, "big") + content


def decode(data: bytes) -> CleanSummary:
    """Return what a file says.

    Raises:
        CorruptRecord: It is none, or not whole.
    """
    start = len(MAGIC) + _CRC_BYTES
    content = data[start:]
    if not data.startswith(MAGIC) or data[len(MAGIC) : start] != crc32(content).to_bytes(4, "big"):
        raise CorruptRecord(f"expected {MAGIC.decode()} and a checksum, found {data[:start].hex()}")
    try:
        return msgspec.json.decode(content, type=CleanSummary)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no such file: {error}") from error
