"""The job `erase`: a copy of a store without the messages that have given keys.

Theory of operation. Every record keeps its place in the log, and every message its offset in its
queue; in the place of an erased message stands as many bytes that hold nothing of it
(`codec.record.erased`). So ids, queue units, index entries and the progress of consumers stay
valid, and nothing has to be moved:

1. The files of the queues, the tables, the checkpoint, timer log and timer wheel are copied.
2. Each task copies a part of the log, erases what is wanted, and corrects the units of that.
3. The index files that have entries of erased messages are made again without them, the others
   are copied.
4. Records of the timer log say the sizes that erased messages have now.
5. What is kept of compaction topics is copied without them; nothing stands in their place.

What lies after the end of the log, or after the blank record of a file, is not copied: remains
of older messages may be there. All is made in a folder beside the target, and renamed when it is on
the disk; so a run that is killed leaves the target as it was, and the next one begins anew. The
old store is only read.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from sprocket.base.disk import (
    Disk,
    File,
    RealDisk,
    SegmentFiles,
    copying,
    read_file,
    replace_file,
)
from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import Ints, RecordBatch, Records
from sprocket.rocketmq.codec.record import Entry, erased, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC, TIMER_TOPIC
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.compaction import copy_without
from sprocket.rocketmq.store.index import compacted
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.queue import QUEUE_UNIT, UNIT_BYTES, UnitAssigner
from sprocket.rocketmq.store.timer import TimerLog, timer_checkpoint
from sprocket.spark.failures import in_one_line
from sprocket.spark.files import local_path, open_files
from sprocket.spark.jobs.job import JobOption, JobReport, PartitionBytes, by_size
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles, StoreFolder, require_outside
from sprocket.spark.jobs.tasks import collected, spread
from sprocket.spark.rocketmq.folder import Stored, copy_records

KEYS_MAX = 1_000_000
"""Every task is sent all of them: some 20 MB."""
OFFSETS_MAX = 1_000_000
"""Messages that a filter may choose: every task is sent their places, 8 bytes each."""
COPY_BYTES = 4 * MIB
_COPY_TASKS = 64
_COPIED_MIN = 16
"""Files that are worth a task, which costs 25 ms of CPU before it has copied any."""


class EraseReport(JobReport, frozen=True, kw_only=True):
    """What was erased.

    Attributes:
        is_written: Whether there is a new store; not after a dry run.
        messages: Messages that were erased, or would be.
        bytes: Their bytes in the log.
        kept: Records that were copied as they were.
        index_entries: Entries that the index has no more.
        topics: A row for each topic with erased messages: `topic`, `messages`.
        compacted: Messages that were erased of what is kept of compaction topics.
        not_copied: What of the old store is in the new one in no form: files and folders that are
            not known to be free of what was erased.
    """

    is_written: bool
    messages: int
    bytes: int
    kept: int
    index_entries: int
    compacted: int
    topics: list[dict[str, Any]]
    not_copied: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class _Chosen:
    """Which messages are to go: those with one of some keys, and those at some places."""

    keys: frozenset[str]
    places: Ints

    def rows(self, batch: RecordBatch) -> list[int]:
        """Return the numbers of those of a batch."""
        found: set[int] = set()
        if self.keys:
            hashes = np.array([hash32(key) & 0xFFFF_FFFF for key in self.keys], np.uint32)
            likely = batch.keys.row[np.isin(batch.keys.hash, hashes)]
            rows = set(likely.tolist())
            found = {row for row in rows if not self.keys.isdisjoint(batch.entry(row).keys)}
        if len(self.places):
            is_chosen = np.isin(batch.physical_offset, self.places)
            found.update(np.flatnonzero(is_chosen).tolist())
        return sorted(found)

    def between(self, start: int, end: int) -> "_Chosen":
        """Return the same, of the places only those of a part of the log."""
        first, stop = np.searchsorted(self.places, [start, end])
        return _Chosen(self.keys, self.places[first:stop])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ErasedMessages:
    """Which messages are erased; each way adds some."""

    key: Annotated[
        list[str], JobOption("Erase messages with this key; may be repeated.", also="-k")
    ] = ()  # type: ignore[assignment]
    keys_file: Annotated[
        str, JobOption("Erase messages with these keys: a text file, a key on each line.", "FILE")
    ] = ""
    where: Annotated[
        str,
        JobOption("Erase messages that this SQL filter finds, internal topics too.", "SQL"),
    ] = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EraseRun:
    """How a run goes."""

    partition_bytes: PartitionBytes = 0
    dry_run: Annotated[bool, JobOption("Count what would be erased, and write nothing.")] = False


NO_MESSAGES = ErasedMessages()
USUAL_RUN = EraseRun()


def erase(
    spark: Any,
    *,
    store: Annotated[str, JobOption("The store's folder.", "FOLDER", is_argument=True)],
    to: Annotated[
        str,
        JobOption(
            "The new store's folder, on a disk that every worker sees.", "TARGET", is_argument=True
        ),
    ],
    files: JobFiles = LOCAL_FILES,
    messages: ErasedMessages = NO_MESSAGES,
    run: EraseRun = USUAL_RUN,
    progress: Step = unwatched,
) -> EraseReport:
    """Copy a store without the messages that have given keys, wherever they lie in it.

    A key is a word of a message's KEYS, or its unique key.

    Raises:
        SettingsError: No key and no filter is given, or too many keys; the target is on no disk.
        StoreError: There is no such store, it is open or not understood, or the target is there.
        QueryFailed: The filter is wrong, or the log is damaged.
    """
    files.require_use(store)
    source, target = files.folder(store), _local(to)
    keys = _keys(messages.key, messages.keys_file)
    if not keys and not messages.where:
        raise SettingsError("name what to erase by --key, --keys-file or --where")
    geometry = _understood(source)
    _require_free(source, target)
    given = by_size(run.partition_bytes)
    given |= files.options(store)
    stored = Stored.plan(source.path, internal=True, more=given)
    where = messages.where
    chosen = _Chosen(keys, _places(spark, source, files.options(store), where, progress))
    if run.dry_run:
        found = _erased(spark, stored, source, None, chosen, geometry, progress)
        return _report(found, 0, 0, [], is_written=False)
    disk = RealDisk()
    made = f"{target}.erasing"
    os_parent = os.path.dirname(os.path.abspath(target))
    disk.make_folder(os_parent)
    with closing(_Locked(disk, f"{made}.lock")):
        disk.remove_tree(made)
        left = _copy_rest(spark, source, made, geometry, progress)
        for start in sorted({span.base for part in stored.parts for span in part}):
            path = f"{StoreLayout(made).commitlog}/{start:020d}"
            disk.open(path, write=True, create=True, size=geometry.log.segment_bytes).close()
        found = _erased(spark, stored, source, made, chosen, geometry, progress)
        entries = _index(spark, source, made, geometry, found.places, progress)
        _resize_timers(disk, StoreLayout(made), found.timed)
        compacted = _compacted(source, made, geometry, chosen, found.places)
        _note(disk, StoreLayout(made), found)
        if source.disk().exists(source.layout.abort):
            raise ForeignStore(f"{source.path} was opened meanwhile; the copy is not used")
        disk.sync_tree(made)
        _require_free(source, target)
        if disk.exists(target):
            disk.remove_tree(target)  # an empty folder
        disk.rename(made, target)
        disk.sync_folder(os_parent)
    return _report(found, entries, compacted, left, is_written=True)


class _Locked:
    """A lock on a file, which is removed with it."""

    def __init__(self, disk: RealDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._lock = disk.lock(path)

    def close(self) -> None:
        self._disk.remove(self._path)
        self._lock.release()


def _local(folder: str) -> str:
    path = local_path(folder)
    if path is None:
        raise SettingsError(
            f"{folder}: expected a folder on a local disk, or on a mounted one: tasks write to"
            " places inside of the same files; copy the new store there when it is made"
        )
    return path.rstrip("/") or "/"


def _keys(given: Sequence[str], path: str) -> frozenset[str]:
    """Return the keys of the command line and those of a file."""
    keys = set(given)
    if path:
        try:
            text = read_file(RealDisk(), path).decode()
        except UnicodeDecodeError as error:
            raise SettingsError(f"{path} is not text in UTF-8") from error
        keys.update(line.strip() for line in text.splitlines())
    keys.discard("")
    if len(keys) > KEYS_MAX:
        raise SettingsError(f"{len(keys):,} keys, {KEYS_MAX:,} at most; erase in several runs")
    return frozenset(keys)


def _understood(source: StoreFolder) -> Geometry:
    """Return the geometry of a store that can be copied so.

    Raises:
        ForeignStore: It is none, it was not closed, or it has more than logs, queues and index.
    """
    disk, path = source.disk(), source.path
    layout = require_store(disk, path)
    if disk.exists(layout.abort):
        raise ForeignStore(f"{path} is open, or was not closed: stop the broker, or recover it")
    geometry = geometries.resolve(disk, layout, None)
    if geometry.queue.engine != "files":
        raise ForeignStore(
            f"{path} has its queues in a RocksDB; `sprocket store convert` makes files of them"
        )
    for folder, what in (
        (layout.batch_queues, "batch queues"),
        (layout.extension, "extended queue units"),
    ):
        if disk.list(folder):
            raise ForeignStore(f"{path} has {what} ({folder}), which cannot be erased from")
    return geometry


def _require_free(source: StoreFolder, target: str) -> None:
    require_outside(target, source.path)
    copying.require_empty(RealDisk(), target)


def _places(
    spark: Any, source: StoreFolder, options: Mapping[str, str], where: str, progress: Step
) -> Ints:
    """Return where the messages lie that a filter finds, ascending."""
    from sprocket.spark.watching import watched

    if not where:
        return np.empty(0, np.int64)
    with in_one_line(), watched(spark, progress, "filtering"):
        reader = spark.read.format("rocketmq").options(**options)
        rows = reader.option("includeInternalTopics", "true").load(source.path)
        found = rows.where(where).select("physicalOffset").limit(OFFSETS_MAX + 1).toArrow()
    if found.num_rows > OFFSETS_MAX:
        raise SettingsError(f"the filter finds more than {OFFSETS_MAX:,} messages; erase in parts")
    places: Ints = found.column(0).to_numpy()
    return np.sort(places)


# 1. What is copied as it is.


def _copy_rest(
    spark: Any, source: StoreFolder, made: str, geometry: Geometry, progress: Step
) -> list[str]:
    """Copy queues, tables, checkpoint and timers; return what is not copied."""
    disk, old, new = source.disk(), source.layout, StoreLayout(made)
    for folder in (new.commitlog, new.config, new.index):
        RealDisk().make_folder(folder)
    notes = old.notes - {old.geometry}
    paths = [path for path in _files(disk, old.config) if path not in notes]
    paths += [path for path in (old.checkpoint, old.timer_wheel) if disk.exists(path)]
    paths += [*_files(disk, old.consumequeue), *_files(disk, old.timer_log)]
    tasks = min(_COPY_TASKS, -(-len(paths) // _COPIED_MIN))
    groups = [tuple(paths[number::tasks]) for number in range(tasks)]
    work = partial(_copy_files, source, made)
    collected(
        spark,
        spread(spark, groups, work, "files int"),
        progress,
        "copying queues",
    )
    geometries.keep(RealDisk(), new, geometry)
    known = (
        *(old.commitlog, old.consumequeue, old.index, old.config, old.checkpoint, old.lock),
        *(old.batch_queues, old.extension, old.timer_log, old.timer_wheel, old.compaction),
    )
    return [name for name in disk.list(source.path) if f"{source.path}/{name}" not in known]


def _files(disk: Disk, folder: str) -> Iterator[str]:
    """Give every file below a folder."""
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if disk.is_folder(path):
            yield from _files(disk, path)
        else:
            yield path


def _copy_files(source: StoreFolder, made: str, paths: Sequence[str]) -> Iterator[Any]:
    """Copy some files; runs in a worker."""
    disk = source.disk()
    for path in paths:
        _copy_file(disk, path, made + path.removeprefix(source.path))
    yield pa.RecordBatch.from_arrays([pa.array([len(paths)], pa.int32())], names=["files"])


def _copy_file(disk: Disk, path: str, target: str) -> None:
    """Copy what was written of a file; holes stay holes, and zeros become holes."""
    to = RealDisk()
    to.make_folder(os.path.dirname(target), durable=False)
    with closing(disk.open(path)) as old:
        size = old.size()
        with closing(to.open(target, write=True, create=True, size=size)) as new:
            at = 0
            while at < size and (extent := old.next_data(at)).start < extent.end:
                for start in range(extent.start, extent.end, COPY_BYTES):
                    data = old.read(start, min(COPY_BYTES, extent.end - start))
                    if data.count(0) < len(data):
                        new.write([data], start)
                at = extent.end


# 2. The log, and the units of what is erased.


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What was erased of the log: places, ascending, bytes, counts by topic, and records kept.

    `timed` has place and new size of each message that waits in the timers, n × 2.
    """

    places: Ints
    timed: Ints
    size: int
    topics: Counter[str]
    kept: int


def _note(disk: Disk, layout: StoreLayout, found: _Found) -> None:
    """Have the new store say that messages were erased from it."""
    if len(found.places):
        disk.make_folder(layout.config)
        replace_file(disk, layout.erased, b'{"messages":%d}\n' % len(found.places))


_SCHEMA = "places binary, timed binary, size bigint, kept bigint, topics map<string,bigint>"
_ARROW_SCHEMA = pa.schema(
    [
        ("places", pa.binary()),
        ("timed", pa.binary()),
        ("size", pa.int64()),
        ("kept", pa.int64()),
        ("topics", pa.map_(pa.string(), pa.int64())),
    ]
)


def _erased(
    spark: Any,
    stored: Stored,
    source: StoreFolder,
    made: str | None,
    chosen: _Chosen,
    geometry: Geometry,
    progress: Step,
) -> _Found:
    """Copy the log to a folder, or only count if there is none."""
    items = []
    for part in stored.parts:
        items.append((part, chosen.between(part[0].start, part[-1].end).places))
    work = partial(_erase_part, source, made, chosen.keys, geometry.queue.file_bytes)
    what = "counting" if made is None else "copying the log"
    rows = collected(spark, spread(spark, items, work, _SCHEMA), progress, what)
    topics: Counter[str] = Counter()
    for row in rows:
        topics.update(dict(row["topics"]))
    return _Found(
        np.sort(_joined(row["places"] for row in rows)),
        _joined(row["timed"] for row in rows).reshape(-1, 2),
        sum(row["size"] for row in rows),
        topics,
        sum(row["kept"] for row in rows),
    )


def _joined(parts: Iterable[bytes]) -> Ints:
    return np.frombuffer(b"".join(parts), np.int64)


def _erase_part(
    source: StoreFolder,
    made: str | None,
    keys: frozenset[str],
    queue_file_bytes: int,
    item: tuple[Any, Ints],
) -> Iterator[Any]:
    """Copy one part of the log without what is chosen; runs in a worker."""
    spans, places = item
    eraser = _Eraser(made, _Chosen(keys, places), queue_file_bytes)
    with ExitStack() as opened:

        def target(span: Any) -> File | None:
            if made is None:
                return None
            path = f"{StoreLayout(made).commitlog}/{span.base:020d}"
            return opened.enter_context(closing(RealDisk().open(path, write=True)))

        files = open_files(source.path, source.settings)
        copy_records(files, spans, target, eraser.replaced)
    row = {
        "places": np.array(eraser.places, np.int64).tobytes(),
        "timed": np.array(eraser.timed, np.int64).tobytes(),
        "size": eraser.size,
        "kept": eraser.kept,
        "topics": list(eraser.topics.items()),
    }
    yield pa.RecordBatch.from_pylist([row], schema=_ARROW_SCHEMA)


class _Eraser:
    """Erases records, and corrects their units in the files of a new store."""

    def __init__(self, made: str | None, chosen: _Chosen, queue_file_bytes: int) -> None:
        self.places: list[int] = []
        self.timed: list[tuple[int, int]] = []
        self.size = 0
        self.kept = 0
        self.topics: Counter[str] = Counter()
        self._made = made
        self._chosen = chosen
        self._file_bytes = queue_file_bytes
        self._assigner = UnitAssigner()

    def replaced(self, records: Records) -> Mapping[int, bytes]:
        """Return what stands in the place of the records that are to go."""
        if not len(records):
            return {}
        batch = RecordBatch(records)
        rows = self._chosen.rows(batch)
        self.kept += len(records) - len(rows)
        others: dict[int, bytes] = {}
        for row in rows:
            start, end = int(records.start[row]), int(records.end[row])
            entry = batch.entry(row)
            other = erased.erase(memoryview(records.data)[start:end])
            others[start] = other
            self.places.append(entry.physical_offset)
            self.size += entry.size
            self.topics[entry.topic] += 1
            if entry.topic == TIMER_TOPIC:
                self.timed.append((entry.physical_offset, int.from_bytes(other[:4], "big")))
            if self._made is not None and entry.queueable:
                self._correct_units(entry, int.from_bytes(other[:4], "big"))
        return others

    def _correct_units(self, entry: Entry, size: int) -> None:
        """Have the units of a record say what it is now; what is not its own unit stays."""
        assert self._made is not None
        for unit in self._assigner.each(entry):
            at = unit.queue_offset * UNIT_BYTES
            position = at % self._file_bytes
            folder = StoreLayout(self._made).queue(unit.topic, unit.queue_id)
            path = f"{folder}/{at - position:020d}"
            disk = RealDisk()
            if not disk.exists(path):
                continue
            with closing(disk.open(path, write=True)) as file:
                place, old_size, code = QUEUE_UNIT.unpack(file.read(position, UNIT_BYTES))
                if (place, old_size) == (entry.physical_offset, entry.size):
                    code = code if unit.topic == SCHEDULE_TOPIC else 0
                    file.write([QUEUE_UNIT.pack(place, size, code)], position)


# 3. The index.


def _index(
    spark: Any, source: StoreFolder, made: str, geometry: Geometry, places: Ints, progress: Step
) -> int:
    """Copy the index without the entries of erased records; return how many these are."""
    disk, old = source.disk(), source.layout
    size = geometry.index.file_bytes
    names = [
        name
        for name, length in disk.sizes(old.index).items()
        if name.isascii() and name.isdigit() and length == size
    ]
    work = partial(_index_file, source, made, geometry, places)
    frame = spread(spark, names, work, "removed bigint")
    rows = collected(spark, frame, progress, "copying the index")
    return sum(row["removed"] for row in rows)


def _index_file(
    source: StoreFolder, made: str, geometry: Geometry, places: Ints, name: str
) -> Iterator[Any]:
    """Make one index file; runs in a worker."""
    found = compacted(source.disk(), f"{source.layout.index}/{name}", geometry.index, places)
    path = f"{StoreLayout(made).index}/{name}"
    size = geometry.index.file_bytes
    with closing(RealDisk().open(path, write=True, create=True, size=size)) as file:
        file.write([found.head], 0)
        if found.units:
            file.write([found.units], found.units_at)
    yield pa.RecordBatch.from_arrays([pa.array([found.removed], pa.int64())], names=["removed"])


# 4. The timers.


def _resize_timers(disk: Disk, layout: StoreLayout, timed: Ints) -> None:
    """Have the timer log say how long erased messages are now: RocketMQ reads them by that."""
    if not len(timed):
        return
    checkpoint = timer_checkpoint.load(disk, layout.timer_checkpoint)
    with closing(TimerLog(disk, layout.timer_log)) as log:
        log.end = max(log.end, checkpoint.log_end)
        ordered = timed[np.argsort(timed[:, 0])]
        log.resize(ordered[:, 0], ordered[:, 1])
    timer_checkpoint.save(disk, layout.timer_checkpoint, checkpoint)  # without the old checksums


# 5. What is kept of compaction topics.


def _compacted(
    source: StoreFolder, made: str, geometry: Geometry, chosen: _Chosen, places: Ints
) -> int:
    """Copy what is kept without the messages that are erased; return how many these are.

    Args:
        source: The old store.
        made: The new one.
        geometry: Of both.
        chosen: Says which keys are erased.
        places: Where in the log erased messages lie; their copies go with them.
    """
    disk, old, new = source.disk(), source.layout, StoreLayout(made)
    if not disk.is_folder(old.compaction):
        return 0
    topics = frozenset(disk.folders(old.compaction_log))
    gone = _messages_at(disk, old, geometry, places) if topics else frozenset()

    def is_erased(stored: memoryview) -> bool:
        entry = record.entry(stored)
        message = entry.topic, entry.queue_id, entry.queue_offset
        return message in gone or not chosen.keys.isdisjoint(entry.keys)

    RealDisk().make_folder(new.compaction)
    if disk.exists(old.compaction_positions):
        _copy_file(disk, old.compaction_positions, new.compaction_positions)
    return copy_without(disk, old, RealDisk(), new, geometry.compaction, is_erased)


def _messages_at(
    disk: Disk, layout: StoreLayout, geometry: Geometry, places: Ints
) -> frozenset[tuple[str, int, int]]:
    """Return topic, queue and offset of the messages at some places of the log."""
    found = set()
    with closing(
        SegmentFiles(disk, layout.commitlog, geometry.log.segment_bytes, write=False)
    ) as log:
        log.load()
        for place in places.tolist():
            segment = log.segment(place)
            at = place - segment.start
            size = int.from_bytes(segment.read(at, 4), "big")
            entry = record.entry(segment.read(at, size), with_keys=False)
            found.add((entry.topic, entry.queue_id, entry.queue_offset))
    return frozenset(found)


def _report(
    found: _Found, entries: int, compacted: int, left: Sequence[str], *, is_written: bool
) -> EraseReport:
    return EraseReport(
        is_written=is_written,
        messages=len(found.places),
        bytes=found.size,
        kept=found.kept,
        index_entries=entries,
        compacted=compacted,
        topics=[{"topic": topic, "messages": n} for topic, n in sorted(found.topics.items())],
        not_copied=list(left),
    )
