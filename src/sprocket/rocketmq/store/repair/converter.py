"""Moving the queues of a closed store from one engine to the other, in place.

One file says which engine a store has, `consumequeue/CURRENT`: with it the folder is a RocksDB, and
folders of topics beside it are ignored. So the files of both engines can be there at once, and the
switch is one rename or removal of that file:

* To RocksDB: the database is built in a folder beside, closed, and its files are moved in, CURRENT
  last.
* To files: topics are made beside the database, all is synced, and CURRENT is removed.

The files of the old engine are removed afterwards. A crash before the switch leaves the old engine,
a crash after it the new one, complete; the next conversion removes files that a crash has left.

Kept are the offsets of each queue, the minimum too, and fillers. A store time, which units in files
do not have, is read from the record. So is the tags code where a unit in files has the address of
an extended one instead, which RocksDB has no place for.
"""

from itertools import groupby

from sprocket.base.disk import Disk, SegmentFiles, SegmentReader
from sprocket.base.errors import DiskFailed, ForeignStore, StoreFailed
from sprocket.base.folder_report import FolderReport
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import Engine
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.log import PROBE_BYTES, glance
from sprocket.rocketmq.store.queue import (
    CURRENT,
    FILLER_SIZE,
    BatchQueue,
    FileQueues,
    Queue,
    Queues,
    RocksQueues,
    engines,
    is_address,
)

UNITS_AT_ONCE = 4096

_Unit = tuple[int, int, int]


class ConvertReport(FolderReport, frozen=True, kw_only=True):
    """What a conversion did.

    Attributes:
        source: The engine that the store had.
        target: The one it has now. If they are the same, nothing was done.
        queues: Queues that were made.
        units: Units that were put, fillers included.
    """

    source: Engine
    target: Engine
    queues: int = 0
    units: int = 0


def convert(disk: Disk, folder: str, engine: Engine, *, step: Step = unwatched) -> ConvertReport:
    """Give a closed store's queues to an engine.

    Args:
        disk: Where the store lies.
        folder: Its folder.
        engine: The engine that it is to have.
        step: Is told how many units of how many are done.

    Raises:
        ForeignStore: The folder holds no store.
        StoreLocked: Somebody has it open.
        StoreFailed: It was not closed cleanly: open it once, so that it is recovered.
        EngineMissing: RocksDB cannot be had here.
        DiskFull, DiskFailed: The store has its old engine or the new one; both are whole.
    Durability: on return all is on the disk. It needs the room of both for a while.
    """
    layout = require_store(disk, folder)
    lock = disk.lock(layout.lock)
    try:
        if disk.exists(layout.abort):
            raise StoreFailed(
                f"{folder} was not closed: recover it first (`sprocket store recover`)"
            )
        return _convert(disk, layout, engine, step)
    finally:
        lock.release()


def _convert(disk: Disk, layout: StoreLayout, engine: Engine, step: Step) -> ConvertReport:
    geometry = geometries.resolve(disk, layout, None)
    old = geometry.queue.engine
    disk.make_folder(layout.config)
    _tidy(disk, layout, old)
    if old == engine:
        return ConvertReport(source=old, target=engine)
    files = SegmentFiles(disk, layout.commitlog, geometry.log.segment_bytes, write=False)
    files.load()
    source = engines.make(disk, layout, geometry.queue, write=False)
    target: Queues
    if engine == "rocksdb":
        target = RocksQueues(disk, layout.new_consumequeue)
    else:
        target = FileQueues(disk, layout.consumequeue, geometry.queue, note=layout.queue_ends)
    try:
        source.load(clean=True)
        source.correct_min(PhysicalOffset(files.first))
        if any(isinstance(queue, BatchQueue) for queue in source.by_key.values()):
            raise ForeignStore(f"{layout.batch_queues}: batch queues are kept in files only")
        units = _copy(source, target, files, step)
        target.seal()
        queues = len(target.by_key)
    finally:
        source.close()
        target.close()
        files.close()
    _switch(disk, layout, engine)
    geometries.save(disk, layout, geometries.with_engine(geometry, engine))
    _tidy(disk, layout, engine)
    return ConvertReport(source=old, target=engine, queues=queues, units=units)


def _copy(source: Queues, target: Queues, files: SegmentFiles, step: Step) -> int:
    """Put every unit of one engine into the other; return how many."""
    total = sum(queue.max_offset - queue.min_offset for queue in source.by_key.values())
    done = 0
    for queue in source.by_key.values():
        if queue.min_offset >= queue.max_offset:
            target.begin(queue.topic, queue.queue_id, queue.max_offset)
        offset = int(queue.min_offset)
        while offset < queue.max_offset:
            units = [unit[1:4] for unit in queue.units(offset, UNITS_AT_ONCE)]
            _put(queue, offset, units, target, files)
            offset += len(units)
            done += len(units)
            step("converting", done, total)
    return done


def _put(queue: Queue, first: int, units: list[_Unit], target: Queues, files: SegmentFiles) -> None:
    """Put units of one queue that lie after each other, fillers as such."""
    names = queue.topic, queue.queue_id
    for is_filler, run in groupby(
        enumerate(units, first), key=lambda item: item[1][1] == FILLER_SIZE
    ):
        if is_filler:
            target.fill_to(*names, max(offset for offset, _ in run) + 1)
        else:
            target.put_round(
                Entry(*names, offset, unit[0], unit[1], *_code_and_time(queue, unit, files))
                for offset, unit in run
            )


def _code_and_time(queue: Queue, unit: _Unit, files: SegmentFiles) -> tuple[int, int]:
    """Return the tags code of a unit that RocksDB can have, and its record's store time or 0."""
    place, _size, code = unit
    if is_address(code):
        extended = queue.extended(code)
        if extended is None:
            return 0, 0
        return extended.tags_code, extended.stored_at_ms
    if not files.first <= place < files.end_of_files:
        return code, 0
    segment = files.segment(place)
    seen = glance(SegmentReader(segment, PROBE_BYTES), place - segment.start)
    return code, 0 if seen is None else seen.stored_at_ms


def _switch(disk: Disk, layout: StoreLayout, engine: Engine) -> None:
    """Make the new engine's files the ones that count."""
    folder, beside = layout.consumequeue, layout.new_consumequeue
    if engine == "files":
        disk.make_folder(folder)
        disk.sync_folder(folder)
        disk.remove(f"{folder}/{CURRENT}")
        disk.sync_folder(folder)
        return
    names = disk.list(beside)
    for name in names:
        if disk.is_folder(f"{folder}/{name}"):
            raise DiskFailed(f"{folder}/{name} is a topic; RocksDB has a file of that name")
    names.remove(CURRENT)
    disk.make_folder(folder)
    for name in names:
        disk.rename(f"{beside}/{name}", f"{folder}/{name}")
    disk.sync_folder(folder)
    disk.rename(f"{beside}/{CURRENT}", f"{folder}/{CURRENT}")
    disk.sync_folder(folder)


def _tidy(disk: Disk, layout: StoreLayout, engine: Engine) -> None:
    """Remove what is not the engine's, and what a conversion left unfinished."""
    disk.remove_tree(layout.new_consumequeue)
    if engine == "rocksdb":
        disk.remove_tree(layout.extension)
    for name in disk.list(layout.consumequeue):
        path = f"{layout.consumequeue}/{name}"
        if disk.is_folder(path) and engine == "rocksdb":
            disk.remove_tree(path)
        elif not disk.is_folder(path) and engine == "files":
            disk.remove(path)
