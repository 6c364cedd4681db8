"""Recovery of a virtual host after any end but a clean stop of ours: a crash, or a RabbitMQ's stop.

The order, so that it can be cut short at any moment and begun again:

1. The write-ahead log and the queues' indexes are read: which messages are needed. After a kill the
   end of the log may be in memory only; it is synced, so that whatever rests on it is not ahead.
2. A log that is void, as a RabbitMQ has run since, is set aside; then whatever says that the last
   stop was a clean one is removed, all durably. How far a log counts is decided, and written there.
3. The message store keeps these, and that of delayed messages takes over what the log has.
4. The indexes resolve what the store has lost, and take over what the log has. It is removed, but
   for what it may carry: a little for each of many queues.

Queues of version 2 are of version 1 afterwards: what they have comes into segments as what a
journal has does.

Of what queues left at a clean stop of RabbitMQ's, only ids are trusted: how many messages there
are, and where, is determined from the files.
"""

from collections import Counter
from dataclasses import dataclass, replace

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.base.progress import Step, unwatched
from sprocket.rabbitmq.codec.store import QueueTerms, recovery_terms
from sprocket.rabbitmq.store import delayed, message_store
from sprocket.rabbitmq.store.delayed import DelayedContents
from sprocket.rabbitmq.store.layout import DELAYED_ORIGIN, STORE_ORIGIN, VhostLayout
from sprocket.rabbitmq.store.message_store import RecoveredStore
from sprocket.rabbitmq.store.queue_index import IndexRecovery, RecoveredIndex, sums
from sprocket.rabbitmq.store.recovery import clean
from sprocket.rabbitmq.store.recovery.report import RecoveredQueue, RecoveredVhost, VhostReport
from sprocket.rabbitmq.store.write_ahead import WriteAheadContents, read_log, set_aside, sync_log


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known before anything is changed."""

    contents: WriteAheadContents
    terms: dict[str, QueueTerms]
    folders: list[str]
    damage: list[str]

    @property
    def log_sums(self) -> bytes:
        """The checksums that the log has of stored messages."""
        return self.contents.store_sums

    @property
    def delayed_records(self) -> list[bytes]:
        """What the log has of delayed messages."""
        return self._records(DELAYED_ORIGIN)

    def _records(self, origin: str) -> list[bytes]:
        tail = self.contents.tails.get(origin)
        return tail.records if tail is not None else []


def recover(
    disk: Disk,
    layout: VhostLayout,
    entry_count: int,
    step: Step = unwatched,
    carried_bytes_max: int = 0,
) -> RecoveredVhost:
    """Bring a folder into a state to continue from.

    Args:
        disk: Where it lies.
        layout: Its paths.
        entry_count: Entries of a segment.
        step: Called with the progress.
        carried_bytes_max: So much of queues' records may stay in the log.

    Raises:
        DiskFull, DiskFailed, StoreFailed: Nothing is lost; it may be begun again.
    Durability: on return all is durable.
    """
    read = _read(disk, layout)
    sync_log(disk, layout.root, read.contents.numbers)
    if sums.are_void(disk, layout):
        for folder in read.folders:
            sums.remove_all(disk, layout.queue(folder))
        disk.sync_tree(layout.root)  # before that is forgotten
    indexes = IndexRecovery(
        disk, layout, entry_count, read.contents, read.folders, step, carried_bytes_max
    )
    wanted = Counter(indexes.stored_ids())
    void = []
    if read.contents.is_void:
        void = set_aside(disk, layout.root, read.contents.numbers)
    clean.forget(disk, layout)
    if read.contents.numbers and not read.contents.is_void:
        indexes.decide()
    store = message_store.recover(disk, layout.persistent, wanted, read.log_sums)
    later = delayed.recover(disk, layout.delayed, read.delayed_records)
    found = indexes.run(store.contents.messages.__contains__)
    recovered = _recovered(read, entry_count, found, store, later, void)
    return replace(recovered, log=indexes.log)


def dry_run(
    disk: Disk, layout: VhostLayout, entry_count: int, step: Step = unwatched
) -> VhostReport:
    """Return what an opening would report, and change nothing; takes and raises as `recover`."""
    as_left = clean.dry_run_clean(disk, layout, entry_count, step)
    if as_left is not None:
        return as_left.report
    read = _read(disk, layout)
    void = []
    if read.contents.is_void:
        void = [f"{layout.root}: {len(read.contents.numbers)} files that would be set aside"]
    indexes = IndexRecovery(
        disk,
        layout,
        entry_count,
        read.contents,
        read.folders,
        step,
        are_sums_void=sums.are_void(disk, layout),
    )
    wanted = Counter(indexes.stored_ids())
    store = message_store.dry_run(disk, layout.persistent, wanted, read.log_sums)
    found = indexes.dry_run(lambda one: one in wanted and one not in store.lost)
    later = delayed.dry_run(disk, layout.delayed, read.delayed_records)
    return _recovered(read, entry_count, found, store, later, void).report


def _read(disk: Disk, layout: VhostLayout) -> _Read:
    contents = read_log(disk, layout.root)
    damage = [*clean.disbelieved(disk, layout), *contents.findings]
    if contents.is_void:
        damage.append(
            f"{layout.root}: a RabbitMQ has run on what a kill had left, so that "
            f"{len(contents.numbers)} files of the log do not count any more"
        )
    terms: dict[str, QueueTerms] = {}
    try:
        found = recovery_terms.decode(read_file(disk, layout.recovery_terms))
        terms = found.queues
        damage += [f"{layout.recovery_terms}: {fault}" for fault in found.faults]
    except FileMissing:
        terms = {}  # as after a crash of ours
    except CorruptRecord as error:
        damage.append(f"{layout.recovery_terms}: {error}")
    folders = sorted(
        {*disk.folders(layout.queues), *contents.tails} - {STORE_ORIGIN, DELAYED_ORIGIN}
    )
    return _Read(contents, terms, folders, damage)


def _recovered(
    read: _Read,
    entry_count: int,
    indexes: dict[str, RecoveredIndex],
    store: RecoveredStore,
    later: DelayedContents,
    void: list[str],
) -> RecoveredVhost:
    queues = {
        folder: _queue(one, read.terms.get(folder), entry_count) for folder, one in indexes.items()
    }
    counts = {folder: one.message_count for folder, one in queues.items() if one.message_count}
    report = VhostReport(
        clean_stop=False,
        segment_entries=entry_count,
        queues=len(queues),
        messages=sum(counts.values()),
        body_bytes=sum(one.body_bytes for one in queues.values()),
        stored=len(store.contents.messages),
        delayed=later.count,
        log_files=len(read.contents.numbers),
        cut_bytes=read.contents.cut_bytes
        + store.cut_bytes
        + sum(one.cut_bytes for one in indexes.values()),
        repaired_segments=sum(one.repaired_count for one in indexes.values()),
        imported=sum(one.was_v2 for one in indexes.values()),
        lost=sum(one.lost_count for one in indexes.values()),
        void_log=void,
        damage=[
            *read.damage,
            *(str(one) for one in store.damage),
            *(str(damage) for one in indexes.values() for damage in one.damage),
            *later.damage,
        ],
        messages_by_folder=counts,
    )
    return RecoveredVhost(queues, store.contents, later, report)


def _queue(found: RecoveredIndex, terms: QueueTerms | None, entry_count: int) -> RecoveredQueue:
    """Return a queue; ids continue at a segment's beginning, unless it says where it was."""
    boundary = (max(found.segments, default=-1) + 1) * entry_count
    next_seq_id, next_deliver = boundary, boundary
    if terms is not None and terms.next_seq_id > boundary - entry_count:
        next_seq_id = terms.next_seq_id
        said = terms.next_deliver_seq_id
        next_deliver = next_seq_id if said is None else min(said, next_seq_id)
    return RecoveredQueue(
        segments=found.segments,
        next_seq_id=next_seq_id,
        next_deliver_seq_id=next_deliver,
        message_count=found.message_count,
        body_bytes=found.body_bytes,
        reference=None if terms is None else terms.persistent_ref,
        journal=found.journal,
        origin=found.origin,
        has_name=found.has_name,
    )
