"""Opening a store: lock, geometry, recovery; or none of these, for those who only read."""

import os
from dataclasses import dataclass

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.disk import Disk, Lock
from sprocket.base.errors import DiskFailed, DiskFull, ForeignStore
from sprocket.base.segments import SegmentFiles
from sprocket.rocketmq.settings import Geometry, StoreSettings
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store import recovery
from sprocket.rocketmq.store.commitlog import CommitLog
from sprocket.rocketmq.store.index import Indexes
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queues.files import FileQueues
from sprocket.rocketmq.store.recovery import Parts, RecoveryReport


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts of a store that is open.

    Attributes:
        lock: None if it is only read.
        report: What recovery did; None if it is only read.
    """

    parts: Parts
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
) -> Opened:
    """Lock a store, or make one, and recover it; see `Store.open`."""
    layout = StoreLayout(folder)
    disk.make_folder(folder)
    if not disk.exists(layout.lock):
        _write_lock_file(disk, layout)
    lock = disk.lock(layout.lock)
    try:
        settled = geometries.settle(disk, layout, geometry)
        for path in (layout.commitlog, layout.consumequeue, layout.index, layout.config):
            disk.make_folder(path)
        geometries.keep(disk, layout, settled)
        parts = _parts(disk, layout, settings, clock, settled, write=True)
        report = recovery.recover(parts, clock, os.getpid())
        log = CommitLog(parts.files, report.end, crc_tail=settings.crc_tail)
        return Opened(parts, settled, clock, log, lock, report)
    except BaseException:
        lock.release()
        raise


def to_read(disk: Disk, folder: str, geometry: Geometry | None) -> Opened:
    """Find the end of a store's log and take up the rest as it is; see `Store.open_read_only`."""
    layout = StoreLayout(folder)
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{folder}: there is no store, {layout.commitlog} is missing")
    settled = geometries.settle(disk, layout, geometry)
    clock = SystemClock()
    parts = _parts(disk, layout, StoreSettings(), clock, settled, write=False)
    walk = recovery.find_end(parts)
    log = CommitLog(parts.files, walk.end, crc_tail=False)
    return Opened(parts, settled, clock, log, None, None)


def _parts(
    disk: Disk,
    layout: StoreLayout,
    settings: StoreSettings,
    clock: Clock,
    geometry: Geometry,
    *,
    write: bool,
) -> Parts:
    index = None
    if settings.index_messages:
        index = Indexes(disk, layout.index, geometry.index, clock, write=write)
    return Parts(
        disk=disk,
        layout=layout,
        settings=settings,
        files=SegmentFiles(disk, layout.commitlog, geometry.log.segment_bytes, write=write),
        queues=FileQueues(disk, layout.consumequeue, geometry.queue, write=write),
        index=index,
    )


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
