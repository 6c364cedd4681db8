"""Opening a store: lock, geometry, recovery; readers do none of these."""

import os
from dataclasses import dataclass

from sprocket.base import log, release
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.collector import uncollected
from sprocket.base.disk import Disk, Lock, SegmentFiles
from sprocket.base.errors import DiskFailed, DiskFull
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store import topic_table
from sprocket.rocketmq.store.compaction import Compactions
from sprocket.rocketmq.store.cutting import cut_progress, log_cut
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.layout import OPENED_FROM, StoreLayout, require_store
from sprocket.rocketmq.store.log import CommitLog
from sprocket.rocketmq.store.queue import (
    OtherKinds,
    Subscriptions,
    UnitAssigner,
    delays_ms,
    engines,
)
from sprocket.rocketmq.store.recovery import (
    Checkpoint,
    Deletions,
    RecoveryReport,
    StoreParts,
    recovery,
)
from sprocket.rocketmq.store.recovery import checkpoint as checkpoints

_log = log.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts of a store that is open.

    Attributes:
        lock: None if it is only read.
        report: What recovery did; None if it is only read.
    """

    parts: StoreParts
    geometry: Geometry
    clock: Clock
    log: CommitLog
    lock: Lock | None
    report: RecoveryReport | None


def to_write(
    disk: Disk,
    folder: str,
    settings: StoreSettings,
    clock: Clock,
    geometry: Geometry | None,
    subscriptions: Subscriptions | None = None,
    *,
    step: Step = unwatched,
    follows: bool = False,
) -> Opened:
    """Lock a store, or make one, and recover it; see `Store.open`."""
    layout = StoreLayout(folder)
    disk.make_folder(folder)
    if not disk.exists(layout.lock):
        _write_lock_file(disk, layout)
    lock = disk.lock(layout.lock)
    parts = None
    try:
        resolved = geometries.resolve(disk, layout, geometry)
        for damage in release.admit(disk, folder, OPENED_FROM):
            _log.error("damage was found", what=damage)
        for path in (layout.commitlog, layout.consumequeue, layout.index, layout.config):
            disk.make_folder(path)
        cut = log_cut.pending(disk, layout)
        if cut is not None:
            cut = log_cut.finish(disk, layout, resolved, cut)
        is_certain = geometries.is_certain(disk, layout)
        geometries.keep(disk, layout, resolved)
        parts = _parts(disk, layout, settings, clock, resolved, subscriptions, step, write=True)
        parts.is_geometry_certain, parts.follows = is_certain, follows
        parts.is_cut = cut is not None
        last = recovery.last_end(disk, layout)
        parts.compactions.load(_compacted_topics(disk, layout, settings), last)
        with uncollected():
            report = recovery.recover(parts, clock, os.getpid())
        if parts.index is not None:
            parts.index.prepare()
        log = CommitLog(parts.files, report.end, crc_tail=settings.crc_tail)
        if cut is not None:
            cut_progress.set_back(parts, log, resolved, clock, cut)
        parts.compactions.agree_with(parts.queues, log, parts.deletions.pending)
        if cut is not None:
            log_cut.forget(disk, layout)
        return Opened(parts, resolved, clock, log, lock, report)
    except BaseException:
        if parts is not None:
            parts.close()
        lock.release()
        raise


def to_read(disk: Disk, folder: str, geometry: Geometry | None) -> Opened:
    """Find the end of a store's log and take up the rest as it is; see `Store.open_read_only`."""
    layout = require_store(disk, folder)
    release.require(disk, folder)
    log_cut.refuse_pending(disk, layout)
    resolved = geometries.resolve(disk, layout, geometry)
    clock = SystemClock()
    parts = _parts(disk, layout, StoreSettings(), clock, resolved, write=False)
    with uncollected():
        scan = recovery.find_end(parts)
    log = CommitLog(parts.files, scan.end, crc_tail=False)
    topics = _compacted_topics(disk, layout, StoreSettings())
    parts.compactions.load(topics, recovery.last_end(disk, layout))
    parts.compactions.agree_with(parts.queues, log, ())
    return Opened(parts, resolved, clock, log, None, None)


def distrust(disk: Disk, folder: str) -> None:
    """Have the next opening check the whole log, and make queues and index again from it.

    Raises:
        StoreLocked: The store is open.
    """
    layout = StoreLayout(folder)
    lock = disk.lock(layout.lock)
    try:
        recovery.mark_open(disk, layout, os.getpid())
        checkpoints.save(disk, layout.checkpoint, Checkpoint())
    finally:
        lock.release()


def _parts(
    disk: Disk,
    layout: StoreLayout,
    settings: StoreSettings,
    clock: Clock,
    geometry: Geometry,
    subscriptions: Subscriptions | None = None,
    step: Step = unwatched,
    *,
    write: bool,
) -> StoreParts:
    files = SegmentFiles(disk, layout.commitlog, geometry.log.segment_bytes, write=write)
    others = OtherKinds(
        layout.extension,
        layout.batch_queues,
        extend=settings.extended_units,
        batch_topics=_batch_topics(disk, layout),
    )
    deletions = Deletions(disk, layout, write=write)
    index = None
    if settings.index_messages:
        is_behind = not write and disk.exists(layout.abort)
        index = Indexes(disk, layout.index, geometry.index, clock, write=write, is_behind=is_behind)
    return StoreParts(
        disk=disk,
        layout=layout,
        settings=settings,
        files=files,
        queues=engines.make(disk, layout, geometry.queue, others, write=write),
        index=index,
        deletions=deletions,
        compactions=Compactions(disk, layout, geometry.compaction, write=write),
        step=step,
        units=UnitAssigner(
            files,
            deleted=deletions.ends,
            delays=delays_ms(settings.delay_levels),
            subscriptions=subscriptions,
            bloom=Bloom.of(settings.filter_bits_error_percent, settings.filter_bits_groups),
            batch_topics=others.batch_topics,
        ),
    )


def _batch_topics(disk: Disk, layout: StoreLayout) -> set[str]:
    """Return the topics whose attribute says that their queues are batch queues.

    A damaged table is the broker's to report; the folder of batch queues tells most of it, too.
    """
    topics = (topic_table.read(disk, layout) or {}).values()
    return {topic.name for topic in topics if topic.takes_batches}


def _compacted_topics(disk: Disk, layout: StoreLayout, settings: StoreSettings) -> list[str]:
    """Return the compaction topics; if the table of topics is lost, those that have something."""
    if not settings.compact:
        return []
    topics = topic_table.read(disk, layout)
    if topics is None:
        return list(disk.folders(layout.compaction_log))
    return [topic.name for topic in topics.values() if topic.is_compacted]


def _write_lock_file(disk: Disk, layout: StoreLayout) -> None:
    """Make the file that is locked; RocketMQ writes this word into it."""
    file = disk.open(layout.lock, write=True, create=True)
    try:
        file.write([b"lock"], 0)
    except (DiskFull, DiskFailed):
        disk.remove(layout.lock)
        raise
    finally:
        file.close()
