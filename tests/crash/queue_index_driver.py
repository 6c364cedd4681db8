"""Queues' indexes under random operations and crashes, beside a list of what must be true.

It calls what `store.stored_queue`, `store.vhost` and `store.recovery` call, in their order.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from sprocket.base.disk import Call, Steps, steps
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.store import message_store
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.message_store import MessageStore, collect_steps
from sprocket.rabbitmq.store.queue_index import (
    IndexEntry,
    IndexLimits,
    IndexRecovery,
    KnownSegment,
    QueueIndex,
    close_steps,
    flush_steps,
)
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log, sync_log
from sprocket.testing.disk import SimulatedDisk

ROOT = "/v"
QUEUES = ("A", "B", "C")
LIMITS = IndexLimits(entry_count=4, journal_records_max=9)
LOG_FILE_BYTES = 1500
STORE_FILE_BYTES = 500
STORE = "msg_store_persistent"
REFERENCES = (bytes(16),)
END = 1 << 62


class LostMessage(AssertionError):
    """A promise was broken."""


def stored_term(number: int, size: int) -> bytes:
    """Return a message for the store, which says which one it is."""
    content = b"stored %d " % number * (1 + size)
    return b"\x83h\x06d\0\x0dbasic_message" + content + b"%016d" % number + b"d\0\4true"


def record(queue: str, seq_id: int, size: int) -> bytes:
    """Return a publish record that says whose it is."""
    term = b"\x83" + f"{queue}{seq_id}".encode() * (1 + size) + b"d\0\4true"
    return index.publish(seq_id, bytes(16), 0, size, term, is_persistent=True)


@dataclass
class QueueHistory:
    """What was done to one queue.

    Attributes:
        published: Each message's record; those that were removed with the queue are not here.
        durable: Those that must be there unless an ack was at least asked for.
        acking: Those for which one was.
        acked: Those that must be gone.
        purging: Those that may be gone, all or none.
        next_id: The next sequence id.
    """

    published: dict[int, bytes] = field(default_factory=dict)
    durable: set[int] = field(default_factory=set)
    acking: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    purging: set[int] = field(default_factory=set)
    next_id: int = 0

    @property
    def left(self) -> list[int]:
        """Those that it has."""
        return sorted(self.published.keys() - self.acking - self.purging)

    def commit(self) -> None:
        """Note that all is durable."""
        self.durable = set(self.published)
        self.acking |= self.purging
        self.acked = set(self.acking)
        self.purging = set()

    def check(self, found: Sequence[IndexEntry]) -> None:
        """Compare what is left with what must be and what may be."""
        ids = [one.seq_id for one in found]
        if ids != sorted(set(ids)):
            raise LostMessage(f"out of order: {ids}")
        for one in found:
            mine = self.published.get(one.seq_id)
            if mine is None or index.decode_publish(mine, 0, is_segment=False) != one.record:
                raise LostMessage(f"message {one.seq_id} is not what was published")
        if forgotten := self.acked & set(ids):
            raise LostMessage(f"acknowledged, and there again: {sorted(forgotten)}")
        missing = self.durable - self.acking - set(ids)
        if missing - self.purging:
            raise LostMessage(f"lost: {sorted(missing - self.purging)}; found {ids}")
        if missing and self.durable & self.purging & set(ids):
            raise LostMessage(f"a purge is half done: {ids}")


class IndexLife:
    """Indexes and store of one process, from opening to its end.

    Attributes:
        terms: Each message that the store was ever given, by id.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        histories: dict[str, QueueHistory],
        terms: dict[bytes, bytes],
    ) -> None:
        self.disk = disk
        self.histories = histories
        self.terms = terms
        self.paths = VhostLayout(ROOT)
        disk.make_folder(self.paths.queues)
        self.indexes: dict[str, QueueIndex] = {}
        self._flushing: Steps | None = None
        self._call: Call | None = None
        self._open()

    def _open(self) -> None:
        """Recover, and compare."""
        contents = read_log(self.disk, ROOT)
        sync_log(self.disk, ROOT, contents.numbers)
        folders = sorted({*QUEUES, *self.disk.folders(self.paths.queues)})
        recovery = IndexRecovery(self.disk, self.paths, LIMITS.entry_count, contents, folders)
        wanted = Counter(recovery.stored_ids())
        if contents.numbers:
            recovery.decide()
        paths = self.paths.persistent
        clean = message_store.open_clean(self.disk, paths, REFERENCES)
        if clean is None or contents.numbers:
            sums = contents.tails[STORE].records if STORE in contents.tails else []
            clean = message_store.recover(self.disk, paths, wanted, b"".join(sums)).contents
        found = recovery.run(lambda message_id: message_id in clean.messages)
        self.log = recovery.log or WriteAheadLog(self.disk, ROOT, LOG_FILE_BYTES)
        self.log.go_on(LOG_FILE_BYTES)
        self.store = MessageStore(
            self.disk, paths, self.log, Origin(STORE), clean, STORE_FILE_BYTES
        )
        counted: Counter[bytes] = Counter()
        for name, one in found.items():
            if one.damage:
                raise LostMessage(f"damage: {one.damage}")
            self._begin(name, one.segments)
            history, mine = self.histories[name], self.indexes[name]
            entries = self.read(mine)
            history.check(entries)
            if one.message_count != len(entries):
                raise LostMessage(f"counted {one.message_count} of {len(entries)}")
            for entry in entries:
                if not entry.record.term:
                    counted[entry.record.message_id] += 1
                    self.check_stored(entry.record.message_id)
            left = {entry.seq_id for entry in entries}
            history.published = {seq: history.published[seq] for seq in left}
            history.acking, history.purging = set(), set()
            history.commit()
            history.next_id = (max(one.segments, default=-1) + 1) * LIMITS.entry_count
        if counted != Counter({key: one.references for key, one in clean.messages.items()}):
            raise LostMessage("the store counts other references than there are")
        for number, file in self.store.files.items():
            sizes = [m.entry_bytes for m in clean.messages.values() if m.file == number]
            if sum(sizes) != file.valid_bytes:
                raise LostMessage(f"file {number} has not {file.valid_bytes} valid bytes")

    def check_stored(self, message_id: bytes) -> None:
        """See that the store gives what it was given."""
        if self.store.read(message_id) != self.terms[message_id]:
            raise LostMessage(f"{message_id.hex()} is another message")

    def _begin(self, name: str, segments: dict[int, KnownSegment]) -> None:
        paths = self.paths.queue(name)
        self.indexes[name] = QueueIndex(self.disk, paths, self.log, Origin(name), LIMITS, segments)

    def commit(self) -> None:
        """Make durable what was done."""
        self.log.commit()
        for history in self.histories.values():
            history.commit()

    def step(self, random: Random) -> None:
        """Do something."""
        name = random.choice(QUEUES)
        mine, history = self.indexes[name], self.histories[name]
        match random.choices(
            [
                *("publish", "publish to some", "ack", "commit", "flush", "flush all", "go on"),
                *("retire", "purge", "remove", "read", "collect", "sums"),
            ],
            [4, 9, 9, 6, 3, 1, 9, 2, 1, 0.3, 1, 5, 1],
        )[0]:
            case "publish":
                first = history.next_id + random.choice([0, 0, 0, 5])
                some = range(first, first + random.choice([1, 1, 2, 6]))
                records = [record(name, seq_id, random.choice([0, 3, 200])) for seq_id in some]
                self.publish(name, first, records)
            case "publish to some":
                self.publish_stored(random)
            case "collect":
                while steps.run(collect_steps(self.store)):
                    pass
            case "sums":
                steps.run(self.store.sums_steps())
            case "ack":
                acked = random.sample(
                    history.left, min(len(history.left), random.choice([1, 2, 9]))
                )
                history.acking |= set(acked)
                mine.ack(acked)
                self.store.remove(self.stored(history, acked))
            case "commit":
                self.commit()
            case "flush":
                self.flush([mine])
            case "flush all":
                self.flush([*self.indexes.values()])
            case "go on":
                self.go_on()
            case "retire":
                steps.run(self.log.retire_steps())
            case "purge":
                self.purge(name)
            case "remove":
                self.purge(name)
                self.commit()
                self.flush([mine])
                self.end_flush()
                if not mine.is_empty:
                    raise LostMessage("something is left of a queue that was removed")
                mine.remove_folder()
                next_id = history.next_id if random.random() < 0.5 else 0
                self.histories[name] = QueueHistory(next_id=next_id)
            case "read":
                self.check_read(name)

    def read(self, mine: QueueIndex) -> list[IndexEntry]:
        """Return all messages of a queue."""
        found: list[IndexEntry] = []
        for number in mine.numbers(0, END):
            found += steps.run(mine.segment_steps(number)).between(0, END)
        return found

    def check_read(self, name: str) -> None:
        """Read a queue, compare it with what it must have, and look up what its files have."""
        mine, history = self.indexes[name], self.histories[name]
        entries = self.read(mine)
        if [one.seq_id for one in entries] != history.left:
            raise LostMessage(f"read {entries}, expected {history.left}")
        for message_id in self.stored(history, history.left):
            self.check_stored(message_id)
        for number in mine.numbers(0, END):
            some = steps.run(mine.segment_steps(number))
            ids = [one + some.first for one in some.relative_ids]
            in_file = [one for one, start in zip(ids, some.starts, strict=True) if start >= 0]
            found = steps.run(mine.published_steps(in_file))
            if {one.seq_id: one.record for one in entries if one.seq_id in in_file} != found:
                raise LostMessage(f"looked up {in_file}, found {found}")

    def publish(self, name: str, first_seq_id: int, records: Sequence[bytes]) -> None:
        """Publish messages to one queue."""
        history = self.histories[name]
        history.next_id = first_seq_id + len(records)
        history.published.update(enumerate(records, first_seq_id))
        self.indexes[name].publish_all(first_seq_id, records)

    def purge(self, name: str) -> None:
        """Have a queue forget what it has; see that its files still say what that was."""
        mine, history = self.indexes[name], self.histories[name]
        self.store.remove(self.stored(history, history.left))
        left = self.read(mine)
        found: list[IndexEntry] = []
        for state in mine.forget():
            found += steps.run(mine.void_steps(state)).between(0, END)
        if found != left:
            raise LostMessage(f"purged {found}, there were {left}")
        history.purging |= set(history.left)

    def publish_stored(self, random: Random) -> None:
        """Publish one message to some queues."""
        names = random.sample(QUEUES, random.randint(1, len(QUEUES)))
        number = len(self.terms)
        message_id = b"%016d" % number
        term = stored_term(number, random.choice([0, 5, 40, 100]))
        self.terms[message_id] = term
        self.store.add(message_id, term, len(names))
        for name in names:
            seq_id = self.histories[name].next_id
            one = index.publish(seq_id, message_id, 0, 5000, b"", is_persistent=True)
            self.publish(name, seq_id, [one])

    def stored(self, history: QueueHistory, seq_ids: Sequence[int]) -> list[bytes]:
        """Return the ids of those messages that the store has."""
        found = []
        for seq_id in seq_ids:
            one = index.decode_publish(history.published[seq_id], 0, is_segment=False)
            if not one.term:
                found.append(one.message_id)
        return found

    def flush(self, indexes: Sequence[QueueIndex]) -> None:
        """Begin a flush, after the end of the one that is under way; `go_on` does its steps."""
        self.end_flush()
        self._flushing = flush_steps(self.log, indexes)

    def go_on(self) -> None:
        """Do one step of the flush that is under way."""
        if self._flushing is not None:
            try:
                result = self._call() if self._call is not None else None
                self._call = self._flushing.send(result)
            except StopIteration:
                self._flushing = self._call = None

    def end_flush(self) -> None:
        """Do the rest of it."""
        while self._flushing is not None:
            self.go_on()

    def close(self) -> None:
        """Stop cleanly."""
        self.end_flush()
        while void := [one for one in self.indexes.values() if one.has_void_files]:
            steps.run(flush_steps(self.log, void))
        steps.run(message_store.close_steps(self.store, REFERENCES))
        steps.run(close_steps(self.log, self.paths, [*self.indexes.values()]))
        for history in self.histories.values():
            history.commit()


__all__ = ["QUEUES", "IndexLife", "LostMessage", "QueueHistory", "StoreError", "record"]
