"""The job `rebuild-queues`: the consume queues, from the commit log alone.

Each task reads a part of the log and puts the units of its messages at their places (see
`store.queue.ranges`); what it gives Spark are a few numbers for each queue. They are sorted by
queue, which is all that is shuffled, and further tasks join them, complete the files of each queue
and compare them with what was written. Where a topic was deleted and made again, its queues are put
a second time, without what was before.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from sprocket.base.disk import RealDisk, remove_if_there
from sprocket.base.errors import ForeignStore
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.settings import DELAY_LEVELS
from sprocket.rocketmq.store import deleted_topics, topic_table
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import (
    FILLER_SIZE,
    FILLERS_MAX,
    FileQueues,
    JoinedQueue,
    QueueKey,
    RangeWriter,
    UnitAssigner,
    UnitRange,
    delays_ms,
    ranges,
)
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
from sprocket.spark.rocketmq.folder import DamagedRange, FoundRecord, Stored, queue_files

ROWS = 1000
"""Of results that are handed to Spark at once."""
PARTITIONS_MAX = 200
"""Tasks that complete queues, where Spark's settings do not say; as many as it has by default."""
UNITS_PER_FILE_MAX = 100_000_000
"""2 GB, as `QueueGeometry` has it."""

_KEY = [("topic", pa.string()), ("queue_id", pa.int32())]
_PLACE = [("start", pa.int64()), ("end", pa.int64()), ("why", pa.string())]
_PUT = pa.schema(
    [
        *_KEY,
        *_PLACE,
        ("first", pa.int64()),
        ("next_offset", pa.int64()),
        ("check", pa.int64()),
        ("records", pa.int64()),
        ("stored_at_ms", pa.int64()),
    ]
)
"""A row for each range of a queue; one without topic for each part of the log, or for damage, of
which `why` says."""
_MADE = pa.schema(
    [
        *_KEY,
        *_PLACE,
        ("next_offset", pa.int64()),
        ("units", pa.int64()),
        ("lost", pa.int64()),
        ("records", pa.int64()),
        ("stored_at_ms", pa.int64()),
        ("ranges", pa.string()),
    ]
)
"""A row for each queue, with its ranges if they are not settled; those without topic as above."""


class RebuildQueuesReport(JobReport, frozen=True, kw_only=True):
    """What was made.

    Attributes:
        start: Physical offset where the log begins.
        end: Where it ends.
        records: Records that it has.
        queues: Queues that were made.
        units: Units of messages in them.
        lost: Fillers in them, which stand for messages that are damaged in the log.
        kept: Queues without messages that continue at the offset where they were, of those
            `queues`.
        made_again: Queues of topics that were deleted and made again, and so were put twice.
        damage: What was left out of the log: where it begins, its bytes, and why.
    """

    start: int
    end: int
    records: int
    queues: int
    units: int
    lost: int
    kept: int
    made_again: int
    damage: list[dict[str, Any]]


def rebuild_queues(
    spark: Any,
    *,
    store: StoreFolder,
    skip_damaged: SkipDamaged = False,
    verify: Verify = True,
    delay_levels: Annotated[
        str, JobOption("Waits of the delay levels, as its broker has them.", "WORDS")
    ] = DELAY_LEVELS,
    units_per_file: Annotated[
        int, JobOption("Units in a queue file; 0 for as many as the store has.", "COUNT")
    ] = 0,
    partition_bytes: PartitionBytes = 0,
    progress: Step = unwatched,
) -> RebuildQueuesReport:
    """Make the consume queues of a closed store again from its commit log.

    They are made beside the old ones, compared, and put in their place at once.

    Raises:
        ForeignStore: There is no store, or it has queues that are not made in this way.
        StoreLocked: Somebody has it open.
        SettingsError: The folder is not on a disk, or an option is wrong.
        CorruptRecord: The end of the log is damaged; the old queues stay as they are.
        QueryFailed: A task failed, as on damage elsewhere; the old queues stay, too.
    """
    disk = RealDisk()
    with rebuilding(disk, store) as beside:
        layout = beside.layout
        geometry = geometries.resolve(disk, layout, None).queue
        _refuse_other_kinds(layout, geometry)
        size = settled_count(
            beside, "units-per-file", units_per_file, geometry.units_per_file, UNITS_PER_FILE_MAX
        )
        geometry = replace(geometry, units_per_file=size)
        given = by_size(partition_bytes)
        given |= reading(skip_damaged=skip_damaged, verify=verify)
        stored = Stored.plan(
            layout.root, columns=["size"], internal=True, is_to_break=True, more=given
        )
        work = _Work(
            stored,
            beside.made(layout.consumequeue),
            geometry.units_per_file,
            delays_ms(delay_levels),
            deleted_topics.read(disk, layout).ends,
            _batch_topics(layout),
        )
        made = _made(spark, work, beside, progress)

        def is_taken(found: FoundRecord) -> bool:
            return found.offset < made.next_offsets.get((found.topic, found.queue_id), 0)

        longer = beyond_end(layout, stored, made.stored_at_ms, is_taken, skip_damaged=skip_damaged)
        if longer is not None:
            disk.remove_tree(work.folder)
            work = replace(work, stored=longer)
            made = _made(spark, work, beside, progress)
        stored = work.stored
        made.damage += lost_end(layout, stored, made.stored_at_ms, skip_damaged=skip_damaged)
        kept = _keep_places(layout, work, geometry, made)
        # What it says of the old files is not true of the new ones.
        remove_if_there(disk, layout.queue_ends)
        beside.put_in_place(layout.consumequeue)
    start, end = stored.bounds() if stored.parts else (0, 0)
    return RebuildQueuesReport(
        start=start,
        end=end,
        records=made.records,
        queues=len(made.next_offsets) + kept.queues,
        units=made.units,
        lost=made.lost + kept.fillers,
        kept=kept.queues,
        made_again=made.made_again,
        damage=damage_rows(made.damage),
    )


INSTEAD = "; `sprocket store recover --whole` makes them again"


def _refuse_other_kinds(layout: StoreLayout, geometry: QueueGeometry) -> None:
    """Raise if a store has queues whose units are not all plain."""
    disk = RealDisk()
    if geometry.engine != "files":
        raise ForeignStore(f"{layout.root}: its queues are kept in {geometry.engine}{INSTEAD}")
    for topic in disk.folders(layout.batch_queues):
        if disk.folders(f"{layout.batch_queues}/{topic}"):
            raise _of_batches(layout.root, topic)
    if disk.folders(layout.extension):
        raise ForeignStore(
            f"{layout.extension}: its units are extended ones, and say of each message which"
            f" subscriptions it passed, which the log does not{INSTEAD}"
        )


def _of_batches(store: str, topic: str) -> ForeignStore:
    return ForeignStore(
        f"{store}: the queues of {topic} are batch queues, in which the place of a unit depends on"
        f" all before it{INSTEAD}"
    )


def _batch_topics(layout: StoreLayout) -> frozenset[str]:
    """Return the topics that are to have batch queues, and whose records are refused."""
    topics = (topic_table.read(RealDisk(), layout) or {}).values()
    return frozenset(topic.name for topic in topics if topic.takes_batches)


@dataclass(frozen=True, slots=True)
class _Work:
    """What the workers are sent.

    Attributes:
        stored: The log.
        folder: Where queues are made.
        units_per_file: Of each file.
        delays: Waits of the delay levels, in ms.
        deleted: By topic, where in the log it was deleted.
        batch_topics: Of these there must be no record.
        kept: Only what these keep is put; None for everything.
    """

    stored: Stored
    folder: str
    units_per_file: int
    delays: tuple[int, ...]
    deleted: Mapping[str, int]
    batch_topics: frozenset[str]
    kept: Mapping[QueueKey, JoinedQueue] | None = None


@dataclass(slots=True)
class _Made:
    """What the tasks reported: as in the report, and where the last record of a part was stored."""

    next_offsets: dict[QueueKey, int]
    damage: list[DamagedRange]
    records: int = 0
    units: int = 0
    lost: int = 0
    made_again: int = 0
    end: int = -1
    stored_at_ms: int = 0


def _made(spark: Any, work: _Work, beside: Rebuilding, progress: Step) -> _Made:
    """Make all queues of the log."""
    made = _Made({}, [])
    unsettled: dict[QueueKey, JoinedQueue] = {}
    for row in _rows(spark, work, progress):
        if row["topic"] is not None:
            key = row["topic"], row["queue_id"]
            made.next_offsets[key] = row["next_offset"]
            made.units += row["units"]
            made.lost += row["lost"]
            if row["ranges"] is not None:
                unsettled[key] = JoinedQueue(
                    msgspec.json.decode(row["ranges"], type=list[UnitRange])
                )
        elif row["why"] is not None:
            start, end = row["start"], row["end"]
            path = work.stored.file_at(start)
            made.damage.append(DamagedRange(path, start, end - start, row["why"]))
        else:
            made.records += row["records"]
            if row["records"] and row["end"] > made.end:
                made.end, made.stored_at_ms = row["end"], row["stored_at_ms"]
    if unsettled:
        made.made_again = len(unsettled)
        _put_again(spark, work, beside, unsettled, made, progress)
    return made


def _put_again(
    spark: Any,
    work: _Work,
    beside: Rebuilding,
    unsettled: Mapping[QueueKey, JoinedQueue],
    made: _Made,
    progress: Step,
) -> None:
    """Put those queues again whose units were written over each other, elsewhere, then take them.

    A task of before, which nobody waits for, may still be writing to where they were.
    """
    disk = RealDisk()
    bounds = [(one.ranges[0].start, one.ranges[-1].end) for one in unsettled.values()]
    start, end = min(one for one, _ in bounds), max(one for _, one in bounds)
    again = replace(
        work,
        stored=work.stored.within(start, end),
        folder=f"{beside.folder}/again",
        kept=unsettled,
    )
    for row in _rows(spark, again, progress):
        if row["topic"] is None:
            continue
        assert row["ranges"] is None, "what is kept is never written over"
        made.units += row["units"]
        made.lost += row["lost"]
        queue = f"{row['topic']}/{row['queue_id']}"
        disk.remove_tree(f"{work.folder}/{queue}")
        disk.rename(f"{again.folder}/{queue}", f"{work.folder}/{queue}")
        disk.sync_folder(f"{work.folder}/{row['topic']}")


def _rows(spark: Any, work: _Work, progress: Step) -> list[dict[str, Any]]:
    """Put the units of all parts of a log, and complete the queues; return the rows of `_MADE`."""
    put = spread(spark, work.stored.parts, partial(_put, work), as_sql(_PUT))
    wanted = spark.conf.get("spark.sql.shuffle.partitions")  # some clusters say `auto`
    count = int(wanted) if wanted.isdecimal() else PARTITIONS_MAX
    count = max(1, min(count, len(work.stored.parts)))
    together = put.repartition(count, "topic", "queue_id")
    in_order = together.sortWithinPartitions("topic", "queue_id", "start", "first")
    made = in_order.mapInArrow(partial(_complete, work), as_sql(_MADE))
    return collected(spark, made, progress, "making queues")


def _put(work: _Work, part: Any) -> Iterator[Any]:
    """Put the units of one part of the log; runs in a worker."""
    writer = RangeWriter(RealDisk(), work.folder, work.units_per_file, work.kept)
    units_of = UnitAssigner(delays=work.delays, deleted=work.deleted)
    rows: list[dict[str, Any]] = []
    records = stored_at_ms = 0
    for found in work.stored.records(part):
        if isinstance(found, DamagedRange):
            end = found.start + found.size
            rows.append({"start": found.start, "end": end, "why": found.why})
        elif len(found):
            records += len(found)
            batch = RecordBatch(found)
            for topic in work.batch_topics.intersection(batch.topic_names):
                raise _of_batches(os.path.dirname(os.path.dirname(part[0].path)), topic)
            stored_at_ms = int(batch.stored_at_ms[-1])
            for units in units_of.batches(batch):
                writer.put(units)
    about = {"start": part[0].start, "end": part[-1].end}
    rows.append({**about, "records": records, "stored_at_ms": stored_at_ms})
    told = (
        {"topic": topic, "queue_id": queue_id, **span._asdict()}
        for (topic, queue_id), span in writer.close()
    )
    yield from _batches([*rows, *told], _PUT)


def _complete(work: _Work, batches: Iterable[Any]) -> Iterator[Any]:
    """Join the ranges of each queue and complete it; runs in a worker."""
    rows = (row for batch in batches for row in batch.to_pylist())
    by_queue = groupby(rows, key=lambda row: (row["topic"], row["queue_id"]))
    made = (one for key, of_queue in by_queue for one in _completed(work, key, of_queue))
    yield from _batches(made, _MADE)


def _completed(
    work: _Work, key: tuple[Any, Any], rows: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    topic, queue_id = key
    if topic is None:
        for row in rows:
            yield {name: row[name] for name in _MADE.names if name in row}
        return
    queue = JoinedQueue()
    for row in rows:
        queue.add(UnitRange(*(row[name] for name in UnitRange._fields)))
    about = {"topic": topic, "queue_id": queue_id, "next_offset": queue.next_offset}
    if not queue.is_settled:
        yield {
            **about,
            "units": 0,
            "lost": 0,
            "ranges": msgspec.json.encode(queue.ranges).decode(),
        }
        return
    lost = ranges.complete(RealDisk(), work.folder, work.units_per_file, key, queue)
    yield {**about, "units": queue.next_offset - queue.first - lost, "lost": lost}


def _batches(rows: Iterable[dict[str, Any]], schema: Any) -> Iterator[Any]:
    """Give rows as Arrow batches."""
    left = iter(rows)
    while some := list(islice(left, ROWS)):
        yield pa.RecordBatch.from_pylist(some, schema=schema)


@dataclass(slots=True)
class _Kept:
    """How many queues without messages were kept, and fillers put at the end of others."""

    queues: int = 0
    fillers: int = 0


def _keep_places(layout: StoreLayout, work: _Work, geometry: QueueGeometry, made: _Made) -> _Kept:
    """Let queues continue where the old ones would, if the log does not have their last messages.

    They were cleaned away, or are damaged; nobody else may get their offsets. Of what an old queue
    says beyond that nothing is believed.
    """
    disk = RealDisk()
    kept = _Kept()
    log_start = work.stored.bounds()[0] if work.stored.parts else 0
    for topic in disk.folders(layout.consumequeue):
        for name in disk.folders(f"{layout.consumequeue}/{topic}"):
            if not (name.isascii() and name.isdecimal()):
                continue
            key = topic, int(name)
            reached = made.next_offsets.get(key)
            old = queue_files(disk, layout, *key)
            if reached is not None and old.unit(reached) is None:
                continue  # as mostly, and known by one read
            bounds = old.offsets(log_start)
            if bounds is None or bounds.end <= (reached or 0):
                continue
            last = old.unit(bounds.end - 1)
            is_lost = last is not None and (
                last.size == FILLER_SIZE
                or any(one.start <= last.start < one.start + one.size for one in made.damage)
            )
            is_near = reached is not None and bounds.end - reached <= FILLERS_MAX
            if reached is not None and is_lost and is_near:
                ranges.fill(disk, work.folder, geometry.units_per_file, key, reached, bounds.end)
                kept.fillers += bounds.end - reached
            elif reached is None and (is_lost or last is None or last.start < log_start):
                queues = FileQueues(disk, work.folder, geometry)
                queues.begin(*key, bounds.end)
                queues.flush()
                queues.close()
                kept.queues += 1
    return kept
