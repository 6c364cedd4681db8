"""What opening a virtual host's folder has found, and its report."""

from dataclasses import dataclass, field

import msgspec

from sprocket.base.folder_report import FolderReport
from sprocket.rabbitmq.store.delayed import DelayedContents
from sprocket.rabbitmq.store.message_store import StoreContents
from sprocket.rabbitmq.store.queue_index import KnownSegment
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog


class VhostReport(FolderReport, frozen=True, kw_only=True):
    """What was kept, cut, repaired and lost.

    Attributes:
        clean_stop: All of it was as a clean stop had left it, and nothing was looked at.
        segment_entries: Messages of a segment, as the folder says.
        queues: Queues that the folder has, each priority counted.
        messages: What they have; a message of several queues counts in each.
        body_bytes: Of their bodies.
        stored: Messages in the message store.
        delayed: Messages that exchanges keep until they are due.
        log_files: Files of the write-ahead log, whose records were brought into the queues' own.
        cut_bytes: Taken off the ends of the log, of segments and of the newest store file: what is
            not a record, or not whole, or what nobody needs.
        repaired_segments: Segments that RabbitMQ would not have started with.
        imported: Queues of version 2 that are of version 1 now, each priority counted.
        lost: Persistent messages that the message store should have had and has not, or that their
            queue's own files should have had.
        void_log: Files of a log that did not count, under the names that they have now.
        damage: What should not have been there, a sentence each.
        messages_by_folder: What each queue has, by the name of its folder; the empty ones not.
    """

    TABLES = (
        ("damage", "damaged"),
        ("void_log", "set aside"),
        ("messages_by_queue", "messages"),
    )
    HIDDEN = ("folder",)

    clean_stop: bool
    segment_entries: int
    queues: int
    messages: int
    body_bytes: int
    stored: int
    delayed: int = 0
    log_files: int = 0
    cut_bytes: int = 0
    repaired_segments: int = 0
    imported: int = 0
    lost: int = 0
    void_log: list[str] = msgspec.field(default_factory=list)
    damage: list[str] = msgspec.field(default_factory=list)
    messages_by_folder: dict[str, int] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecoveredQueue:
    """A queue, or one of its priorities, to continue with.

    Attributes:
        segments: What there is.
        next_seq_id: The sequence id that the next message gets.
        next_deliver_seq_id: Messages with smaller ones may have been delivered.
        message_count: Messages.
        body_bytes: Of their bodies.
        reference: Its id in the message store; None for a new one.
        journal: Records above its segments, which `message_count` includes: its journal.jif, or
            what the log has.
        origin: What has them in the log; None if they are its journal.jif.
        has_name: There is a .queue_name.
    """

    segments: dict[int, KnownSegment] = field(default_factory=dict)
    next_seq_id: int = 0
    next_deliver_seq_id: int = 0
    message_count: int = 0
    body_bytes: int = 0
    reference: bytes | None = None
    journal: bytes = b""
    origin: Origin | None = None
    has_name: bool = False


@dataclass(frozen=True, slots=True)
class RecoveredVhost:
    """All that is needed to go on.

    Attributes:
        queues: By the names of their folders.
        store: What the message store has.
        delayed: What exchanges keep.
        report: For people.
        log: The log, if some queues' records are in it; else there is none.
    """

    queues: dict[str, RecoveredQueue]
    store: StoreContents
    delayed: DelayedContents
    report: VhostReport
    log: WriteAheadLog | None = None
