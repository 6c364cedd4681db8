"""The messages of one durable queue: kept by its index, the large ones by the message store.

Theory of operation

Whatever happens to a message is noted in memory and in the write-ahead log's next write. A deliver
record is written with each message, as RabbitMQ does since 3.10; up to where messages may have been
delivered is one number, which a clean stop leaves to the next start.

Small messages come a few at a time, of each client and read. To make records of them, and to note
those, costs a third in one go (`TurnMessages`). So they wait for the log's next write, and whatever
else happens to their queue appends them before.

An acknowledgement names the sequence id of its message. Which message of the store that is, and how
large its body was, is known of all that were published or read in this life. Of others it is looked
up in their segment before the next flush, which may remove that; the store keeps them until then.

Invariants

1. The store counts a reference for each message of the index that lies there, plus those whose ids
   are still to be looked up.
2. What cannot be read, or is not what was stored, is never given out; it stays where it is.
3. What was published is in a log's write that comes after it, and in its place among all that
   happens to the queue. What waits for that is small, and nothing can refuse it any more.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Struct

from sprocket.base import log
from sprocket.base.disk import StepsTo
from sprocket.base.errors import CorruptRecord, StoreError
from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store.body_sizes import BodySizes
from sprocket.rabbitmq.store.message_store import MessageStore
from sprocket.rabbitmq.store.queue_index import IndexEntry, QueueIndex, SegmentState
from sprocket.rabbitmq.store.recovery import RecoveredQueue
from sprocket.rabbitmq.store.write_ahead import WriteAheadLog

_log = log.get_logger(__name__)


class StoredEntry(Struct, frozen=True, gc=False):
    """A message as it is read back.

    Attributes:
        seq_id: Its number in the queue.
        message: What was published.
        expires_at_us: When it expires, microseconds since 1970; None for never.
        is_delivered: Somebody may have had it.
    """

    seq_id: int
    message: BasicMessage
    expires_at_us: int | None
    is_delivered: bool


class WithdrawnMessage(NamedTuple):
    """A message that was taken out of the queue, since it was refused.

    Attributes:
        id: Its id.
        body_bytes: The size of its body.
    """

    id: bytes
    body_bytes: int


ARRIVED_MAX: Final = 1000
"""Messages of all queues that may wait to be appended, some 10 ms: more make it no cheaper."""

_AROUND_BODY_BYTES: Final = 300
"""What a record has beside the body, as clients send messages."""


class TurnMessages:
    """What was published since the log's last write.

    A message that goes to several queues is embedded in the index of each; its stored form is made
    once.
    """

    def __init__(self) -> None:
        self._terms: dict[bytes, bytes] = {}
        self._waiting: dict[StoredQueue, None] = {}
        self._arrived = 0

    def terms(self, messages: Sequence[BasicMessage]) -> list[bytes]:
        """Return the terms of messages. Raises StoreError for a float that Erlang does not have."""
        known = self._terms
        missing = [one for one in messages if one.id not in known]
        if missing:
            made = message_term.encode_all(missing)
            if len(missing) == len(messages):
                known.update(zip([one.id for one in missing], made, strict=True))
                return made
            known.update(zip([one.id for one in missing], made, strict=True))
        return [known[one.id] for one in messages]

    def arrived(self, queue: "StoredQueue", count: int) -> None:
        """Note that a queue appends this many more messages, with the next write at the latest."""
        self._waiting[queue] = None
        self._arrived += count
        if self._arrived >= ARRIVED_MAX:
            self.append_arrived()

    def append_arrived(self) -> None:
        """Append what has arrived in all queues."""
        waiting, self._waiting, self._arrived = self._waiting, {}, 0
        for queue in waiting:
            queue.append_arrived()

    def write(self) -> None:
        """Give the log what it has not got yet, and forget all."""
        self.append_arrived()
        self._terms = {}

    def begin_sync(self) -> None:
        """Do nothing: there is nothing to sync."""


@dataclass(frozen=True, slots=True)
class QueueSurroundings:
    """What all queues of a virtual host share.

    Attributes:
        log: What makes durable what they do.
        store: What has their large messages.
        turn: What was published since the log's last write.
        embed_bytes_below: From which size on the store has a message.
        entry_count: Messages of a segment.
        touched: Queues that something happened to since this was looked at.
        full: Queues that are to be flushed without waiting until they are idle.
    """

    log: WriteAheadLog
    store: MessageStore
    turn: TurnMessages
    embed_bytes_below: int
    entry_count: int
    touched: "dict[StoredQueue, None]" = field(default_factory=dict)
    full: "dict[StoredQueue, None]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _PurgedSegment:
    """A segment that was purged, and what was known of its messages then."""

    state: SegmentState
    sizes: BodySizes


class StoredQueue:
    """See the head of the module; what `broker` calls a queue's storage.

    Args:
        name: What it is called, with its priority if it is one of several.
        mine: Its index.
        around: What it shares with the others.
        found: How it was found at the start.
        reference: Its id in the message store of a RabbitMQ: 16 bytes.

    Attributes:
        name: As given.
        index: As given.
        next_seq_id: Larger than all that were ever used.
        reference: As given.
        is_removed: It was deleted, and its folder is to go.
        unreadable: Why messages cannot be given out, by sequence id.
    Threads: one at a time; calls that steps give may run elsewhere.
    """

    def __init__(
        self,
        name: QueueName | None,
        mine: QueueIndex,
        around: QueueSurroundings,
        found: RecoveredQueue,
        reference: bytes,
    ) -> None:
        self.name = name
        self.index = mine
        self.next_seq_id = found.next_seq_id
        self.reference = reference
        self.is_removed = False
        self.unreadable: dict[int, str] = {}
        self._around = around
        self._delivered_end = found.next_deliver_seq_id
        self._count = found.message_count
        self._body_bytes = found.body_bytes
        self._sizes = BodySizes(around.entry_count)
        self._stored: dict[int, bytes] = {}
        """Ids of messages that lie in the store, by sequence id, as far as they are known."""
        self._to_look_up: set[int] = set()
        """Messages that were acknowledged, and of which nothing is known."""
        self._reads: list[set[int]] = []
        """For each read that is under way, what was acknowledged meanwhile."""
        self._purges = 0
        self._purged: list[_PurgedSegment] = []
        """Segments that were purged, perhaps with messages of which nothing is known."""
        self._known_from = found.next_seq_id
        """Of messages from this on everything is known."""
        self._arrived: list[BasicMessage] = []
        """Messages up to `next_seq_id` that are still to be appended."""
        if found.journal:
            self._replay(found.journal)

    def _replay(self, journal: bytes) -> None:
        """Note the records above the segments, which the counts include."""
        for seq_id, record in self.index.replay_journal(journal):
            self._note(seq_id, index.decode_publish(record, 0, is_segment=False))

    # -- what the broker calls

    def publish(
        self,
        first_seq_id: int,
        messages: Sequence[BasicMessage],
        *,
        expires_at_us: int | None,
        is_delivered: bool,
    ) -> None:
        """Keep persistent messages under numbers from the first on, larger than all before.

        One that goes to several queues is given to each; large ones are stored once.

        Raises:
            StoreError: One cannot be stored; nothing has changed.
        Durability: with the log's next write and sync, as all that follows.
        """
        around = self._around
        limit = around.embed_bytes_below
        sizes = [one.body_size for one in messages]
        if first_seq_id != self.next_seq_id:
            self.append_arrived()
        if expires_at_us is None and message_term.are_plain(messages, limit):
            self._arrived += messages
            self._note_published(first_seq_id, sizes, is_delivered=is_delivered)
            around.log.expect(_expected_bytes(sizes))
            around.turn.arrived(self, len(messages))
            return
        self.append_arrived()
        terms = self._terms(messages, first_seq_id)
        self._append(first_seq_id, messages, sizes, terms, expires_at_us or 0)
        self._note_published(first_seq_id, sizes, is_delivered=is_delivered)

    def append_arrived(self) -> None:
        """Give the index, and so the log, what was published and waits for that."""
        messages, self._arrived = self._arrived, []
        if not messages:
            return
        around = self._around
        sizes = [one.body_size for one in messages]
        around.log.expect(-_expected_bytes(sizes))
        terms = around.turn.terms(messages)
        self._append(self.next_seq_id - len(messages), messages, sizes, terms, 0)

    def _append(
        self,
        first_seq_id: int,
        messages: Sequence[BasicMessage],
        sizes: Sequence[int],
        terms: Sequence[bytes],
        expiry_us: int,
    ) -> None:
        """Put messages into the index, and so into the log."""
        ids = [one.id for one in messages]
        records = index.publishes(first_seq_id, ids, expiry_us, sizes, terms)
        self.index.publish_all(first_seq_id, records)
        self._sizes.put_all(first_seq_id, sizes)
        if self.index.is_flush_due:
            self._around.full[self] = None

    def _note_published(
        self, first_seq_id: int, sizes: Sequence[int], *, is_delivered: bool
    ) -> None:
        self.next_seq_id = first_seq_id + len(sizes)
        origin = self.index.origin
        if origin.unwritten_from < 0:
            origin.unwritten_from = first_seq_id
        if is_delivered:
            self._delivered_end = self.next_seq_id
        self._count += len(sizes)
        self._body_bytes += sum(sizes)
        self._around.touched[self] = None

    def _terms(self, messages: Sequence[BasicMessage], first_seq_id: int) -> list[bytes]:
        """Give large messages to the store; return the terms of the others, and nothing of them."""
        around = self._around
        limit = around.embed_bytes_below
        embedded = [message_term.is_embedded(one, limit) for one in messages]
        small = iter(
            around.turn.terms(
                [m for m, is_small in zip(messages, embedded, strict=True) if is_small]
            )
        )
        large = {
            m.id: b"" if m.id in around.store else message_term.encode(m)
            for m, is_small in zip(messages, embedded, strict=True)
            if not is_small
        }
        found: list[bytes] = []
        for seq_id, (message, is_small) in enumerate(
            zip(messages, embedded, strict=True), first_seq_id
        ):
            if is_small:
                found.append(next(small))
                continue
            around.store.add(message.id, large[message.id])
            self._stored[seq_id] = message.id
            found.append(b"")
        return found

    def deliver(self, seq_ids: Sequence[int]) -> None:
        """Note that messages may have been seen.

        After a clean stop those below the highest of them are redelivered, after a crash all.
        """
        if seq_ids:
            self._delivered_end = max(self._delivered_end, max(seq_ids) + 1)

    def ack(self, seq_ids: Sequence[int]) -> None:
        """Remove messages; each is named once.

        Raises:
            CorruptRecord: One is not there; nothing has changed for it and those after it.
        """
        around, size_of, stored = self._around, self._sizes.get, self._stored
        self.append_arrived()
        self.index.ack(seq_ids)
        self._count -= len(seq_ids)
        gone: list[bytes] = []
        for seq_id in seq_ids:
            size = size_of(seq_id)
            if size is None:
                self._to_look_up.add(seq_id)
                continue
            self._body_bytes -= size
            if stored and (message_id := stored.pop(seq_id, None)) is not None:
                gone.append(message_id)
        if gone:
            around.store.remove(gone)
        for one in self._reads:
            one.update(seq_ids)
        for seq_id in self.unreadable.keys() & set(seq_ids) if self.unreadable else ():
            del self.unreadable[seq_id]
        around.touched[self] = None
        if self.index.is_flush_due:
            around.full[self] = None

    @property
    def unwritten_from(self) -> int:
        """The first number of what no write of the log has taken along; -1 if there is nothing."""
        return self.index.origin.unwritten_from

    def withdraw(self, message_ids: Container[bytes]) -> "dict[int, WithdrawnMessage]":
        """Remove messages that were refused, since the write after them has failed.

        What is not written yet is as if it had never come.

        Args:
            message_ids: Of messages that were published since the write before the last one.

        Returns:
            Those that were there, by number.
        """
        self.append_arrived()
        origin = self.index.origin
        unwritten = self.next_seq_id if origin.unwritten_from < 0 else origin.unwritten_from
        start = unwritten if origin.written_from < 0 else origin.written_from
        found: dict[int, WithdrawnMessage] = {}
        for seq_id, data in self.index.unflushed(start, self.next_seq_id):
            record = index.decode_publish(data, 0, is_segment=False)
            if record.message_id in message_ids:
                found[seq_id] = WithdrawnMessage(record.message_id, record.body_size)
        written = [seq_id for seq_id in found if seq_id < unwritten]
        if written:
            self.ack(written)
        fresh = [seq_id for seq_id in found if seq_id >= unwritten]
        self.index.withdraw(fresh)
        self._count -= len(fresh)
        self._body_bytes -= sum([found[seq_id].body_bytes for seq_id in fresh])
        stored = [one for seq_id in fresh if (one := self._stored.pop(seq_id, None)) is not None]
        if stored:
            self._around.store.withdraw(stored)
        for reading in self._reads:
            reading.update(fresh)
        self._around.touched[self] = None
        return found

    def read(self, start: int, end: int) -> StepsTo[list[StoredEntry]]:
        """Return the messages with a number from `start` up to before `end`, in order.

        What cannot be read, or is not what was stored, is left out and stays in the files: see
        `unreadable`; it is not counted any more.

        Raises:
            DiskFailed: A segment cannot be read.
        """
        self.append_arrived()
        found: list[IndexEntry] = []
        for number in self.index.numbers(start, end):
            some = yield from self.index.segment_steps(number)
            entries = some.between(start, end)
            found += entries
            for one in entries:
                if one.seq_id >= self._known_from:
                    break
                if self._sizes.get(one.seq_id) is None:
                    self._note(one.seq_id, one.record)
        ids = [one.record.message_id for one in found if not one.record.term]
        stored = {}
        gone: set[int] = set()
        purges = self._purges
        if ids:
            self._reads.append(gone)
            try:
                terms = yield from self._around.store.read_steps(ids)
            finally:
                self._reads = [one for one in self._reads if one is not gone]
            stored = dict(zip(ids, terms, strict=True))
        read: list[StoredEntry] = []
        decode = message_term.MessageDecoder().decode
        for one in found:
            record = one.record
            term = record.term or stored[record.message_id]
            try:
                if isinstance(term, StoreError):
                    raise term
                message = decode(term)
                if message.id != record.message_id:
                    raise CorruptRecord(
                        f"expected message {record.message_id.hex()}, found {message.id.hex()}"
                    )
            except StoreError as error:
                if one.seq_id not in gone and purges == self._purges:
                    self._note_unreadable(one.seq_id, str(error))
                continue
            if self.unreadable:  # the disk may be able to read them now
                self.unreadable.pop(one.seq_id, None)
            read.append(
                StoredEntry(
                    one.seq_id,
                    message,
                    record.expiry_us or None,
                    one.seq_id < self._delivered_end,
                )
            )
        return read

    def _note_unreadable(self, seq_id: int, why: str) -> None:
        """Note that a message cannot be delivered, and report it once."""
        if seq_id not in self.unreadable:
            _log.error(
                "a message cannot be given out; it stays in the files, and is not counted",
                queue=None if self.name is None else self.name.name,
                number=seq_id,
                why=why,
            )
        self.unreadable[seq_id] = why

    def size_of(self, seq_id: int) -> int:
        """Return the size of the body of a message that was published or read; 0 of others."""
        return self._sizes.get(seq_id) or 0

    def _note(self, seq_id: int, record: index.PublishRecord) -> None:
        """Note what is to be known of a message when it is acknowledged."""
        self._sizes.put(seq_id, record.body_size)
        if not record.term:
            self._stored[seq_id] = record.message_id

    def unacked_count(self) -> int:
        """Return how many messages there are that can be given out, as far as it is known."""
        return self._count - len(self.unreadable)

    def purge(self) -> None:
        """Remove all messages."""
        self.append_arrived()
        states = self.index.forget()
        self._purges += 1
        store, entry_count = self._around.store, self._around.entry_count
        store.remove(self._stored.values())
        if len(store):
            self._purged += [
                _PurgedSegment(one, self._sizes)
                for one in states
                if one.number * entry_count < self._known_from
            ]
        self._stored, self._sizes = {}, BodySizes(entry_count)
        self._count = self._body_bytes = 0
        self.unreadable = {}
        self._around.touched[self] = None

    def remove(self) -> StepsTo[None]:
        """Remove all messages and files; the next flush removes the folder.

        Raises:
            DiskFull, DiskFailed, StoreFailed: It may come back after a crash.
        Durability: when it ends nothing comes back.
        """
        self.purge()
        self.is_removed = True
        self._around.full[self] = None
        yield from self._around.log.commit_steps()

    # -- what the virtual host calls

    @property
    def delivered_end(self) -> int:
        """Messages with smaller numbers may have been delivered."""
        return min(self._delivered_end, self.next_seq_id)

    @property
    def body_bytes(self) -> int:
        """Bytes of the bodies; those of messages that are still to be looked up count."""
        return self._body_bytes

    @property
    def message_count(self) -> int:
        """Messages, those that cannot be read included."""
        return self._count

    @property
    def has_to_look_up(self) -> bool:
        """Whether a flush must wait for `look_up_steps`."""
        return bool(self._to_look_up or self._purged)

    def look_up_steps(self) -> StepsTo[None]:
        """Find out of messages that are gone what the store had of them.

        Raises:
            DiskFailed: A segment cannot be read; what was not looked up still is to be.
        """
        while self._to_look_up:
            wanted = sorted(self._to_look_up)
            found = yield from self.index.published_steps(wanted)
            for record in found.values():
                self._body_bytes -= record.body_size
            self._forget(record.message_id for record in found.values() if not record.term)
            self._to_look_up.difference_update(wanted)
        while self._purged:
            one = self._purged[0]
            some = yield from self.index.void_steps(one.state)
            entries = [some.entry(row) for row in range(len(some.relative_ids))]
            self._forget(
                entry.record.message_id
                for entry in entries
                if not entry.record.term and one.sizes.get(entry.seq_id) is None
            )
            self._purged.pop(0)

    def _forget(self, message_ids: Iterable[bytes]) -> None:
        store = self._around.store
        store.remove([one for one in message_ids if one in store])

    def keep_sizes(self) -> None:
        """Forget what is known of segments that were removed."""
        self._sizes.keep(self.index.unacked)


def _expected_bytes(sizes: Sequence[int]) -> int:
    """Return about how much messages add to the log."""
    return sum(sizes) + len(sizes) * _AROUND_BODY_BYTES
