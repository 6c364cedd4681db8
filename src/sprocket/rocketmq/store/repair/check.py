"""Checking a store: reports each broken rule of its files, and changes nothing.

The log is read once, in rounds; queues and index are compared along the way (`consistency`), so
memory is limited by a round and by the number of findings. `Rule` lists what is checked. If a store
is open or was not closed, its latest moments are not checked: a broker may not have finished them.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import DiskFailed, FileMissing, WireError
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.store import committed_offsets, rights_tables
from sprocket.rocketmq.store.compaction import checking
from sprocket.rocketmq.store.consistency import (
    CheckedLog,
    Finding,
    LogCheck,
    QueueCheck,
    Rule,
    UnitCheck,
    compare,
    unread,
)
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import QueueKey, UnitAssigner
from sprocket.rocketmq.store.recovery import CHECKPOINT_BYTES
from sprocket.rocketmq.store.repair.store_files import StoreFiles

_CHECKPOINT_FIELDS = 5


def is_open(disk: Disk, folder: str) -> bool:
    """Say whether a store is open, or was not closed the last time."""
    return disk.exists(StoreLayout(folder).abort)


def check(
    disk: Disk, folder: str, geometry: Geometry | None = None, *, step: Step = unwatched
) -> Iterator[Finding]:
    """Give what is wrong with a store, as it is found.

    Args:
        disk: Where it lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        step: Is told how many bytes of the log of how many are done.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file cannot be looked into; what is in files is told instead.
    Cost: the log is read once, with all checksums; queues and index are read once.
    """
    with closing(StoreFiles(disk, folder, geometry)) as store:
        yield from store.wrong
        offsets = store.offsets()  # before the log, which goes on if a broker runs
        scan = LogCheck(store.segments, is_open=store.is_open, step=step)
        records = _RecordCheck(store.queue_check(scan.log), scan.log, store.assigner())
        others = store.batch_check(scan.log), store.index_check(scan.log)
        yield from compare(scan.rounds(), (scan, records, *others))
        yield from rest(store, scan.log, offsets, scan.next_offsets)


class _RecordCheck:
    """Compares records with their units, and holds the runs of these against the queues."""

    def __init__(self, queues: QueueCheck, log: CheckedLog, assigner: UnitAssigner) -> None:
        self._queues = queues
        self._units = UnitCheck(log.entry_at, queues.units, assigner)
        self.start, self.finish = queues.start, queues.finish

    def take(self, found: RecordBatch, /) -> Iterator[Finding]:
        """Compare the units of some records."""
        for key, run, findings in self._units.runs(found):
            yield from self._queues.take((key, run))
            yield from findings


def rest(
    store: StoreFiles,
    log: CheckedLog,
    offsets: Mapping[str, Mapping[int, int]],
    next_offsets: Mapping[QueueKey, int],
) -> Iterator[Finding]:
    """Give what is wrong with the end of the log, and with all but log, queues and index.

    Args:
        store: What is checked.
        log: Its log, scanned to its end.
        offsets: What groups have committed, by `topic@group` and queue.
        next_offsets: Where queues end of which the log has a record.
    """
    note = store.note()
    if note is not None and not log.is_open and note.log_end > log.end:
        expected = f"records up to {note.log_end}, where the log was closed"
        where = log.where(log.end)
        yield Finding(Rule.LOG_RECORD, *where, expected, f"its end at {log.end}", log.end)

    def end_of(topic: str, queue_id: int) -> int:
        end = next_offsets.get((topic, queue_id))
        return store.queues.units((topic, queue_id)).data_end() if end is None else end

    for one in committed_offsets.beyond_ends(offsets, end_of):
        expected = f"at most {one.end} for {one.group} in {one.topic}/{one.queue_id}"
        path = store.layout.consumer_offsets
        yield Finding(Rule.OFFSET_BEYOND, path, 0, expected, str(one.offset))
    if not store.is_open:
        for kept in checking.wrong(store.disk, store.layout, store.geometry.compaction):
            yield Finding(Rule.COMPACTION, kept.path, kept.position, kept.expected, kept.found)
    yield from _checkpoint_findings(store.disk, store.layout.checkpoint)
    yield from _table_findings(store.disk, store.layout)


def _checkpoint_findings(disk: Disk, path: str) -> Iterator[Finding]:
    """Give what is wrong with the checkpoint, which need not be there."""
    try:
        data = read_file(disk, path)
    except FileMissing:
        return
    except DiskFailed as error:
        yield unread(path, error)
        return
    fields = [
        int.from_bytes(data[at : at + 8], "big", signed=True)
        for at in range(0, min(len(data), 8 * _CHECKPOINT_FIELDS), 8)
    ]
    for number, value in enumerate(fields):
        if value < 0:
            yield Finding(Rule.CHECKPOINT, path, 8 * number, "a time or a place", str(value))
    rest = data[8 * _CHECKPOINT_FIELDS :]
    if len(data) != CHECKPOINT_BYTES or any(rest):
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        position = min(len(data), 8 * _CHECKPOINT_FIELDS + zeros)
        expected = f"{CHECKPOINT_BYTES} bytes, zeros behind the fifth number"
        found = f"{len(data)} bytes" + (", others than zeros" if any(rest) else "")
        yield Finding(Rule.CHECKPOINT, path, position, expected, found)


def _table_findings(disk: Disk, layout: StoreLayout) -> Iterator[Finding]:
    """Read every table of the configuration, the old ones too; an empty one counts as missing."""
    for name in disk.list(layout.config):
        path = f"{layout.config}/{name}"
        is_table = name.removesuffix(".bak").endswith(".json") and path != layout.queue_ends
        if not is_table or disk.is_folder(path):
            continue
        try:
            data = read_file(disk, path)
            if data and not isinstance(fastjson.read_large(data), dict):
                raise WireError("a JSON object was expected")
        except WireError as error:
            yield Finding(Rule.CONFIG, path, 0, "a table", str(error))
        except FileMissing:
            continue  # a broker replaced it just now
        except DiskFailed as error:
            yield unread(path, error)
    for path, wrong in rights_tables.wrong(disk, layout.root):
        yield Finding(Rule.CONFIG, path, 0, "users and policies as they were", str(wrong))
