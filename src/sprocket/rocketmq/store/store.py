"""A store: the log with its queues and index, as one object.

Theory of operation. Records are appended in memory, where each gets its physical and its queue
offset at once. `write` hands all of them to the file system in one call; a sync, which any thread
may run, makes them durable; `dispatch` then puts them into the queues and tells what arrived where.
`end`, `written`, `synced` say how far each step has come. Queues and index are derived: recovery
makes them again from the log. What a consumer may see ends at `synced` when a message counts as
stored after a sync, else at `written`.

    append → write → begin_sync … LogSync.run … finish → dispatch → get_messages
                     begin_fill … FillJob.run … finish   dispatch_index, maintain, clean

Invariants

1. `synced` ≤ `written` ≤ `end`.
2. After a failed sync nothing more is appended; after a failed write that could not be undone not
   before `maintain_steps` has undone it.

Threads: one, except for `LogSync.run`, `FillJob.run` and the calls that `maintain_steps` and
`clean_steps` give (see `base.steps`).
"""

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from msgspec.structs import replace

from sprocket.base.clock import Clock, LogClock
from sprocket.base.disk import Disk, Steps, StepsTo, outside, steps, try_room
from sprocket.base.errors import (
    DiskFailed,
    DiskFull,
    DiskRefused,
    ForeignStore,
    StoreError,
    StoreFailed,
)
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.model.offsets import ANYWHERE, PhysicalOffset, QueueOffset
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX, RetentionSettings, StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.compaction import CompactedQueue, compacted_reader
from sprocket.rocketmq.store.log import (
    Appender,
    Damage,
    FillJob,
    Flusher,
    LogScanner,
    LogStream,
    LogSync,
    OffsetAssigner,
    PageCache,
    memory_bytes,
)
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.queue import FileQueues, Queue, Subscriptions, UnitRead
from sprocket.rocketmq.store.read import (
    FindResult,
    GetResult,
    OffsetRange,
    Reading,
    key_search,
    queue_reader,
    time_search,
)
from sprocket.rocketmq.store.recovery import (
    Checkpointer,
    Deleter,
    RecoveryReport,
    keep_report,
)
from sprocket.rocketmq.store.reput import Fresh, Reput
from sprocket.rocketmq.store.retention import Retention

INDEX_STEP_RECORDS = 1024
"""Records that upkeep puts into the index before it lets others go on: about 1 ms."""

PARTS_AT_CLOSE_MAX = 1 << 30
"""At a stop all is copied that compaction keeps: RocketMQ would not find it anywhere else."""


_NO_HOURS: Mapping[str, int] = {}


class Store:
    """See the head of the module. Made by `open` or `open_read_only`.

    Attributes:
        append, append_all, append_batch: Take up a record, several, several as one (`Appender`).
        deletions: Which topics were deleted; the owner finishes what is `pending`.
        page_cache: What the system keeps of the log; the owner gives back after each write.
        batch_topics: Topics whose queues are batch queues; see `take_batches`.
        compacted_topics: Topics of which the last message of each key is kept; see
            `take_compaction`.
        give_up_unwritten: Forget what was taken up and not written.
        follow: Take nothing but records of another log from now on.
        append_stored: Take up records of another log.
    """

    def __init__(self, opened: Opened) -> None:
        parts = opened.parts
        self.settings = parts.settings
        self.geometry = opened.geometry
        self._queues = parts.queues
        self._index = parts.index
        self._disk = parts.disk
        self._layout = parts.layout
        self._files = parts.files
        self._compactions = parts.compactions
        self.compacted_topics = parts.compactions.topics
        self.deletions = parts.deletions
        self._log = opened.log
        self._lock, self._report = opened.lock, opened.report
        self._flush = Flusher(parts.disk, opened.log, parts.settings, opened.clock, self._doubt)
        self._dispatch = Reput(
            opened.log.tail,
            parts.queues,
            parts.index,
            opened.log.written,
            parts.units,
            self._made_again if parts.follows else None,
        )
        self.batch_topics = parts.units.batch_topics
        self._bytes_in_memory = memory_bytes(parts.settings.bytes_in_memory)
        if parts.follows:
            self._bytes_in_memory = self._bytes_in_memory * 3 // 4
        self.page_cache = PageCache(opened.log, self._flush, self.settings, opened.clock)
        self._checkpointer = Checkpointer(parts, opened.log, self._flush, self._dispatch)
        self.log_clock = LogClock(
            opened.clock, opened.report.last_stored_at_ms if opened.report else 0
        )
        self._appender = self._make_appender(self.log_clock)
        # Bound here: a method that only passes the call on would cost every send.
        self.append = self._appender.append
        self.append_all = self._appender.append_all
        self.append_batch = self._appender.append_batch
        self.give_up_unwritten = self._appender.give_up_unwritten
        self.follow, self.append_stored = self._appender.follow, self._appender.append_stored
        self._deleter = Deleter(
            parts.deletions, opened.log, self._appender, parts.queues, parts.compactions
        )
        self._retention = Retention(parts, self._appender, opened.clock, self._safe_end)
        self._is_keeping = False
        self._is_sync = parts.settings.flush == "sync"
        self._is_open = True
        self._shown_to = ANYWHERE

    def _make_appender(self, clock: LogClock) -> Appender:
        appender = Appender(
            self._log,
            self._flush,
            clock,
            {key: queue.max_offset for key, queue in self._queues.by_key.items()},
            self.settings.message_bytes_max,
            OffsetAssigner(
                self.batch_topics,
                light_queues=self.settings.light_queues,
                record_bytes_max=self.settings.message_bytes_max,
            ),
        )
        if self._report is None:
            appender.stop("the store was opened for reading only")
        else:
            appender.last_record = self._report.last_record
            appender.stored_at_ms = self._report.last_stored_at_ms
        return appender

    def _safe_end(self) -> int:
        durable = min(self._flush.synced, self._checkpointer.kept_to)
        return min(durable, self._compactions.safe_end(self._queues))

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        settings: StoreSettings,
        clock: Clock,
        geometry: Geometry | None = None,
        subscriptions: Subscriptions | None = None,
        *,
        step: Step = unwatched,
        follows: bool = False,
    ) -> "Store":
        """Open a store, or make one in an empty or missing folder, and recover it.

        Args:
            disk: Where it lies.
            folder: Its folder; the parents are made.
            settings: How it works from now on.
            clock: Gives store times.
            geometry: Sizes of its files; None takes those it was made with.
            subscriptions: Filters that messages are tried on when they are dispatched.
            step: Called often while it takes long; may end it by an error, which this raises.
            follows: The log is a beginning of another one that has the rest: it is cut at damage.

        Raises:
            StoreLocked: Another process, or this one, has it open.
            ForeignStore: The folder holds something else, or files of another geometry.
            DiskFull, DiskFailed: It was left as it was found, or can be recovered again.
        Durability: all that is in it when this returns is on the disk.
        """
        return cls(
            opening.to_write(
                disk,
                folder,
                settings,
                clock,
                geometry,
                subscriptions,
                step=step,
                follows=follows,
            )
        )

    @classmethod
    def open_read_only(cls, disk: Disk, folder: str, geometry: Geometry | None = None) -> "Store":
        """Open a store for reading: no lock, no recovery, no change on the disk.

        A live store can be read; what is appended later is not seen. What a crash left in
        disagreement is not repaired: queues may lack the last messages, the log has them.

        Raises:
            ForeignStore: The folder holds no store, or files of another geometry.
        """
        return cls(opening.to_read(disk, folder, geometry))

    @property
    def disk(self) -> Disk:
        """Where it lies."""
        return self._disk

    # How far it has come.

    @property
    def report(self) -> RecoveryReport:
        """What recovery did when the store was opened; there is none for readers."""
        assert self._report is not None
        return self._report

    def tell_offsets_set_back(self, found: Mapping[str, Mapping[int, int]]) -> None:
        """Add to the report which committed offsets lay behind the ends of their queues.

        Args:
            found: What they were, by `topic@group` and queue.

        Raises:
            DiskFull, DiskFailed: The file has the report as it was.
        """
        offsets = {key: dict(queues) for key, queues in found.items()}
        self._report = replace(self.report, offsets_set_back=offsets)
        keep_report(self._disk, self._layout, self._report)

    @property
    def end(self) -> PhysicalOffset:
        """Where the next record goes."""
        return self._log.end

    @property
    def written(self) -> PhysicalOffset:
        """Up to where the file system has the log."""
        return self._log.written

    @property
    def synced(self) -> PhysicalOffset:
        """Up to where the disk has the log."""
        return self._flush.synced

    @property
    def is_synced(self) -> bool:
        """Whether the disk has all that is written."""
        return self._flush.synced == self._log.written

    @property
    def waiting_bytes(self) -> int:
        """How much of the log was appended and is not durable; 0 once a sync has failed."""
        flush = self._flush
        return 0 if flush.failure is not None else self._log.end - flush.synced

    @property
    def dispatched(self) -> PhysicalOffset:
        """Up to where queues and index have the log."""
        return PhysicalOffset(self._dispatch.queued_to - self._dispatch.index_backlog_bytes)

    @property
    def first(self) -> PhysicalOffset:
        """Where the oldest record that is kept may begin."""
        return self._log.first

    @property
    def is_following(self) -> bool:
        """Whether nothing but records of another log is taken."""
        return self._appender.is_following

    @property
    def last_record(self) -> int:
        """Where the last record that was written begins, −1 if that is not known."""
        return self._appender.last_record

    @property
    def last_file(self) -> PhysicalOffset:
        """Where the file begins that is written; files after it may be there already."""
        written = self._log.written
        return PhysicalOffset(written - written % self.geometry.log.segment_bytes)

    @property
    def refusal(self) -> str | None:
        """Why nothing can be appended now; None if it can."""
        return self._appender.refusal

    def heed_space(self, settings: RetentionSettings) -> None:
        """Look at once whether the disk is too full, as `clean_steps` does.

        Raises:
            DiskFailed: The system does not say.
        """
        self._retention.heed_space(settings)

    # Writing.

    def write(self) -> PhysicalOffset:
        """Hand what was taken up to the file system; see `append.Appender.write`."""
        try:
            return self._appender.write()
        except StoreFailed as error:
            self._flush.fail(error)  # a sync failed while a write was undone
            raise

    def begin_at(self, start: int) -> None:
        """Have an empty store begin where a file of another log does, that it is to follow.

        Raises:
            ForeignStore: No file of a log of this geometry begins there.
        Durability: an empty store forgets it.
        """
        segment_bytes = self.geometry.log.segment_bytes
        if start % segment_bytes:
            raise ForeignStore(
                f"a log begins at {start}, which is not a multiple of the size of our files, "
                f"{segment_bytes} (log.segment_bytes)"
            )
        self._log.begin_at(start)
        self._flush.begin_at(self._log.written)
        self._dispatch.begin_at(self._log.written)

    def log_stream(self) -> LogStream:
        """Return what cuts bytes of another log that follow the end of this one."""
        return LogStream(
            self._log.end, self.geometry.log.segment_bytes, self.settings.message_bytes_max
        )

    def _undo_steps(self) -> Steps:
        """Undo what a failed write has left."""
        try:
            yield from self._appender.undo_steps()
        except StoreFailed as error:
            self._flush.fail(error)
            raise

    def begin_sync(self) -> LogSync | None:
        """See `flush.Flusher.begin_sync`."""
        return self._flush.begin_sync()

    def begin_due_sync(self) -> LogSync | None:
        """See `flush.Flusher.begin_due_sync`."""
        return self._flush.begin_due_sync()

    def sync(self) -> PhysicalOffset:
        """Make all that is written durable, here and now; return the new `synced`.

        Raises:
            StoreFailed: The sync failed, now or before.
            DiskRefused: It could not begin.
        """
        return self._flush.sync()

    def _doubt(self, failure: str) -> None:
        """Take nothing more after a sync that failed, and leave a note of it."""
        self._appender.stop(failure)
        self._checkpointer.doubt()

    def begin_fill(self) -> FillJob | None:
        """Return the next step ahead of the writer, None if none is needed now.

        Under async flush, where nobody waits for a sync, it is one of room, else one of zeros.
        """
        return None if self._lock is None else self._flush.begin_fill(zeros=self._is_sync)

    def begin_file(self) -> FillJob | None:
        """Return what makes the log file that `write` needs next; None if it is there.

        Also None while a fill is out, for whose end `write` then waits (`fill_blocks_write`). Who
        does not ask has `write` make the file.
        """
        return None if self._lock is None else self._flush.begin_file()

    def fill_blocks_write(self) -> bool:
        """Say whether `write` must wait for the fill that is in flight."""
        return self._flush.fill_blocks_write()

    def try_room(self) -> None:
        """Find out, on any thread, whether the disk would take a write.

        Raises:
            DiskFull, DiskFailed: It would not.
        """
        try_room(self._disk, self._layout.room)

    # From the log to queues and index.

    def _made_again(self, topic: str, place: PhysicalOffset) -> None:
        """Delete the queues of a topic that another log has from a place on as one made again.

        `deletions` has it as `pending`, for the owner to do the same with all else of the topic.

        Raises:
            DiskFull, DiskFailed: Not all of it is deleted; it may be told again.
        """
        self.deletions.begin(topic, place)
        for remove in (self._compactions.delete_topic(topic), self._queues.delete_topic(topic)):
            if remove is not None:
                remove()
        self._checkpointer.topics_changed()

    def delete_ended_topic(self, topic: str, end: int) -> None:
        """Delete the queues of a topic that another log has not any more from a place on.

        Nothing is done if it has messages behind that place: it was made again. Costs and errors as
        of a topic that is.

        Args:
            topic: What to delete.
            end: The place; all before it is written.
        """
        self._dispatch_now()
        queues = [queue for queue in self._queues.by_key.values() if queue.topic == topic]
        lasts = [queue.last_unit() for queue in queues]
        is_over = all(last is None or last[0] < end for last in lasts)
        if queues and is_over and end <= self._dispatch.queued_to:
            self._made_again(topic, PhysicalOffset(end))

    def dispatch(self, *, someone_waits: bool = True, max_queues: int | None = None) -> Fresh:
        """Put into the queues what consumers may see; say what has come since the last call.

        Args:
            someone_waits: See `Reput.take_fresh`.
            max_queues: Stop when about so many queues were written; `is_dispatched` says if that
                was all.

        Raises:
            DiskFull, DiskFailed: The messages are stored anyway; the next call tries again.
        """
        if max_queues is None:
            self._dispatch_now()
        elif not self.is_dispatched:
            limit = self._visible_end
            outside(self._disk, lambda: self._dispatch.to_queues(limit, max_queues=max_queues))
        return self._dispatch.take_fresh(someone_waits=someone_waits)

    @property
    def is_dispatched(self) -> bool:
        """Whether the queues have all that consumers may see."""
        return self._dispatch.queued_to >= self._visible_end

    @property
    def _visible_end(self) -> PhysicalOffset:
        end = self._flush.synced if self._is_sync else self._log.written
        return end if end <= self._shown_to else self._shown_to

    def show_to(self, end: int) -> None:
        """Have consumers see what lies before a place at most; what they saw they see again."""
        self._shown_to = PhysicalOffset(end)

    def _dispatch_now(self) -> None:
        limit = self._visible_end
        if self._dispatch.queued_to < limit:
            outside(self._disk, lambda: self._dispatch.to_queues(limit))

    def dispatch_index(self, limit: int | None = None) -> int:
        """Put keys of dispatched records into the index; return how many records were taken."""
        return outside(self._disk, lambda: self._dispatch.to_index(limit))

    # Reading.

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int = 32,
        wanted: MessageFilter | None = None,
        max_bytes: int = 262_144,
        reader: Hashable | None = None,
    ) -> GetResult:
        """Read messages of a queue, for a consumer (`reader`) or not; dispatches first. See `read`.

        Raises:
            DiskFull, DiskFailed: What lies at `offset` or behind cannot be dispatched now.
        """
        cause: StoreError | None = None
        try:
            if self._dispatch.queued_to < self._visible_end:
                self._dispatch_now()
        except (DiskFull, DiskFailed) as error:
            cause = error
        queue = self._queues.by_key.get((topic, queue_id))
        reading = Reading(max_count, max_bytes, wanted, reader)
        compacted = queue if topic in self.compacted_topics else None
        kept = None
        if compacted is not None:
            kept = self._kept(topic, queue_id)
            found = compacted_reader.get_kept(kept, compacted, offset, reading)
            if isinstance(found, GetResult):
                return found
            offset = found
        got = queue_reader.get_messages(
            queue,
            self._log,
            offset,
            reading,
            bytes_in_memory=self._bytes_in_memory,
            page_cache=None if reader is None else self.page_cache,
            own_from=self._dispatch.began_at,
        )
        if cause is not None and offset >= got.max_offset:
            raise cause  # the message may be there anyway
        return got if compacted is None else compacted_reader.as_compacted(got, kept, compacted)

    def units(self, topic: str, queue_id: int, offset: int, count: int) -> list[UnitRead]:
        """Return up to `count` units of a queue; dispatches first. See `read.units`."""
        return queue_reader.units(self._whole(topic, queue_id), offset, count)

    def queue_bytes(self, topic: str, queue_id: int) -> int:
        """Return the bytes of all records of a queue, by its units; see `read.stored_bytes`."""
        return queue_reader.stored_bytes(self._whole(topic, queue_id))

    def queue_range(self, topic: str, queue_id: int) -> OffsetRange:
        """Return first and next offset of a queue, 0 and 0 if it never had a message."""
        queue = self._whole(topic, queue_id)
        return OffsetRange(QueueOffset(0), QueueOffset(0)) if queue is None else self._range(queue)

    def queue_end(self, topic: str, queue_id: int) -> QueueOffset:
        """Return the next offset of a queue, 0 if it never had a message; reads nothing."""
        queue = self._whole(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.max_offset

    def is_made_anew(self, topic: str) -> bool:
        """Whether a topic may have been there before, with other messages at its offsets.

        That is known until the log has none of the old ones.
        """
        return topic in self.deletions.ends

    def queues(self) -> Iterable[tuple[str, int, OffsetRange]]:
        """Give every queue that has had a message, sorted by topic and id."""
        self._dispatch_now()
        return sorted((*key, self._range(queue)) for key, queue in self._queues.by_key.items())

    def _range(self, queue: Queue) -> OffsetRange:
        """Return what can be read of a queue."""
        if queue.topic not in self.compacted_topics:
            return OffsetRange(queue.min_offset, queue.max_offset)
        return compacted_reader.range_of(self._kept(queue.topic, queue.queue_id), queue)

    def _kept(self, topic: str, queue_id: int) -> CompactedQueue | None:
        """Return what compaction has kept of a queue, None if nothing."""
        return self._compactions.by_key.get((topic, queue_id))

    def offset_by_time(
        self, topic: str, queue_id: int, at_ms: int, boundary: time_search.Boundary
    ) -> QueueOffset:
        """Return the queue offset that belongs to a store time; see `read.time_search`."""
        queue, kept = self._whole(topic, queue_id), self._kept(topic, queue_id)
        return compacted_reader.offset_by_time(kept, queue, self._log, at_ms, boundary)

    def stored_at_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Return the store time of a message, −1 if it cannot be read."""
        queue, kept = self._whole(topic, queue_id), self._kept(topic, queue_id)
        return compacted_reader.stored_at_ms(kept, queue, self._log, offset)

    def _whole(self, topic: str, queue_id: int) -> Queue | None:
        """Return a queue with all that may be seen of it; None if it never had a message."""
        self._dispatch_now()
        return self._queues.by_key.get((topic, queue_id))

    def record_at(self, offset: int) -> memoryview:
        """Return one whole record of the log, as stored.

        Raises:
            OffsetTooSmall: It was cleaned away.
            OffsetTooLarge: It is past what has been written.
            CorruptRecord: No record begins there.
        """
        return self._log.record_at(offset)

    def log_part(self, start: int, size: int) -> memoryview:
        """Return bytes of the log from any place on, without a look at them.

        Args:
            start: The first byte.
            size: Most bytes wanted, at least 1; what follows in another file is not among them.

        Raises:
            OffsetTooSmall: It was cleaned away.
            OffsetTooLarge: It is past what has been written.
            DiskFailed: It cannot be read.
        """
        view, begin, end = self._log.window(start, size)
        return view[start - begin : min(start + size, end) - begin]

    def find(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = FOUND_MESSAGES_MAX,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> FindResult:
        """Find records by a key of theirs, the unique key included; indexes first.

        Args:
            topic: Their topic.
            key: The key.
            max_count: Most offsets to return, the newest.
            begin_ms: First store time wanted.
            end_ms: Last store time wanted.

        Raises:
            DiskFull, DiskFailed: The index lacks what was stored last and cannot get it now.
        """
        self._dispatch_now()
        self.dispatch_index()
        return key_search.find(self._index, self._log, topic, key, max_count, (begin_ms, end_ms))

    def find_by_id(self, message_id: str) -> memoryview | None:
        """Return the record with an offset message id; see `find.by_id`."""
        return key_search.by_id(self._log, message_id)

    def records(
        self,
        start: PhysicalOffset | None = None,
        end: PhysicalOffset | None = None,
        damage: list[Damage] | None = None,
    ) -> Iterator[tuple[PhysicalOffset, memoryview]]:
        """Give the records of the log from `start` (the oldest) to before `end`, as stored.

        Args:
            start: Where a record begins.
            end: Records that begin there or later are not given.
            damage: Takes up what was stepped over.
        """
        first = self._log.first if start is None else start
        scan = LogScanner(self._files.segments, first, check_crc=False)
        scan.damage = [] if damage is None else damage
        return self._log.records(scan, end)

    def record_batches(self, start: PhysicalOffset) -> Iterator[RecordBatch]:
        """Give all records of the log from `start` on, many at a time.

        Damage is stepped over.

        Args:
            start: Where a record begins.
        """
        written = self._log.written
        scan = LogScanner(self._files.segments, start, check_crc=False, until=written)
        return scan.batches()

    # Keeping.

    def maintain_steps(self) -> Steps:
        """Make derived files durable and say so in the checkpoint; wanted about once a second.

        Recovery after a crash looks only at what is younger than the last call. It also undoes what
        a failed write has left, if it can now; then records are taken again. Not to be begun while
        another one, or `clean_steps`, is under way.

        Raises:
            StoreError: Something could not be written or synced. Messages that were stored are
                stored; the checkpoint stays behind. After a sync of queues or index failed it
                stays there permanently, since what reached the disk is unknown: appends and reads
                go on, the next opening makes queues and index again from the log.
        """
        if self._can_keep:
            with contextlib.suppress(DiskFull, DiskFailed):  # `refusal` says so
                yield from self._undo_steps()
            self._dispatch_now()
            failed = yield from self._follow_steps()
            while self.dispatch_index(INDEX_STEP_RECORDS) == INDEX_STEP_RECORDS:
                yield lambda: None  # others may go on in between
            yield from self._alone(self._checkpointer.keep_steps())
            if failed is not None:
                raise failed

    def _follow_steps(self) -> StepsTo[StoreError | None]:
        """Copy what compaction keeps; return why it could not all be copied."""
        synced = self._flush.synced
        try:
            yield from self._alone(
                self._compactions.follow_steps(self._queues, self._files, synced)
            )
        except StoreError as error:
            if not isinstance(error, DiskFull | DiskRefused):
                self._checkpointer.doubt()
            return error
        return None

    def compact_steps(self, keys_bytes_max: int) -> Steps:
        """Have only the last message of each key left of what compaction topics keep.

        Of the files of a queue all but the last are looked at. Beside `maintain_steps` and all
        else, but not beside itself. Views that `get_messages` gave stay valid.

        Args:
            keys_bytes_max: Memory for the keys of one queue.

        Raises:
            StoreError: A queue could not be compacted, and is as it was; others may be.
        """
        if self._can_keep:
            yield from self._compactions.round_steps(keys_bytes_max)

    def take_compaction(self, topic: str) -> None:
        """Have a topic compacted from now on, unless none is in this store.

        Raises:
            CorruptRecord: The topic cannot be a folder's name.
            DiskFull, DiskFailed: It is not.
        """
        if self.settings.compact:
            self._compactions.take_topic(topic)

    def clean_steps(
        self,
        settings: RetentionSettings,
        reserve_hours: Mapping[str, int] = _NO_HOURS,
        *,
        at_once: bool = False,
    ) -> Steps:
        """Delete what is expired, or what a full disk has no room for; see `retention`.

        While the disk is too full `append` raises DiskFull. Wanted every few seconds. Views that
        `get_messages` and others gave stay valid. Not to be begun while another one, or
        `maintain_steps`, is under way.

        Args:
            settings: What is kept, and for how long.
            reserve_hours: For how long the messages of some topics are kept at least, by topic; the
                rest of the log file that holds them is kept with them.
            at_once: Whatever the hour.

        Raises:
            DiskFailed: Something could not be deleted; the next round tries again.
        """
        if self._can_keep:
            yield from self._alone(self._clean_steps(settings, reserve_hours, at_once=at_once))

    def check_batches(self, topic: str) -> None:
        """Refuse what `take_batches` would refuse.

        Raises:
            MessageIllegal: The topic's queues are there already, and hold single messages; or the
                store's are in a RocksDB, which holds no others.
        """
        if topic in self.batch_topics:
            return
        if not isinstance(self._queues, FileQueues):
            raise MessageIllegal("batch queues are kept in files only, and the store has a RocksDB")
        if any(name == topic for name, _, _ in self.queues()):
            raise MessageIllegal(f"topic {topic} has queues of single messages already")

    def take_batches(self, topic: str) -> None:
        """Give a topic batch queues, before its first message.

        Raises:
            MessageIllegal: See `check_batches`.
            CorruptRecord: The topic cannot be a folder's name.
            DiskFull, DiskFailed: It has them, but a crash may make that forgotten.
        Durability: survives any crash on return.
        """
        self.check_batches(topic)
        if topic not in self.batch_topics:
            assert isinstance(self._queues, FileQueues), "checked above"
            self._queues.take_batches(topic)

    def _clean_steps(
        self, settings: RetentionSettings, reserve_hours: Mapping[str, int], *, at_once: bool
    ) -> Steps:
        first = self._log.first
        yield from self._retention.clean_steps(settings, reserve_hours, at_once=at_once)
        if self._log.first > first:
            yield from self.deletions.prune_steps(self._log.first)

    def delete_topic_steps(self, topic: str, then: Callable[[], None]) -> Steps:
        """Delete a topic's queues; made again, it begins at queue offset 0. See `deletions`.

        Its records are found by key until the log is cleaned. Not to be begun while
        `maintain_steps` or `clean_steps` are under way.

        Args:
            topic: What to delete; it need not be there.
            then: Deletes what the caller has of it. Nothing else runs between both.

        Raises:
            StoreError: See `deletions.Deleter.steps`; and whatever `then` raises.
        """
        if not self._can_keep:
            raise StoreFailed(self._flush.failure or "the store is closed or only read")
        yield from self._alone(self._deleter.steps(topic, then))
        self._checkpointer.topics_changed()

    @property
    def _can_keep(self) -> bool:
        return self._lock is not None and self._flush.failure is None

    def _alone(self, work: Steps) -> Steps:
        assert not self._is_keeping, "maintaining and cleaning take turns"
        self._is_keeping = True
        try:
            yield from work
        finally:
            self._is_keeping = False

    def close(self) -> None:
        """Stop cleanly: all is written, synced and dispatched, `abort` removed, the lock released.

        If any of that fails, the lock is released anyway and the next open recovers.

        Raises:
            StoreError: What failed.
        """
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._lock is not None:
                self._close_cleanly()
        finally:
            self._appender.stop("the store is closed")
            self._queues.close()
            if self._index is not None:
                self._index.close_handles()
            self._compactions.close()
            self._files.close()
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _close_cleanly(self) -> None:
        if self._flush.failure is not None:
            raise StoreFailed(self._flush.failure)
        self._shown_to = ANYWHERE
        steps.run(self._undo_steps())
        self.write()
        self.sync()
        self._dispatch_now()
        self.dispatch_index()
        steps.run(
            self._compactions.follow_steps(
                self._queues, self._files, self._flush.synced, parts_max=PARTS_AT_CLOSE_MAX
            )
        )
        self._compactions.save_positions()
        self._checkpointer.seal(self._appender.last_record)
