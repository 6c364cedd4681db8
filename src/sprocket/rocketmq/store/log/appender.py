"""Appending records: limits, store times, queue offsets, and writing them to the files.

A record gets its physical and its queue offset when it is appended, and stays in memory until
`write` hands all of them to the file system. If a write fails, its records give both offsets back.

Invariants

1. Queue offsets of a queue have no gap: the next records get the offsets of those that were not
   written.
2. Store times never go down along the log, whatever the clock does. What one `write` hands over
   has one store time, that of its first record.
3. Once `stop` was called nothing more is appended; between `pause` and `resume` nothing is either,
   nor while something that a failed write has left in the log is to be undone.
4. Once `follow` was called only records of another log are taken, at the places that they have
   there: no offset is given here any more.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from sprocket.base.clock import LogClock
from sprocket.base.disk import Steps
from sprocket.base.errors import DiskFailed, DiskFull, MessageTooLarge, StoreError, StoreFailed
from sprocket.rocketmq.codec.record import FRAME_BYTES, encoded_size, extra
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import INNER_BATCH, TRANSACTION_PREPARED, NewBatch, NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.log.commit_log import CommitLog, RunWrite
from sprocket.rocketmq.store.log.flusher import Flusher
from sprocket.rocketmq.store.log.log_stream import StoredRecords
from sprocket.rocketmq.store.log.offset_assigner import Key, OffsetAssigner, check_queue
from sprocket.rocketmq.store.log.tail import FOLLOWED_BYTES_MAX

_ODD_FLAGS = TRANSACTION_PREPARED | INNER_BATCH
"""A prepared or rolled back record takes no place in its queue, an inner batch many."""


class Appended(Struct, frozen=True, gc=False):
    """Where a record lies: its place in its queue and in the log, and its store time."""

    queue_offset: int
    physical_offset: int
    stored_at_ms: int


class AppendedBatch(Struct, frozen=True, gc=False):
    """Where records lie that were taken up together, in order; one `Appended` each as a sequence.

    Attributes:
        queue_offsets: The place of each in its queue.
        physical_offsets: And in the log.
        stored_at_ms: The store time of all.
    """

    queue_offsets: Sequence[int]
    physical_offsets: Sequence[int]
    stored_at_ms: int

    def part(self, number: int) -> "AppendedBatch":
        """Return where one of them lies."""
        return AppendedBatch(
            [self.queue_offsets[number]], [self.physical_offsets[number]], self.stored_at_ms
        )

    def __len__(self) -> int:
        return len(self.physical_offsets)

    def __getitem__(self, number: int) -> Appended:
        at = self.physical_offsets[number]
        return Appended(self.queue_offsets[number], at, self.stored_at_ms)

    def __iter__(self) -> Iterator[Appended]:
        return map(self.__getitem__, range(len(self)))


class Appender:
    """See the head of the module.

    Args:
        log: Where the records go.
        flush: Says when a write must wait for zeros in flight.
        clock: Gives store times, which never go down.
        next_offsets: The next offset of each queue that has had a message; taken over.
        message_bytes_max: Longest body, and longest batch of them.
        placing: Gives places to records that take other than one.

    Attributes:
        last_record: Where the last record that was written begins, −1 without one.
        stored_at_ms: Its store time, or that of a later one in memory.
    """

    def __init__(
        self,
        log: CommitLog,
        flush: Flusher,
        clock: LogClock,
        next_offsets: Mapping[tuple[str, int], int],
        message_bytes_max: int,
        placing: OffsetAssigner | None = None,
    ) -> None:
        self.last_record = -1
        self.stored_at_ms = 0
        self._log = log
        self._flush = flush
        self._clock = clock
        self._next = dict(next_offsets)
        self._body_bytes_max = message_bytes_max
        self._placing = placing or OffsetAssigner(
            (), light_queues=False, record_bytes_max=message_bytes_max
        )
        self._has_unwritten = False
        self._last_place = -1
        self._before: dict[Key, int | None] = {}
        self._is_refusing = False
        self._stopped: str | None = None
        self._paused: str | None = None
        self._follows: str | None = None

    @property
    def has_unwritten(self) -> bool:
        """Whether records wait for `write`."""
        return self._has_unwritten

    def forget(self, topic: str) -> None:
        """Give the queue offsets of a topic from 0 on again; none of its records may wait."""
        assert not self._has_unwritten, "records of the topic may wait to be written"
        for key in [key for key in self._next if key[0] == topic]:
            del self._next[key]

    @property
    def refusal(self) -> str | None:
        """Why nothing is taken now, from a log that is followed either; None if it is."""
        return self._stopped or self._log.undo_failure or self._paused

    def stop(self, why: str) -> None:
        """Take nothing more from now on: `append` raises StoreFailed with this text."""
        self._stopped = why
        self._is_refusing = True

    def pause(self, why: str) -> None:
        """Take nothing more until `resume`: `append` raises DiskFull with this text."""
        self._paused = why
        self._is_refusing = True

    def resume(self) -> None:
        """Take records again, unless there is another reason not to."""
        self._paused = None
        self._look()

    def follow(self, why: str, run_write: RunWrite | None = None) -> None:
        """Take nothing but records of another log from now on: `append` raises StoreFailed.

        Args:
            why: The text of that.
            run_write: Makes the calls that write them; None if the log does.
        """
        self._follows = why
        self._log.run_write = run_write
        self._log.tail.kept_bytes_max = FOLLOWED_BYTES_MAX
        self._is_refusing = True

    @property
    def is_following(self) -> bool:
        """Whether nothing but records of another log is taken."""
        return self._follows is not None

    def _look(self) -> None:
        """Note whether there is a reason to take nothing."""
        self._is_refusing = self.is_following or self.refusal is not None

    def undo_steps(self) -> Steps:
        """Undo a failed write that could not be undone at once, and take records again.

        Raises:
            DiskFull, DiskFailed: It could not be undone this time either.
            StoreFailed: The sync of that failed.
        """
        if self._log.undo_failure is not None:
            yield self._log.undo
            self._look()

    def _refuse(self) -> None:
        if self._stopped is not None:
            raise StoreFailed(self._stopped)
        if self._log.undo_failure is not None:
            raise DiskFailed(self._log.undo_failure)
        if self._paused is not None:
            raise DiskFull(self._paused)
        raise StoreFailed(self._follows)

    def append(self, record: NewRecord) -> Appended:
        """Take a record up, in memory; it has its offsets at once. See `append_all`."""
        (appended,) = self.append_all([record])
        return appended

    def append_batch(self, batch: NewBatch) -> AppendedBatch:
        """Take up messages that lie in one log file, with consecutive queue offsets.

        Raises:
            MessageTooLarge: Also if, without their properties, they exceed together the limit of
                one body, or together they fit into no log file.
            StoreError: See `append_all`.
        """
        total = batch.bodies_size + FRAME_BYTES * len(batch.bodies)
        if total > self._body_bytes_max:
            raise MessageTooLarge(
                f"a batch of {total} bytes and its properties exceeds {self._body_bytes_max} "
                "(message_bytes_max)"
            )
        shared = batch.shared
        if shared.sys_flag & _ODD_FLAGS or shared.topic == SCHEDULE_TOPIC or batch.has(extra.MARK):
            return self.append_all(batch.records(), together=True)
        now = self._begin()
        key = shared.topic, shared.queue_id
        first = self._next.get(key)
        if first is None:
            first = check_queue(*key)
        physical_offsets = self._log.append_batch(batch, first, now)
        following = first + len(physical_offsets)
        self._took({key: following}, physical_offsets)
        return AppendedBatch(range(first, following), physical_offsets, now)

    def _begin(self) -> int:
        """Return the store time of what comes next, unless nothing is to come.

        Raises:
            StoreFailed, DiskFull: See `append_all`.
        """
        if self._is_refusing:
            self._refuse()
        if not self._has_unwritten:
            self.stored_at_ms = self._clock.now_ms()
        return self.stored_at_ms

    def _took(self, following: Mapping[Key, int], physical_offsets: Sequence[int]) -> None:
        """Note what was taken up, and what to go back to if it is not written.

        Args:
            following: The next offset of each queue.
            physical_offsets: In the log.
        """
        if physical_offsets:
            self._has_unwritten = True
            self._last_place = physical_offsets[-1]
        before, known = self._before, self._next
        for key in following:
            if key not in before:
                before[key] = known.get(key)
        known.update(following)

    def append_all(self, records: Sequence[NewRecord], *, together: bool = False) -> AppendedBatch:
        """Take records up, in memory: all of them, or with an error none.

        Args:
            records: What to append, in order.
            together: They must lie in one log file.

        Raises:
            MessageTooLarge: Body, topic, properties or record exceed a limit.
            MessageIllegal: It breaks a rule of its queue; see `offset_assigner`.
            CorruptRecord: The topic cannot be a folder's name.
            StoreFailed: A sync failed before, or the store is closed or only read.
            DiskFull: The disk is fuller than it may be; see `retention`.
            DiskFailed: What a failed write has left is still to be undone.
        Durability: none before `write` and a sync that follows it.
        """
        now = self._begin()
        known, body_bytes_max = self._next, self._body_bytes_max
        following: dict[Key, int] = {}
        queue_offsets: list[int] = []
        is_odd = False
        for record in records:
            if len(record.body) > body_bytes_max:
                self._too_large(record)
            if (
                record.sys_flag & _ODD_FLAGS
                or extra.MARK in record.properties
                or record.topic == SCHEDULE_TOPIC
            ):
                is_odd = True
                break
            key = record.topic, record.queue_id
            offset = following.get(key)
            if offset is None:
                offset = known.get(key)
                if offset is None:
                    offset = check_queue(*key)
            queue_offsets.append(offset)
            following[key] = offset + 1
        if is_odd:
            records, queue_offsets, following = self._placed(records)
        physical_offsets = self._log.append(records, queue_offsets, now, together=together)
        self._took(following, physical_offsets)
        return AppendedBatch(queue_offsets, physical_offsets, now)

    def append_stored(self, stored: StoredRecords) -> None:
        """Take up records as another log has them, in memory; `follow` was called before.

        Raises:
            StoreError: As `append_all`, but for what is wrong with a message.
        Durability: as `append_all`.
        """
        assert self.is_following, "two would give places"
        if self.refusal is not None:
            self._refuse()
        self._log.append_stored(stored)
        if stored.count:
            self._last_place = stored.last_start
        elif not self._has_unwritten:
            self._last_place = self.last_record
        self._has_unwritten = True

    def _placed(
        self, records: Sequence[NewRecord]
    ) -> tuple[list[NewRecord], list[int], dict[Key, int]]:
        """Give places to records some of which may take other ones than the next of their queue.

        Returns:
            The records as they are to be stored, their queue offsets, and the next free places.
        """
        following: dict[Key, int] = {}
        placed: list[NewRecord] = []
        queue_offsets: list[int] = []
        for record in records:
            if len(record.body) > self._body_bytes_max:
                self._too_large(record)
            place = self._placing.place(record, following, self._next)
            if place.extra is not None and place.extra.light:
                self._placing.check_size(encoded_size(place.record, self._log.crc_tail))
            following.update(place.after)
            placed.append(place.record)
            queue_offsets.append(place.queue_offset)
        return placed, queue_offsets, following

    def _too_large(self, record: NewRecord) -> None:
        raise MessageTooLarge(
            f"a body of {len(record.body)} bytes exceeds {self._body_bytes_max} "
            f"(message_bytes_max), topic {record.topic}"
        )

    def write(self) -> PhysicalOffset:
        """Hand all that was appended to the file system, one call per file touched.

        Not to be called while `fill_blocks_write` says so.

        Returns:
            The new `written`.

        Raises:
            DiskFull, DiskFailed: None of it is stored; its offsets are given to what comes next.
                With space again the next write works, once `undo_steps` has been done if part of
                this one is still in the files.
            StoreFailed: The same, and the sync of what undid it failed: reopen the store.
        Durability: none before a sync.
        """
        assert not self._flush.fill_blocks_write(), "a fill in flight covers what is to be written"
        if self._has_unwritten:
            try:
                self._log.write()
            except StoreError:
                self._take_back()
                self._look()
                raise
            self.last_record = self._last_place
            self._forget_turn()
        return self._log.written

    def give_up_unwritten(self) -> None:
        """Forget what was appended and not written; its offsets are given to what comes next."""
        self._log.give_up_unwritten()
        self._take_back()

    def _take_back(self) -> None:
        """Give back the queue offsets of records that were not written."""
        for key, offset in self._before.items():
            if offset is None:
                del self._next[key]
            else:
                self._next[key] = offset
        self._forget_turn()

    def _forget_turn(self) -> None:
        self._has_unwritten = False
        self._before = {}
