"""Cutting a log at an offset, while its store is closed.

Theory of operation. A log that goes on where its master's goes on differently is cut there: nobody
has acknowledged what comes off, and an operator may want it. In this order, each durable before the
next:

1. *Note.* `config/sprocket.cut` says where. From here on no opening takes the log as it is: the
   next one finishes the cut.
2. *Mark.* `abort` is written: the next opening trusts queues and index only as far as the log goes.
3. *Save.* What comes off is copied to `cut/EPOCH-OFFSET`, as log files in which it lies where it
   lay; before it is a hole. It appears there as a whole.
4. *Cut.* Later files are removed, the newest first, then the rest is zeroed and synced. RocketMQ
   does not erase what it truncates; a crash can bring it back behind a shorter rewrite. What is
   zeroed is what was saved, not what the log shows: after a failed sync the two may differ.
5. *Epochs.* Those that began later are forgotten. Not before: a log that has bytes of an epoch
   without its entry would count as equal to one that has not. Then the note says that it is cut.
6. The next opening recovers as after a crash (queues, index, checkpoint), then sets progress back
   (`cut_progress`), and removes the note last.

Each step does nothing where it was done, so that all of them can be done again at any time. Where
nothing of a log is kept its folder is moved to the saved ones, which is saving and cutting in one.
"""

import os
from contextlib import closing

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sprocket.base import log, release
from sprocket.base.checksum import crc32
from sprocket.base.disk import (
    Disk,
    Segment,
    SegmentFiles,
    read_file,
    remove_if_there,
    replace_file,
)
from sprocket.base.errors import CorruptRecord, FileMissing, ForeignStore, OffsetTooLarge
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.log import LogScanner, log_repair
from sprocket.rocketmq.store.recovery import recovery

_ZEROS = bytes(256 * KIB)

OPENED_FROM = "0.3.0"
"""The lowest release that knows of the note; see `base.release`."""

_log = log.get_logger(__name__)


class Cut(Struct, frozen=True, kw_only=True):
    """What is cut off a log; kept in the note, and beside what was saved.

    Attributes:
        at: Where the log ends then, a physical offset.
        end: Where it ended before.
        first: Where it began before; it keeps nothing if `at` is not behind that.
        epoch: The newest that it had.
        records: How many intact records come off.
        folder: The name of what is saved, in the store's folder `cut`; empty if nothing comes off.
        earlier: Those of cuts before it, of which the store has not been opened since.
        is_cut: It is done, as far as it can be while the store is closed.
    """

    at: int
    end: int
    first: int
    epoch: int
    records: int
    folder: str
    earlier: tuple[str, ...] = ()
    is_cut: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """What was saved since the store was open last."""
        return (*self.earlier, self.folder) if self.folder else self.earlier

    @property
    def bytes(self) -> int:
        """How much comes off."""
        return self.end - self.at

    @property
    def keeps_nothing(self) -> bool:
        """Whether all of the log comes off."""
        return self.at <= self.first


def cut(disk: Disk, folder: str, at: int) -> Cut:
    """Cut the log of a store, which then opens as though it had always ended there.

    Args:
        disk: Where it lies.
        folder: Its folder; nobody has it open.
        at: Where the log is to end: where a record or a file begins, or it ends already. Where the
            log begins, or before that, nothing of it is kept.

    Raises:
        StoreLocked: Somebody has it open.
        OffsetTooLarge: It ends before `at`.
        CorruptRecord: No record begins there. Nothing was changed.
        ForeignStore: There is no store, or its epochs are damaged. Nothing was changed.
        DiskFull, DiskFailed: To be done again; so does the next opening.
    Durability: what comes off is saved before anything is cut; all is on the disk on return.
    """
    layout = require_store(disk, folder)
    lock = disk.lock(layout.lock)
    try:
        geometry = geometries.resolve(disk, layout, None)
        begun = pending(disk, layout)
        if begun is not None:
            begun = finish(disk, layout, geometry, begun)
            if begun.at <= at:
                return begun
        planned = _plan(disk, layout, geometry, at)
        if begun is not None:
            planned = replace(planned, earlier=begun.folders)
        release.admit(disk, folder, OPENED_FROM)
        disk.make_folder(layout.config)
        _note(disk, layout, planned)
        return finish(disk, layout, geometry, planned)
    finally:
        lock.release()


def pending(disk: Disk, layout: StoreLayout) -> Cut | None:
    """Return the cut that has begun and that no opening has finished; None if there is none.

    Raises:
        ForeignStore: The note is damaged: nobody can tell what the log is worth.
    """
    try:
        content = read_file(disk, layout.cut_note)
    except FileMissing:
        return None
    crc, _, data = content.partition(b"\n")
    if crc == b"%d" % crc32(data):
        return msgspec.json.decode(data, type=Cut)
    raise ForeignStore(
        f"{layout.cut_note} is damaged: a cut of the log has begun, and it is not known where"
    )


def refuse_pending(disk: Disk, layout: StoreLayout) -> None:
    """Raise ForeignStore while a cut has begun, for those who only read."""
    begun = pending(disk, layout)
    if begun is not None:
        raise ForeignStore(
            f"{layout.root}: its log is being cut at {begun.at}; its broker finishes that when it "
            "starts"
        )


def forget(disk: Disk, layout: StoreLayout) -> None:
    """Remove the note, once the store agrees with the log that was cut. Durable on return."""
    remove_if_there(disk, layout.cut_note)
    disk.sync_folder(layout.config)


def finish(disk: Disk, layout: StoreLayout, geometry: Geometry, planned: Cut) -> Cut:
    """Do what is left of a cut up to the epochs, and return it; see the head of the module.

    Raises:
        DiskFull, DiskFailed: To be done again.
    """
    if planned.is_cut:  # another broker may have written to the log since
        return planned
    _mark(disk, layout)
    if planned.keeps_nothing:
        _move_all(disk, layout, planned)
    elif planned.folder:
        files = _files(disk, layout, geometry)
        try:
            _save(disk, layout, files, planned)
            _cut(disk, layout, geometry, files, planned)
        finally:
            files.close()
    _epochs(disk, layout, planned.at)
    planned = replace(planned, is_cut=True)
    _note(disk, layout, planned)
    _log.warning(
        "the log was cut",
        at=planned.at,
        end=planned.end,
        records=planned.records,
        saved=planned.folder,
    )
    return planned


def saved_files(disk: Disk, layout: StoreLayout, geometry: Geometry, name: str) -> SegmentFiles:
    """Return the files of what was saved under a name, to be read and closed."""
    folder = f"{layout.cuts}/{name}/commitlog"
    files = SegmentFiles(disk, folder, geometry.log.segment_bytes, write=False)
    files.load()
    return files


def _files(
    disk: Disk, layout: StoreLayout, geometry: Geometry, *, write: bool = True
) -> SegmentFiles:
    files = SegmentFiles(disk, layout.commitlog, geometry.log.segment_bytes, write=write)
    files.load()
    return files


# Planning.


def _plan(disk: Disk, layout: StoreLayout, geometry: Geometry, at: int) -> Cut:
    """Return what a cut at an offset means; nothing is changed."""
    epoch = EpochFile(disk, layout).epochs.last
    files = _files(disk, layout, geometry, write=False)
    with closing(files):
        first = files.first
        start = max(at, first)
        if start > first:
            _require_boundary(files, start)
        scan = LogScanner(files.segments, start, check_crc=False)
        for _ in scan.batches():
            pass
        end = max(scan.end, _written_end(files, start))
    name = _free_name(disk, layout, f"{max(epoch, 0)}-{at}") if end > at else ""
    return Cut(at=at, end=end, first=first, epoch=epoch, records=scan.records, folder=name)


def _require_boundary(files: SegmentFiles, at: int) -> None:
    """Check that a record or a file begins at a place, or the log ends there."""
    if at > files.end_of_files:
        raise OffsetTooLarge(at, files.end_of_files)
    if at == files.end_of_files:
        return
    segment = files.segment(at)
    scan = LogScanner([segment], segment.start, check_crc=False, until=at)
    for _ in scan.batches():
        pass
    if scan.position < at:
        raise OffsetTooLarge(at, scan.position)
    if scan.position != at:
        raise CorruptRecord(
            f"{segment.path}: no record begins at {at}, the one before ends at {scan.position}"
        )


def _written_end(files: SegmentFiles, start: int) -> int:
    """Return the place behind the last byte of the log, from a place on, that is not zero."""
    for segment in reversed(files.segments):
        last = log_repair.last_byte(segment, max(start - segment.start, 0))
        if last is not None:
            return segment.start + last + 1
    return start


def _free_name(disk: Disk, layout: StoreLayout, name: str) -> str:
    """Return a name that nothing has which was saved before."""
    number, free = 1, name
    while disk.exists(f"{layout.cuts}/{free}"):
        number += 1
        free = f"{name}.{number}"
    return free


def _note(disk: Disk, layout: StoreLayout, planned: Cut) -> None:
    data = msgspec.json.encode(planned)
    replace_file(disk, layout.cut_note, b"%d\n%b" % (crc32(data), data))


# Saving.


def _save(disk: Disk, layout: StoreLayout, files: SegmentFiles, planned: Cut) -> None:
    """Copy what comes off, unless that was done."""
    target = f"{layout.cuts}/{planned.folder}"
    if disk.is_folder(target):
        return
    new = f"{target}.new"
    disk.remove_tree(new)
    disk.make_folder(f"{new}/commitlog")
    for segment in files.segments:
        if segment.end > planned.at:
            _copy(disk, segment, max(planned.at - segment.start, 0), f"{new}/commitlog")
    _describe(disk, layout, new, planned)
    disk.sync_folder(f"{new}/commitlog")
    disk.sync_folder(new)
    disk.rename(new, target)
    disk.sync_folder(layout.cuts)


def _copy(disk: Disk, segment: Segment, position: int, folder: str) -> None:
    """Copy a file from a position on; before it, and where nothing was written, is a hole."""
    path = f"{folder}/{os.path.basename(segment.path)}"
    with closing(disk.open(path, write=True, create=True, size=segment.size)) as file:
        while True:
            extent = segment.file.next_data(position)
            if extent.start >= extent.end:
                break
            position = extent.start
            while position < extent.end:
                data = segment.read(position, min(MIB, extent.end - position))
                file.write([data], position)
                position += len(data)
        file.sync()


def _describe(disk: Disk, layout: StoreLayout, folder: str, planned: Cut) -> None:
    """Put beside what is saved what it is: our own words, and the epochs that the log had."""
    content = msgspec.json.format(msgspec.json.encode(planned), indent=2) + b"\n"
    replace_file(disk, f"{folder}/cut.json", content)
    if disk.exists(layout.epochs):
        replace_file(disk, f"{folder}/epochFileCheckpoint", read_file(disk, layout.epochs))


def _move_all(disk: Disk, layout: StoreLayout, planned: Cut) -> None:
    """Move the log away, and have an empty one in its place."""
    if planned.folder:
        target = f"{layout.cuts}/{planned.folder}"
        if not disk.is_folder(f"{target}/commitlog"):
            disk.make_folder(target)
            _describe(disk, layout, target, planned)
            disk.rename(layout.commitlog, f"{target}/commitlog")
    disk.make_folder(layout.commitlog)
    if planned.folder:
        disk.sync_folder(target)
    disk.sync_folder(layout.root)


# Cutting.


def _mark(disk: Disk, layout: StoreLayout) -> None:
    """Have the next opening recover as after a crash."""
    recovery.mark_interrupted(disk, layout, os.getpid())


def _cut(
    disk: Disk, layout: StoreLayout, geometry: Geometry, files: SegmentFiles, planned: Cut
) -> None:
    """Remove later files, then zero what is left behind the end, all that was saved of it."""
    at = planned.at
    files.drop_from(at, durable=True)
    if at >= files.end_of_files:
        return
    segment = files.segment(at)
    with closing(saved_files(disk, layout, geometry, planned.folder)) as saved:
        extents = saved.segment(at).file
        position = at - segment.start
        while True:
            extent = extents.next_data(position)
            if extent.start >= extent.end:
                break
            position = extent.start
            while position < extent.end:
                size = min(len(_ZEROS), extent.end - position)
                segment.file.write([_ZEROS[:size]], position)
                position += size
    segment.file.sync()


def _epochs(disk: Disk, layout: StoreLayout, at: int) -> None:
    """Forget the epochs that began behind the end."""
    EpochFile(disk, layout).cut(at)
