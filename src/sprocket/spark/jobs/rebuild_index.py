"""The job `rebuild-index`: the key index, from the commit log alone.

Each task reads a part of the log and writes the hashes of its keys, with places and times, to a
file beside the store; Spark is given their number. When all are there it is known which keys go
into which index file, and each file is made by a task of its own, with numpy and by the code with
which a store fills its index. Files are named by the store time of their first message, so another
run makes the same ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from uuid import uuid4

import pyarrow as pa
from msgspec.structs import replace

from sprocket.base.disk import RealDisk
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.geometry import IndexGeometry
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.index import (
    IndexedKey,
    KeyRun,
    KeyRunWriter,
    file_name,
    index_of,
    key_of,
)
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.jobs.job import (
    JobOption,
    JobReport,
    PartitionBytes,
    SkipDamaged,
    Verify,
    by_size,
    damage_rows,
    reading,
)
from sprocket.spark.jobs.rebuilding import (
    Rebuilding,
    StoreFolder,
    beyond_end,
    lost_end,
    rebuilding,
    settled_count,
)
from sprocket.spark.jobs.tasks import as_sql, collected, spread
from sprocket.spark.rocketmq.folder import (
    DamagedRange,
    FoundRecord,
    IsTaken,
    Stored,
    queue_files,
    start_of,
)

SLOTS_MAX = 500_000_000
UNITS_MAX = 100_000_000
"""2 GB, as `IndexGeometry` has it."""

_KEYS = pa.schema(
    [
        ("path", pa.string()),
        ("count", pa.int64()),
        ("records", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("stored_at_ms", pa.int64()),
        ("why", pa.string()),
    ]
)
"""A row for each part of the log: its file of keys; one without such for damage."""
_FILE = pa.schema([("path", pa.string())])
"""A row for each index file."""


class RebuildIndexReport(JobReport, frozen=True, kw_only=True):
    """What was made.

    Attributes:
        start: Physical offset where the log begins.
        end: Where it ends.
        records: Records that it has.
        keys: Keys of these, unique ones among them.
        files: Index files that were made.
        damage: What was left out of the log: where it begins, its bytes, and why.
    """

    start: int
    end: int
    records: int
    keys: int
    files: int
    damage: list[dict[str, Any]]


def rebuild_index(
    spark: Any,
    *,
    store: StoreFolder,
    skip_damaged: SkipDamaged = False,
    verify: Verify = True,
    slots: Annotated[
        int, JobOption("Hash slots of an index file; 0 for as many as the store has.", "COUNT")
    ] = 0,
    units: Annotated[
        int, JobOption("Units of an index file; 0 for as many as the store has.", "COUNT")
    ] = 0,
    partition_bytes: PartitionBytes = 0,
    progress: Step = unwatched,
) -> RebuildIndexReport:
    """Make the key index of a closed store again from its commit log.

    It is made beside the old one, and put in its place at once.

    Raises:
        ForeignStore: There is no store.
        StoreLocked: Somebody has it open.
        SettingsError: The folder is not on a disk, or an option is wrong.
        CorruptRecord: The end of the log is damaged; the old index stays as it is.
        QueryFailed: A task failed, as on damage elsewhere; the old index stays, too.
    """
    disk = RealDisk()
    with rebuilding(disk, store) as beside:
        layout = beside.layout
        geometry = geometries.resolve(disk, layout, None).index
        geometry = IndexGeometry(
            slots=settled_count(beside, "slots", slots, geometry.slots, SLOTS_MAX),
            units=settled_count(beside, "units", units, geometry.units, UNITS_MAX, least=2),
        )
        given = by_size(partition_bytes)
        given |= reading(skip_damaged=skip_damaged, verify=verify)
        stored = Stored.plan(
            layout.root, columns=["size"], internal=True, is_to_break=True, more=given
        )
        found = _found(spark, stored, beside, progress)
        longer = beyond_end(
            layout, stored, found.stored_at_ms, _by_queues(layout), skip_damaged=skip_damaged
        )
        if longer is not None:
            stored = longer
            found = _found(spark, stored, beside, progress)
        found.damage += lost_end(layout, stored, found.stored_at_ms, skip_damaged=skip_damaged)
        files = list(_files(beside, geometry, found.runs))
        disk.make_folder(beside.made(layout.index))
        made = spread(spark, files, partial(_make, geometry), as_sql(_FILE))
        collected(spark, made, progress, "making index files")
        beside.put_in_place(layout.index)
    start, end = stored.bounds() if stored.parts else (0, 0)
    return RebuildIndexReport(
        start=start,
        end=end,
        records=found.records,
        keys=sum(run.count for run in found.runs),
        files=len(files),
        damage=damage_rows(found.damage),
    )


@dataclass(slots=True)
class _Found:
    """What the first tasks reported: keys in the order of the log, and as in the report."""

    runs: list[KeyRun]
    damage: list[DamagedRange]
    records: int = 0
    stored_at_ms: int = 0


def _found(spark: Any, stored: Stored, beside: Rebuilding, progress: Step) -> _Found:
    """Write the keys of all parts of the log to files."""
    folder = f"{beside.folder}/keys"
    beside.disk.make_folder(folder)
    work = partial(_put, stored, folder)
    rows = collected(
        spark, spread(spark, stored.parts, work, as_sql(_KEYS)), progress, "reading keys"
    )
    found = _Found([], [])
    for row in sorted(rows, key=lambda row: int(row["start"])):
        if row["why"] is not None:
            start, end = row["start"], row["end"]
            found.damage.append(DamagedRange(stored.file_at(start), start, end - start, row["why"]))
            continue
        found.records += row["records"]
        found.stored_at_ms = row["stored_at_ms"] or found.stored_at_ms
        if row["count"]:
            found.runs.append(KeyRun(row["path"], 0, row["count"]))
    return found


def _put(stored: Stored, folder: str, part: Any) -> Iterator[Any]:
    """Write the keys of one part of the log; runs in a worker."""
    # No two attempts write to one file.
    path = f"{folder}/{start_of(part):020d}-{uuid4().hex}"
    writer = KeyRunWriter(RealDisk(), path)
    rows: list[dict[str, Any]] = []
    records = stored_at_ms = 0
    for found in stored.records(part):
        if isinstance(found, DamagedRange):
            end = found.start + found.size
            rows.append({"start": found.start, "end": end, "why": found.why})
        elif len(found):
            records += len(found)
            stored_at_ms = int(found.stored_at_ms[-1])
            writer.put(RecordBatch(found))
    rows.append(
        {
            "path": path,
            "count": writer.close().count,
            "records": records,
            "start": start_of(part),
            "end": part[-1].end,
            "stored_at_ms": stored_at_ms,
        }
    )
    yield pa.RecordBatch.from_pylist(rows, schema=_KEYS)


@dataclass(frozen=True, slots=True)
class _IndexPart:
    """One index file that is to be made: where, of which keys, and the last key before them."""

    path: str
    runs: tuple[KeyRun, ...]
    before: IndexedKey | None


def _files(
    beside: Rebuilding, geometry: IndexGeometry, runs: Sequence[KeyRun]
) -> Iterator[_IndexPart]:
    """Divide all keys among index files."""
    folder = beside.made(beside.layout.index)
    name, before = "", None
    for own in _divided(runs, geometry.units - 1):
        name = file_name(key_of(beside.disk, own[0], 0).at_ms, name)
        yield _IndexPart(f"{folder}/{name}", tuple(own), before)
        before = key_of(beside.disk, own[-1], own[-1].count - 1)


def _divided(runs: Sequence[KeyRun], room: int) -> Iterator[list[KeyRun]]:
    """Give the runs of each index file, which has room for this many keys."""
    own: list[KeyRun] = []
    left = room
    for run in runs:
        while run.count:
            part = replace(run, count=min(run.count, left))
            run = KeyRun(run.path, run.first + part.count, run.count - part.count)
            own.append(part)
            left -= part.count
            if not left:
                yield own
                own, left = [], room
    if own:
        yield own


def _make(geometry: IndexGeometry, part: _IndexPart) -> Iterator[Any]:
    """Make one index file; runs in a worker."""
    index_of(RealDisk(), part.path, geometry, part.runs, part.before)
    yield pa.RecordBatch.from_pylist([{"path": part.path}], schema=_FILE)


def _by_queues(layout: StoreLayout) -> IsTaken:
    """Return what asks the queues whose message has an offset."""

    def is_taken(found: FoundRecord) -> bool:
        queue = queue_files(RealDisk(), layout, found.topic, found.queue_id)
        unit = queue.unit(found.offset)
        return unit is not None and unit.start != found.place

    return is_taken
