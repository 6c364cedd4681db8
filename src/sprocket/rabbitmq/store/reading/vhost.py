"""A virtual host's folder, looked at while no server has it open. Nothing is written.

What is asked for is read; what cannot be read is kept in `faults`, and the rest continues. A fault
of a single message is told with it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import groupby

import numpy as np

from sprocket.base import release
from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, DiskFailed, FileMissing, ForeignStore, StoreError
from sprocket.rabbitmq.codec import message_term
from sprocket.rabbitmq.codec.index import MessagePlace
from sprocket.rabbitmq.codec.store import QueueTerms, clean_stop, recovery_terms
from sprocket.rabbitmq.model.message import ID_BYTES, BasicMessage
from sprocket.rabbitmq.model.names import QueueName, name_text
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.damage import FileDamage
from sprocket.rabbitmq.store.delayed import WaitingMessages
from sprocket.rabbitmq.store.layout import VhostLayout, vhost_folder, write_ahead_file
from sprocket.rabbitmq.store.queue_index import stored_term, sums
from sprocket.rabbitmq.store.reading.faults import FaultyReads
from sprocket.rabbitmq.store.reading.index_rows import (
    EMBEDDED,
    IndexRows,
    Mask,
    RowSource,
    chosen,
    has_v2,
    left_by_segment,
    read_rows,
)
from sprocket.rabbitmq.store.reading.shared_messages import MessageMissing, SharedMessages
from sprocket.rabbitmq.store.write_ahead import NO_LOG, WriteAheadContents, read_log

_HASHED = re.compile("[0-9A-Z]{20,25}")
"""How a folder is called that a server has made."""


class MessageState(Enum):
    """What became of a message."""

    PUBLISHED = "published"
    """Nobody got it yet."""
    DELIVERED = "delivered"
    """A consumer may have got it: it will be redelivered."""
    ACKNOWLEDGED = "acknowledged"
    """It has left the queue; its record stays until the whole segment goes."""


_STATES = tuple(MessageState)


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message in a queue.

    Attributes:
        queue: Where it was found; with its priority if the queue has several.
        seq_id: Its number in the queue, of this priority.
        state: What became of it.
        is_persistent: Whether it outlives a restart.
        expiry_us: When it expires, microseconds since 1970; 0 for never.
        body_size: Bytes of its body, as the index says.
        path: The file that names it.
        position: Where: bytes into that file.
        message: The message itself; None if it cannot be read.
        fault: Why it cannot be read; empty if it can.
    """

    queue: QueueName
    seq_id: int
    state: MessageState
    is_persistent: bool
    expiry_us: int
    body_size: int
    path: str
    position: int
    message: BasicMessage | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class FoundDelayed:
    """A message that an exchange keeps until it is due.

    Attributes:
        exchange: Which one.
        number: What it is called there.
        due_at_us: When it is due by the wall clock, microseconds since 1970.
        message: The message itself; None if it cannot be read.
        fault: Why it cannot be read; empty if it can.
    """

    exchange: str
    number: int
    due_at_us: int
    message: BasicMessage | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class QueuePart:
    """A queue, or one of its priorities.

    Attributes:
        queue: What it is called; its folder's name stands for a name that cannot be known.
        folder: The name of its folder.
        is_v2: Whether it has an index of version 2.
        terms: What it left at a clean stop; None after a crash.
    """

    queue: QueueName
    folder: str
    is_v2: bool
    terms: QueueTerms | None


@dataclass(frozen=True, slots=True)
class FoundQueue:
    """A queue with all of its priorities, in the order in which they are delivered."""

    vhost: str
    name: str
    parts: tuple[QueuePart, ...]

    @property
    def stopped_cleanly(self) -> bool:
        """Whether all of it was written when it was stopped."""
        return all(part.terms is not None for part in self.parts)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What the index of a queue says in all, without the messages themselves."""

    published: int
    delivered: int
    acknowledged: int
    """Of which records are left."""
    transient: int
    """Messages that do not outlive a restart, counted nowhere else."""
    embedded: int
    """Messages in the index itself, of those published and delivered."""
    body_bytes: int
    """Of those published and delivered."""


class VhostReader:
    """The folder of one virtual host.

    Args:
        disk: Where.
        folder: The folder.
        compares_sums: The index of a queue is compared with its checksums, where it has any.

    Raises:
        ForeignStore: It is not such a folder.
    """

    def __init__(self, disk: Disk, folder: str, *, compares_sums: bool = True) -> None:
        self.disk = disk
        self._compares_sums = compares_sums
        self.layout = VhostLayout(folder.rstrip("/"))
        self._reads = FaultyReads(disk)
        self._persistent = SharedMessages(self._reads, self.layout.persistent, self._log_sums)
        self._transient = SharedMessages(self._reads, self.layout.transient)
        if not _is_vhost(disk, self.layout.root):
            raise ForeignStore(f"{folder}: no folder of a virtual host of RabbitMQ")
        for wrong in release.require(disk, self.layout.root):
            self._reads.tell(f"{self.layout.root}/{release.FILE}", 0, wrong)

    @property
    def faults(self) -> list[FileDamage]:
        """What was wrong so far, besides single messages."""
        return self._reads.faults

    def close(self) -> None:
        """Close the files that it has open."""
        self._persistent.close()
        self._transient.close()

    @cached_property
    def name(self) -> str:
        """The virtual host's name; that of its folder if it cannot be known.

        The folder's name says which one it is, unless somebody has called it something else. So do
        the queues, of which each has the name.
        """
        data = self._reads.read(self.layout.name)
        folder = self.layout.root.rpartition("/")[2]
        names = {part.queue.vhost for part in self._parts if part.queue.vhost}
        if not data:  # a crash may have left an empty file
            return names.pop() if len(names) == 1 else folder
        found = name_text(data)
        if vhost_folder(found) == folder:
            return found
        known = next((one for one in names if vhost_folder(one) == folder), None)
        if known is not None or _HASHED.fullmatch(folder):
            expected = "the name that the folder is called by" if known is None else repr(known)
            self._reads.tell(self.layout.name, 0, f"expected {expected}, found {found!r}")
        elif names and found not in names:
            expected = " or ".join(map(repr, sorted(names)))
            self._reads.tell(self.layout.name, 0, f"expected {expected}, found {found!r}")
        return found if known is None else known

    @cached_property
    def segment_entry_count(self) -> int:
        """Entries of each segment of version 1."""
        data = self._reads.read(self.layout.config)
        if data is None:
            return clean_stop.SEGMENT_ENTRIES_MAX
        try:
            return clean_stop.decode_config(data)
        except CorruptRecord as error:
            self._reads.tell(self.layout.config, 0, str(error))
            return clean_stop.SEGMENT_ENTRIES_MAX

    @cached_property
    def terms(self) -> dict[str, QueueTerms]:
        """What the queues left at a clean stop, by their folders; also of those without one."""
        data = self._reads.read(self.layout.recovery_terms)
        if data is None:
            return {}
        try:
            found = recovery_terms.decode(data)
        except CorruptRecord as error:
            self._reads.tell(self.layout.recovery_terms, 0, str(error))
            return {}
        for fault in found.faults:
            self._reads.tell(self.layout.recovery_terms, 0, fault)
        return found.queues

    @cached_property
    def _log(self) -> WriteAheadContents:
        """What our log has that is not in the queues' own files yet; RabbitMQ has none."""
        try:
            found = read_log(self.disk, self.layout.root)
        except DiskFailed as error:
            self._reads.tell(error.path or self.layout.root, 0, str(error))
            return NO_LOG
        if found.is_void:
            what = "a RabbitMQ has run since it was written; it does not count"
            self._reads.tell(write_ahead_file(self.layout.root, found.numbers[0]), 0, what)
        for finding in found.findings:
            self._reads.tell(self.layout.root, 0, finding)
        return found

    @cached_property
    def _are_sums_void(self) -> bool:
        """Whether the checksums of the index say nothing: nobody asks, or they are older.

        They are if a RabbitMQ has run since they were written.
        """
        if not self._compares_sums:
            return True
        try:
            return sums.are_void(self.disk, self.layout)
        except DiskFailed as error:
            self._reads.tell(error.path or self.layout.root, 0, str(error))
            return False

    def _log_sums(self) -> bytes:
        """Return the checksums of stored messages that our log has."""
        return self._log.store_sums

    @cached_property
    def _parts(self) -> list[QueuePart]:
        disk = self._reads.disk
        parts = []
        begun = (folder for folder, tail in self._log.tails.items() if tail.records)
        folders = {*disk.folders(self.layout.queues), *begun} - {
            layout.STORE_ORIGIN,
            layout.DELAYED_ORIGIN,
        }
        for folder in sorted(folders):
            paths = self.layout.queue(folder)
            queue = QueueName("", folder)
            data = self._reads.read(paths.name)
            said = self._log.tail(folder).queue_name
            if data is not None or said:
                try:
                    queue = layout.decode_queue_name(said or data or b"", folder)
                except CorruptRecord as error:
                    self._reads.tell(paths.name, 0, str(error))
            is_v2 = has_v2(disk.list(paths.root))
            parts.append(QueuePart(queue, folder, is_v2, self.terms.get(folder)))
        return parts

    def queues(self) -> list[FoundQueue]:
        """Return every queue that has a folder, by name; the parts with the highest priority first.

        A durable queue that was never written to has no folder.
        """

        def key(part: QueuePart) -> tuple[str, str]:
            return part.queue.vhost, part.queue.name

        def urgency(part: QueuePart) -> int:
            return -(part.queue.priority or 0)

        return [
            FoundQueue(vhost or self.name, name, tuple(sorted(parts, key=urgency)))
            for (vhost, name), parts in groupby(sorted(self._parts, key=key), key=key)
        ]

    def count(self, queue: FoundQueue) -> QueueCounts:
        """Add up what the index of a queue says."""
        counts = [0] * 6
        for part in queue.parts:
            for rows in self.rows(part):
                is_here = ~rows.is_acked & rows.is_persistent
                is_old = is_here & self._was_delivered(part, rows)
                counted = (
                    np.count_nonzero(is_here & ~is_old),
                    np.count_nonzero(is_old),
                    np.count_nonzero(rows.is_acked),
                    np.count_nonzero(~rows.is_acked & ~rows.is_persistent),
                    np.count_nonzero(is_here & (rows.places == EMBEDDED)),
                    rows.body_sizes[is_here].sum(),
                )
                counts = [before + int(more) for before, more in zip(counts, counted, strict=True)]
        return QueueCounts(*counts)

    def rows(self, part: QueuePart) -> Iterator[IndexRows]:
        """Give what the index of a part says, as columns, a segment at a time."""
        yield from read_rows(
            self._reads,
            self.layout.queue(part.folder),
            self.segment_entry_count,
            self._log.tail(part.folder),
            are_sums_void=self._are_sums_void,
        )

    def rows_of_all(self, part: QueuePart) -> Iterator[IndexRows]:
        """Do the same, and report at the end which messages of a clean stop the index lacks.

        A segment that is cut short or missing leaves an index that looks whole.
        """
        left: Counter[int] = Counter()
        for rows in self.rows(part):
            left += left_by_segment(rows, self.segment_entry_count)
            yield rows
        terms = self.terms.get(part.folder)
        if terms is None:
            return
        paths = self.layout.queue(part.folder)
        for number, count in sorted(terms.segments.items()):
            if left[number] < count:
                path = paths.segment_v2(number) if terms.is_v2 else paths.segment(number)
                missing = f"{count - left[number]} of {count} messages are missing"
                self._reads.tell(path, 0, f"{missing}, which were there at the clean stop")

    def tell_missing_queues(self) -> None:
        """Tell which folders of queues are missing that had messages at the clean stop."""
        known = {part.folder for part in self._parts}
        for folder in sorted(self.terms.keys() - known):
            count = sum(self.terms[folder].segments.values())
            if count:
                what = f"the folder of a queue is missing, with {count} messages at the clean stop"
                self._reads.tell(self.layout.queue(folder).root, 0, what)

    def messages(
        self, queue: FoundQueue, *, with_gone: bool = False, seq_id: int | None = None
    ) -> Iterator[FoundMessage]:
        """Give the messages of a queue in the order in which they will be delivered.

        Args:
            queue: One of `queues`.
            with_gone: Give also those that no server would have after a start: acknowledged and
                transient ones.
            seq_id: Give only those with this sequence id, one for each priority.
        """
        for part in queue.parts:
            name = QueueName(queue.vhost, queue.name, part.queue.priority)
            for rows in self.rows(part):
                is_wanted = (~rows.is_acked & rows.is_persistent) | with_gone
                if seq_id is not None:
                    is_wanted &= rows.seq_ids == seq_id
                yield from self._messages(name, part, chosen(rows, is_wanted))

    def _messages(
        self, name: QueueName, part: QueuePart, rows: IndexRows
    ) -> Iterator[FoundMessage]:
        numbers = np.where(rows.is_acked, 2, self._was_delivered(part, rows))
        message_ids = rows.message_ids.tobytes()
        for row, (seq_id, number, is_persistent, expiry_us, body_size, source, record) in enumerate(
            zip(
                rows.seq_ids.tolist(),
                numbers.tolist(),
                rows.is_persistent.tolist(),
                rows.expiry_us.tolist(),
                rows.body_sizes.tolist(),
                rows.sources.tolist(),
                rows.records.tolist(),
                strict=True,
            )
        ):
            message, fault = None, ""
            message_id = message_ids[ID_BYTES * row : ID_BYTES * (row + 1)]
            try:
                message = message_term.decode(self._term(rows, row, message_id))
                if message.id != message_id and any(message_id):
                    text = f"expected {message_id.hex()}, found {message.id.hex()}"
                    message = None
                    raise CorruptRecord(text)
            except StoreError as error:
                fault = str(error)
            yield FoundMessage(
                name,
                seq_id,
                _STATES[number],
                is_persistent,
                expiry_us,
                body_size,
                rows.files[source].path,
                record,
                message,
                fault,
            )

    def waiting(self) -> WaitingMessages:
        """Return what exchanges keep until it is due, as it is stored."""
        records = self._log.tail(layout.DELAYED_ORIGIN).records
        return WaitingMessages(self.disk, self.layout.delayed, records)

    def delayed(self) -> Iterator[FoundDelayed]:
        """Give the messages that exchanges keep, in the order in which they are due."""
        waiting = self.waiting()
        for one in waiting:
            message, fault = None, ""
            try:
                message = message_term.decode(one.term)
            except StoreError as error:
                fault = str(error)
            due_at_us = waiting.due_at_us(one)
            yield FoundDelayed(one.exchange, one.number, due_at_us, message, fault)
        for text in waiting.faults:
            self._reads.tell(self.layout.delayed.root, 0, text)

    def positions(self, message_id: bytes) -> list[tuple[str, int]]:
        """Return where each copy of a persistent message is in the store: file and position."""
        return self._persistent.positions(message_id)

    def _was_delivered(self, part: QueuePart, rows: IndexRows) -> Mask:
        """Say which messages will be redelivered: after a crash, all of them."""
        if part.terms is None:
            return np.ones(len(rows), np.bool_)
        next_id = part.terms.next_deliver_seq_id
        return rows.is_delivered if next_id is None else rows.seq_ids < next_id

    def _term(self, rows: IndexRows, row: int, message_id: bytes) -> bytes:
        """Return the term of a message, from wherever it is."""
        place, start, size = int(rows.places[row]), int(rows.positions[row]), int(rows.sizes[row])
        if place == EMBEDDED:
            file: RowSource = rows.files[rows.sources[row]]
            return file.data[start : start + size]
        if place == MessagePlace.QUEUE_STORE:
            return self._stored_near(rows.files[1].path, start, size)
        if place == MessagePlace.SHARED_STORE:
            return self._shared(message_id, bool(rows.is_persistent[row]))
        raise MessageMissing("the message was in memory only")

    def _shared(self, message_id: bytes, is_persistent: bool) -> bytes:
        stores = (self._persistent, self._transient)
        first, second = stores if is_persistent else stores[::-1]
        try:
            return first.term(message_id)
        except MessageMissing:
            if is_persistent:
                raise
            return second.term(message_id)

    def _stored_near(self, path: str, start: int, size: int) -> bytes:
        try:
            file = self._reads.disk.open(path)
        except FileMissing:
            raise MessageMissing(f"{path} is missing") from None
        try:
            return stored_term(file, start, size)
        finally:
            file.close()


def vhost_folders(disk: Disk, folder: str) -> list[str]:
    """Return the folders of virtual hosts in a folder, which may be one itself.

    Args:
        disk: Where it is.
        folder: Of a virtual host, of all of them, or of a node's data: RabbitMQ's, or what
            `sprocket up` is given.
    """
    folder = folder.rstrip("/")
    for below in ("", "/vhosts", "/msg_stores/vhosts", "/rabbitmq/msg_stores/vhosts"):
        root = folder + below
        found = [path for name in disk.folders(root) if _is_vhost(disk, path := f"{root}/{name}")]
        if _is_vhost(disk, root):
            return [root]
        if found:
            return found
    return []


def _is_vhost(disk: Disk, folder: str) -> bool:
    """Say whether a folder is that of a virtual host."""
    paths = VhostLayout(folder)
    known = (paths.name, paths.config, paths.recovery_terms)
    return disk.is_folder(paths.queues) or any(map(disk.exists, known))
