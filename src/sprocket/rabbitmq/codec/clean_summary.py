"""What we leave at a clean stop beside RabbitMQ's own files: `sprocket.clean`.

    file = "SpC1" crc:4 json        ; see checked_json

RabbitMQ's recovery.dets says how many messages each segment has, but not how long its file is; so
it cannot be seen that one was cut, or put back from a copy. With this file it can, and it is read
in a hundredth of the time. It holds for the one recovery.dets whose checksum it has: when a
RabbitMQ has run, there is another.

Source: ours; see docs/formats/rabbitmq-clean-stop.md.
"""

from msgspec import Struct

from sprocket.rabbitmq.codec.checked_json import CheckedJson


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


_FILE = CheckedJson(b"SpC1", CleanSummary)
encode = _FILE.encode
decode = _FILE.decode
