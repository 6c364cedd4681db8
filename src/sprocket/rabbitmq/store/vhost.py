"""The durable queues of a virtual host, opened as a whole.

Theory of operation

A queue is a `StoredQueue`. What all of them do in a turn goes to one write-ahead log, which group
commit writes and syncs (`log`). From time to time the owner asks which queues are due for a flush
(`flush_due`), and has it done in steps (`flush_steps`), which also gives back files of the log;
`collect_steps` gives back room in the message store. `close_steps` is a clean stop.

A start after that believes `sprocket.clean` if it is right in every point (`recovery.open_clean`);
after anything else everything is looked at (`recovery.recover`), with a report.

What a folder has, as seen by a RabbitMQ that starts on it:

* While it is open, and after a kill: neither recovery.dets nor clean.dot, so that RabbitMQ looks at
  everything; what only the log has it does not see.
* After a clean stop: all that RabbitMQ leaves itself, and `sprocket.clean`.

Invariants

1. There is no recovery.dets while there is a log.
2. One of `flush_steps`, `collect_steps` and `close_steps` runs at a time; of the first two a second
   one does nothing.
3. Whoever changes files otherwise than by appending has `layout.upkeep_lock`. A backup has it while
   it copies what is not only appended to; flushes and collections wait for a later turn then.

Source: RabbitMQ 3.10.8 `rabbit_vhost`, `rabbit_variable_queue`.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from sprocket.base import release
from sprocket.base.checksum import crc32
from sprocket.base.collector import uncollected
from sprocket.base.disk import Disk, Lock, Steps, StepsTo, replace_file
from sprocket.base.errors import StoreError, StoreLocked
from sprocket.base.progress import Step, unwatched
from sprocket.rabbitmq.codec.clean_summary import CleanQueue, CleanSegment
from sprocket.rabbitmq.codec.store import QueueTerms, recovery_terms
from sprocket.rabbitmq.model.message import ID_BYTES
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store import geometry, message_store, queue_index, recovery
from sprocket.rabbitmq.store.delayed import DelayedStore
from sprocket.rabbitmq.store.layout import (
    DELAYED_ORIGIN,
    OPENED_FROM,
    STORE_ORIGIN,
    VhostLayout,
    encode_queue_name,
    queue_folder,
    void_log_files,
)
from sprocket.rabbitmq.store.message_store import MessageStore
from sprocket.rabbitmq.store.queue_index import IndexLimits, QueueIndex
from sprocket.rabbitmq.store.recovery import RecoveredQueue, RecoveredVhost
from sprocket.rabbitmq.store.stored_queue import QueueSurroundings, StoredQueue, TurnMessages
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog

FLUSH_QUEUES_MAX = 256
"""This many queues are flushed together: to begin that takes a few milliseconds."""

UPKEEP_WAIT_SECONDS = 10.0
"""How long a start, a stop or a backup waits for the end of upkeep, or of a backup's turn."""

LOG_CARRIES = 8
"""After a crash the log may have one in this many of the bytes that it may have at most."""


class VhostPlace(Struct, frozen=True):
    """Where a virtual host keeps its durable queues.

    Attributes:
        disk: Where its folder lies.
        folder: The path of that; `layout.vhost_folder` says what RabbitMQ calls it.
        vhost: The virtual host's name; empty if nobody knows.
    """

    disk: Disk
    folder: str
    vhost: str

    @property
    def layout(self) -> VhostLayout:
        """The paths in the folder."""
        return VhostLayout(self.folder)


class VhostStore:
    """See the head of the module; `open` makes one.

    Attributes:
        vhost: The virtual host's name.
        log: What makes durable what is done; for group commit.
        delayed: Messages that exchanges keep until they are due.
        report: What the start found.
    Threads: one at a time; calls that steps give may run elsewhere.
    """

    def __init__(
        self,
        place: VhostPlace,
        settings: VhostStoreSettings,
        lock: Lock,
        found: RecoveredVhost,
        entry_count: int,
    ) -> None:
        disk, layout = place.disk, place.layout
        number = max(void_log_files(disk.list(layout.root)), default=-1) + 1
        self.vhost = place.vhost
        self.report = found.report
        file_bytes = settings.log_file_bytes
        self.log = found.log or WriteAheadLog(disk, layout.root, file_bytes, number)
        self.log.go_on(file_bytes)
        self._disk = disk
        self._layout = layout
        self._settings = settings
        self._lock = lock
        self._limits = IndexLimits(entry_count, settings.journal_records_max)
        self._store_origin = Origin(STORE_ORIGIN)
        store = MessageStore(
            disk,
            layout.persistent,
            self.log,
            self._store_origin,
            found.store,
            settings.store_file_bytes,
        )
        self._delayed_origin = Origin(DELAYED_ORIGIN)
        self.delayed = DelayedStore(
            disk,
            layout.delayed,
            self.log,
            self._delayed_origin,
            found.delayed,
            settings.delayed_bytes_max,
        )
        turn = TurnMessages()
        self.log.write_with(turn)
        self._around = QueueSurroundings(
            self.log, store, turn, settings.embed_bytes_below, entry_count
        )
        self._queues: dict[str, StoredQueue] = {}
        self._dirty: dict[StoredQueue, float] = {}
        """Queues with something to flush, and when something last happened to each."""
        self._is_busy = False
        for folder, queue in found.queues.items():
            self._add(folder, None, queue)

    def _add(self, folder: str, name: QueueName | None, found: RecoveredQueue) -> StoredQueue:
        origin = found.origin or Origin(folder, len(found.journal))
        if name is not None:
            origin.queue_name = encode_queue_name(name)
        mine = QueueIndex(
            self._disk,
            self._layout.queue(folder),
            self.log,
            origin,
            self._limits,
            found.segments,
            is_named=found.has_name,
        )
        reference = found.reference or secrets.token_bytes(ID_BYTES)
        queue = self._queues[folder] = StoredQueue(name, mine, self._around, found, reference)
        if found.origin is not None:
            self._around.touched[queue] = None  # its records keep the log from becoming smaller
        return queue

    @classmethod
    def open(
        cls,
        place: VhostPlace,
        settings: VhostStoreSettings,
        wanted: VhostGeometry,
        step: Step = unwatched,
    ) -> "VhostStore":
        """Open a virtual host's folder, made if it is missing, whatever its last end was.

        Args:
            place: Which one, and where.
            settings: How messages are kept.
            wanted: For a new folder; one that is there keeps its own, see `report`.
            step: Called with the progress.

        Raises:
            StoreLocked: Somebody has it open.
            ForeignStore: It is another virtual host's, or cannot be understood.
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; it may be tried again.
        """
        disk, layout = place.disk, place.layout
        disk.make_folder(layout.root)
        lock = disk.lock(layout.lock)
        try:
            upkeep = lock_upkeep(disk, layout)
            try:
                damage = geometry.require_vhost(disk, layout, place.vhost)
                damage += release.admit(disk, layout.root, OPENED_FROM)
                fixed, wrong = geometry.found(disk, layout, wanted)
                damage += wrong
                geometry.keep(disk, layout, place.vhost, fixed)
                count = fixed.segment_entries
                with uncollected():
                    found = recovery.open_clean(disk, layout, count, step)
                    if found is None:
                        carried_bytes_max = settings.log_bytes_max // LOG_CARRIES
                        found = recovery.recover(disk, layout, count, step, carried_bytes_max)
                    found.report.damage[:0] = damage
                    return cls(place, settings, lock, found, count)
            finally:
                upkeep.release()
        except BaseException:
            lock.release()
            raise

    # -- queues

    def queue(self, name: QueueName) -> StoredQueue:
        """Return the messages of a queue, or of one of its priorities; it is made if it is new."""
        folder = queue_folder(name)
        found = self._queues.get(folder)
        if found is None:
            return self._add(folder, name, RecoveredQueue())
        if found.name is None:
            found.name = name
            found.index.origin.queue_name = encode_queue_name(name)
        found.is_removed = False
        return found

    @property
    def unclaimed(self) -> dict[str, StoredQueue]:
        """Queues that the folder has and nobody has asked for by name, by their folders' names.

        RabbitMQ deletes such ones at its start.
        """
        return {folder: one for folder, one in self._queues.items() if one.name is None}

    # -- upkeep

    @property
    def is_flush_due(self) -> bool:
        """Whether there is something to flush that should not wait until queues are idle."""
        return bool(self._around.full) or self._is_log_large or self.delayed.is_flush_due

    @property
    def _is_log_large(self) -> bool:
        return self.log.file_count * self._settings.log_file_bytes > self._settings.log_bytes_max

    def flush_due(self, now: float) -> list[StoredQueue]:
        """Return the queues that are to be flushed now, some at a time; for `flush_steps`.

        Those with many records, those that did nothing for a while, those whose messages take
        much memory, and those that keep the log from becoming smaller.

        Args:
            now: Seconds, of a clock that only rises; asked some times each second.
        """
        around, dirty = self._around, self._dirty
        around.turn.append_arrived()
        for queue in around.touched:
            dirty[queue] = now
        around.touched.clear()
        due = dict(around.full)
        idle_since = now - self._settings.flush_idle_ms / 1000
        held_bytes = 0
        for queue, used_at in dirty.items():
            held_bytes += queue.index.journal_bytes
            if used_at <= idle_since or queue.index.is_flushing:
                due[queue] = None
        if self._is_log_large:
            oldest = self.log.oldest_file
            due |= dict.fromkeys(
                queue for queue in dirty if self.log.needs(queue.index.origin, oldest)
            )
        if held_bytes > self._settings.journal_bytes_max:
            largest = sorted(dirty, key=lambda queue: queue.index.journal_bytes, reverse=True)
            for queue in largest:
                if held_bytes <= self._settings.journal_bytes_max // 2:
                    break
                held_bytes -= queue.index.journal_bytes
                due[queue] = None
        return [*due][:FLUSH_QUEUES_MAX]

    def flush_steps(self, queues: Sequence[StoredQueue]) -> Steps:
        """Bring what queues have in memory into their segments, and give back files of the log.

        Raises:
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; the same queues are due again.
        """
        if self._is_busy:
            return
        self.log.say_synced()
        is_due = self.is_flush_due or self._around.store.full_files or self.log.has_unused_files
        if queues or is_due:
            yield from self._upkeep_steps(partial(self._flush_and_retire_steps, queues))

    def _upkeep_steps(self, work: Callable[[], StepsTo[int]]) -> StepsTo[int]:
        """Do work that changes files, and return how many are gone, unless they are being copied.

        Nor does it begin while other such work is under way.
        """
        if self._is_busy:
            return 0
        self._is_busy = True
        try:
            lock: Lock | None = yield self._try_upkeep_lock
            if lock is None:
                return 0
            try:
                return (yield from work())
            finally:
                lock.release()
        finally:
            self._is_busy = False

    def _try_upkeep_lock(self) -> Lock | None:
        try:
            return self._disk.lock(self._layout.upkeep_lock)
        except StoreLocked:
            return None

    def _flush_and_retire_steps(self, queues: Sequence[StoredQueue]) -> StepsTo[int]:
        yield from self._flush_steps(queues)
        store = self._around.store
        needs_oldest = self.log.needs(self._store_origin, self.log.oldest_file)
        if store.full_files or (self._is_log_large and needs_oldest):
            yield from store.sums_steps(also_newest=self._is_log_large)
        is_needed = self.log.needs(self._delayed_origin, self.log.oldest_file)
        if self.delayed.is_flush_due or (self._is_log_large and is_needed):
            yield from self.delayed.flush_steps()
        return (yield from self.log.retire_steps())

    def _flush_steps(self, queues: Sequence[StoredQueue]) -> Steps:
        around = self._around
        if not queues:
            return
        while waiting := [queue for queue in queues if queue.has_to_look_up]:
            for queue in waiting:
                yield from queue.look_up_steps()
        for queue in queues:
            queue.append_arrived()
            around.full.pop(queue, None)
            around.touched.pop(queue, None)
            self._dirty.pop(queue, None)
        try:
            yield from queue_index.flush_steps(self.log, [queue.index for queue in queues])
        except StoreError:
            around.full.update(dict.fromkeys(queues))
            raise
        for queue in queues:
            queue.keep_sizes()
            if queue.is_removed and queue.index.is_empty:
                yield queue.index.remove_folder
                if queue.is_removed and queue.index.is_empty:
                    self._queues.pop(queue.index.origin.folder, None)

    def collect_steps(self) -> StepsTo[int]:
        """Give back room in the message store and in that of delayed messages, if it pays.

        Returns:
            Files that are gone; 0 if there is nothing to do now.

        Raises:
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; some garbage is still there.
        """
        if message_store.is_collect_due(self._around.store) or self.delayed.wants_merge:
            return (yield from self._upkeep_steps(self._collect_steps))
        return 0

    def _collect_steps(self) -> StepsTo[int]:
        count = yield from message_store.collect_steps(self._around.store)
        return count + (yield from self.delayed.merge_steps())

    # -- the end

    def close_steps(self) -> Steps:
        """Stop cleanly: the folder is as RabbitMQ leaves one, and the next start is immediate.

        Raises:
            DiskFull, DiskFailed, StoreFailed, StoreLocked: Nothing is lost, but the next start
                looks at everything; `close` is still to be called.
        """
        assert not self._is_busy, "something else is under way"
        self._is_busy = True
        lock = yield partial(lock_upkeep, self._disk, self._layout)
        try:
            yield from self._close_steps()
        finally:
            lock.release()
        self.close()

    def _close_steps(self) -> Steps:
        yield from self._flush_steps([q for q in self._queues.values() if q.is_removed])
        queues = dict(self._queues)
        for queue in queues.values():
            while queue.index.has_void_files:  # a flush that had failed is ended first
                yield from self._flush_steps([queue])
            yield from queue.look_up_steps()
        while self.delayed.wants_flush:
            yield from self.delayed.flush_steps()
        references = [queue.reference for queue in queues.values()]
        yield from message_store.close_steps(self._around.store, references)
        indexes = [queue.index for queue in queues.values()]
        yield from queue_index.close_steps(self.log, self._layout, indexes)
        yield partial(self._leave_terms, queues)

    def _leave_terms(self, queues: dict[str, StoredQueue]) -> None:
        """Write what the queues leave, for RabbitMQ and for us, durably."""
        disk, layout = self._disk, self._layout
        terms = recovery_terms.encode(
            {
                folder: QueueTerms(
                    next_seq_id=queue.next_seq_id,
                    next_deliver_seq_id=queue.delivered_end,
                    persistent_ref=queue.reference,
                    persistent_count=queue.message_count,
                    persistent_bytes=queue.body_bytes,
                    segments=queue.index.unacked,
                )
                for folder, queue in queues.items()
            }
        )
        said = {}
        for folder, queue in queues.items():
            journal = queue.index.read_journal()
            said[folder] = CleanQueue(
                next_seq_id=queue.next_seq_id,
                next_deliver_seq_id=queue.delivered_end,
                persistent_ref=queue.reference,
                message_count=queue.message_count,
                body_bytes=queue.body_bytes,
                segments={
                    number: CleanSegment(one.unacked, one.file_bytes)
                    for number, one in queue.index.known_segments.items()
                },
                journal_bytes=len(journal),
                journal_crc=crc32(journal),
            )
        store_crc = message_store.clean_crc(disk, layout.persistent)
        replace_file(disk, layout.clean, recovery.clean_file(terms, store_crc, said))
        replace_file(disk, layout.recovery_terms, terms)

    def close(self) -> None:
        """Give up files and lock. What was not written is lost, unless `close_steps` came first."""
        self.log.close()
        self.delayed.close()
        self._around.store.close()
        self._lock.release()


def lock_upkeep(disk: Disk, layout: VhostLayout) -> Lock:
    """Lock what whoever changes files of a virtual host has locked; wait for the others' end.

    Raises:
        StoreLocked: Somebody else had it for ten seconds.
    Threads: any that may wait.
    """
    return disk.lock(layout.upkeep_lock, UPKEEP_WAIT_SECONDS)
