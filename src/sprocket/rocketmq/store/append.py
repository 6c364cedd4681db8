"""Taking records up: limits, store times, queue offsets, and the way into the files.

A record gets its physical and its queue offset when it is appended, and lies in memory until
`write` hands all of them to the file system. A write that failed takes both offsets back.

Invariants

1. Queue offsets of a queue have no gap: what was not written gives its offsets to what comes next.
2. Store times never go down along the log, whatever the clock does. What one `write` hands over
   has one store time, that of its first record.
3. Once `stop` was called nothing more is appended; between `pause` and `resume` nothing is either.
"""

from collections.abc import Mapping, Sequence

from sprocket.base.clock import Clock
from sprocket.base.errors import DiskFull, MessageTooLarge, StoreError, StoreFailed
from sprocket.base.units import PhysicalOffset
from sprocket.rocketmq.codec import extra
from sprocket.rocketmq.codec.extra import Extra
from sprocket.rocketmq.codec.record import Entry, encoded_size, tags_code
from sprocket.rocketmq.model.message import INNER_BATCH, TRANSACTION_PREPARED, NewRecord
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.flush import Flush
from sprocket.rocketmq.store.place import Placing, check_queue

_ODD_FLAGS = TRANSACTION_PREPARED | INNER_BATCH
"""A prepared or rolled back record takes no place in its queue, an inner batch many."""

Appended = Entry
"""What `append` gives: topic, queue_id, queue_offset, physical_offset, size, stored_at_ms."""


class Appender:
    """See the head of the module.

    Args:
        log: Where the records go.
        flush: Says when a write must wait for zeros in flight.
        clock: Gives store times.
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
        flush: Flush,
        clock: Clock,
        next_offsets: Mapping[tuple[str, int], int],
        message_bytes_max: int,
        placing: Placing | None = None,
    ) -> None:
        self.last_record = -1
        self.stored_at_ms = 0
        self._log = log
        self._flush = flush
        self._clock = clock
        self._next = dict(next_offsets)
        self._body_bytes_max = message_bytes_max
        self._placing = placing or Placing(
            (), light_queues=False, record_bytes_max=message_bytes_max
        )
        self._turn: list[Entry] = []
        self._is_refusing = False
        self._stopped: str | None = None
        self._paused: str | None = None

    @property
    def has_unwritten(self) -> bool:
        """Whether records wait for `write`."""
        return bool(self._turn)

    def forget(self, topic: str) -> None:
        """Give the queue offsets of a topic from 0 on again; none of its records may wait."""
        assert not self._turn, "records of the topic may wait to be written"
        for key in [key for key in self._next if key[0] == topic]:
            del self._next[key]

    def stop(self, why: str) -> None:
        """Take nothing more, for good: `append` raises StoreFailed with this text."""
        self._stopped = why
        self._is_refusing = True

    def pause(self, why: str) -> None:
        """Take nothing more until `resume`: `append` raises DiskFull with this text."""
        self._paused = why
        self._is_refusing = True

    def resume(self) -> None:
        """Take records again, unless stopped for good."""
        self._paused = None
        self._is_refusing = self._stopped is not None

    def _refuse(self) -> None:
        if self._stopped is not None:
            raise StoreFailed(self._stopped)
        raise DiskFull(self._paused)

    def append(self, record: NewRecord) -> Appended:
        """Take a record up, in memory; it has its offsets at once.

        Raises:
            MessageTooLarge: Body, topic, properties or record exceed a limit.
            MessageIllegal: It breaks a rule of its queue; see `place`.
            CorruptRecord: The topic cannot be a folder's name.
            StoreFailed: A sync failed before, or the store is closed or only read.
            DiskFull: The disk is fuller than it may be; see `retention`.
        Durability: none before `write` and a sync that follows it.
        """
        if self._is_refusing:
            self._refuse()
        if len(record.body) > self._body_bytes_max:
            self._too_large(record)
        if not self._turn:
            self.stored_at_ms = max(self.stored_at_ms, self._clock.now_ms())
        now = self.stored_at_ms
        if (
            record.sys_flag & _ODD_FLAGS
            or extra.MARK in record.properties
            or record.topic == extra.SCHEDULE_TOPIC
        ):  # `_is_odd` without a call, on the hot path
            return self._append_odd(record, now)
        key = record.topic, record.queue_id
        known = self._next.get(key)
        queue_offset = check_queue(*key) if known is None else known
        physical_offset, size = self._log.append(record, queue_offset, now)
        self._next[key] = queue_offset + 1
        tags = record.tags
        entry = Entry(
            record.topic,
            record.queue_id,
            queue_offset,
            physical_offset,
            size,
            tags_code(tags) if tags else 0,
            now,
            record.keys,
            record.sys_flag,
            record.prepared_transaction_offset,
        )
        self._turn.append(entry)
        return entry

    def _append_odd(self, record: NewRecord, now: int) -> Appended:
        """Append a record that may take other places than the next one of its queue."""
        place = self._placing.place(record, {}, self._next)
        if place.extra is not None and place.extra.light:
            self._placing.check_size(encoded_size(place.record, self._log.crc_tail))
        spot = self._log.append(place.record, place.queue_offset, now)
        self._next.update(place.after)
        entry = _entry(place.record, place.queue_offset, spot, now, place.extra)
        self._turn.append(entry)
        return entry

    def append_batch(self, records: Sequence[NewRecord]) -> list[Appended]:
        """Take up records that lie in one log file, with consecutive queue offsets.

        Raises:
            MessageTooLarge: One exceeds a limit, or together they fit into no log file; then none
                is taken.
            MessageIllegal, CorruptRecord, StoreFailed, DiskFull: As `append`.
        Durability: as `append`.
        """
        if self._is_refusing:
            self._refuse()
        total = 0
        for record in records:
            size = len(record.body)
            total += size
            if size > self._body_bytes_max:
                self._too_large(record)
        if total > self._body_bytes_max:
            raise MessageTooLarge(
                f"a batch with bodies of {total} bytes exceeds {self._body_bytes_max} "
                "(message_bytes_max)"
            )
        if not self._turn:
            self.stored_at_ms = max(self.stored_at_ms, self._clock.now_ms())
        now = self.stored_at_ms
        placed: list[tuple[NewRecord, int]] = []
        extras: list[Extra | None] = []
        following: dict[tuple[str, int], int] = {}
        for record in records:
            if _is_odd(record):
                place = self._placing.place(record, following, self._next)
                following.update(place.after)
                placed.append((place.record, place.queue_offset))
                extras.append(place.extra)
                continue
            key = record.topic, record.queue_id
            offset = following.get(key)
            if offset is None:
                offset = self._next.get(key)
                if offset is None:
                    offset = check_queue(*key)
            placed.append((record, offset))
            extras.append(None)
            following[key] = offset + 1
        spots = self._log.append_batch(placed, now)
        self._next.update(following)
        entries = [
            _entry(record, offset, spot, now, found)
            for (record, offset), spot, found in zip(placed, spots, extras, strict=True)
        ]
        self._turn.extend(entries)
        return entries

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
                With space again the next write works.
            StoreFailed: The same, and the files could not be cleaned: reopen the store.
        Durability: none before a sync.
        """
        assert not self._flush.fill_blocks_write(), "a fill in flight covers what is to be written"
        turn = self._turn
        if turn:
            try:
                self._log.write()
            except StoreError:
                self._take_back()
                if self._log.failure is not None:
                    self.stop(self._log.failure)
                raise
            self.last_record = turn[-1].physical_offset
            self._turn = []
        return self._log.written

    def _take_back(self) -> None:
        """Give back the queue offsets of records that were not written."""
        for entry in reversed(self._turn):
            if entry.queueable:
                light = () if entry.extra is None else entry.extra.light
                self._give_back((entry.topic, entry.queue_id), entry.queue_offset)
                for name, offset in light:
                    self._give_back((name, 0), offset)
        self._turn = []

    def _give_back(self, key: tuple[str, int], offset: int) -> None:
        if offset:
            self._next[key] = offset
        else:
            self._next.pop(key, None)


def _is_odd(record: NewRecord) -> bool:
    """Say whether a record may take other places than the next one of its queue."""
    return bool(
        record.sys_flag & _ODD_FLAGS
        or extra.MARK in record.properties
        or record.topic == extra.SCHEDULE_TOPIC
    )


def _entry(
    record: NewRecord,
    queue_offset: int,
    spot: tuple[int, int],
    stored_at_ms: int,
    found: Extra | None,
) -> Entry:
    physical_offset, size = spot
    return Entry(
        record.topic,
        record.queue_id,
        queue_offset,
        physical_offset,
        size,
        tags_code(record.tags) if record.tags else 0,
        stored_at_ms,
        record.keys,
        record.sys_flag,
        record.prepared_transaction_offset,
        False,
        found,
    )
