"""The job `stats`: what a store holds, by topic, queue, hour, tag or producer.

Each task counts its part of the log inside of the worker, and gives one row for each group and size
class. Spark adds these rows up, so what is shuffled is small whatever the log is.

Sizes are reported as percentiles. A size class is exact below 64 bytes and at most 1/32 wide above;
a percentile is the upper end of its class, so at most 3.2 % more than the exact one, and never more
than the largest size.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.base import log
from sprocket.base.errors import SettingsError, StoreError
from sprocket.base.nearest import hint
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import Ints
from sprocket.spark.jobs.job import (
    JobOption,
    JobReport,
    SkipDamaged,
    Verify,
    damage_rows,
    reading,
)
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles
from sprocket.spark.jobs.tasks import collected, spread
from sprocket.spark.jobs.waiting import WaitingInStore, waiting
from sprocket.spark.rocketmq.folder import LeftOut, Stored

_log = log.get_logger(__name__)

PERCENTILES = (50, 90, 99)
PARTIAL_ROWS_MAX = 100_000
"""This many rows of batches are added up at a time."""
DAMAGE = -1
"""In the place of a size class: the row has what a task left out, as JSON, and no keys."""
_HOUR_US = 3_600_000_000
_EXACT_BITS = 6
"""Sizes below 2⁶ are classes of their own; this many steps less one bit has each octave above."""
_MEASURES = "messages bigint, bytes bigint, largest bigint, first bigint, last bigint"

_SUMS = [
    ("messages", "sum"),
    ("bytes", "sum"),
    ("largest", "max"),
    ("first", "min"),
    ("last", "max"),
]
"""How rows of one group are added up."""

KEYS: Mapping[str, tuple[str, str, str]] = {
    # what people type: (column of the source, Spark's type of the key, name in the report)
    "topic": ("topic", "string", "topic"),
    "queue": ("queueId", "int", "queue_id"),
    "hour": ("storeTimestamp", "bigint", "hour_at_ms"),
    "tag": ("tags", "string", "tag"),
    "producer": ("bornHost", "string", "producer"),
}


_KINDS = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


class StatsReport(JobReport, frozen=True, kw_only=True):
    """What was counted.

    Attributes:
        messages: Records of the log that were chosen.
        bytes: Their sizes, as stored.
        damaged: Places of the log that were left out, as they are damaged or lost.
        damaged_bytes: Their bytes.
        damage: A row for each of the first 1,000 of them: `file`, `position` in it, `start` (its
            physical offset), `bytes`, `why`.
        halves: Half messages that wait for the end of their transaction; -1 if queues and progress
            of the store cannot be read from here.
        timed: Messages that wait for the time at which they are to be delivered; the same.
        counts: A row for each group, in the order of what they are grouped by: the keys, then
            `messages`, `bytes`, `p50_bytes`, `p90_bytes`, `p99_bytes`, `largest_bytes`,
            `first_stored_at_ms` and `last_stored_at_ms`.
    """

    messages: int
    bytes: int
    damaged: int
    damaged_bytes: int
    damage: list[dict[str, Any]]
    halves: int
    timed: int
    counts: list[dict[str, Any]]


def stats(
    spark: Any,
    *,
    store: Annotated[str, JobOption("The store's folder.", "FOLDER", is_argument=True)],
    files: JobFiles = LOCAL_FILES,
    by: Annotated[
        list[str],
        JobOption(
            "What to count by: topic, queue, hour, tag, producer, commas between; may be repeated"
        ),
    ] = ("topic",),  # type: ignore[assignment]
    topic: Annotated[list[str], JobOption("Only this topic; may be repeated.", also="-t")] = (),  # type: ignore[assignment]
    internal: Annotated[
        bool, JobOption("Count internal topics and half messages, too: everything that is there.")
    ] = False,
    skip_damaged: SkipDamaged = False,
    verify: Verify = True,
    progress: Step = unwatched,
) -> StatsReport:
    """Count the messages of a store by topic, queue, hour, tag or producer.

    A producer is an address without its port, an hour is one of the broker's clock, in UTC.

    Raises:
        SettingsError: There is nothing of the name that was asked for.
        QueryFailed: A task failed, as on damage in the log.
    """
    files.require_use(store)
    keys = _keys(by)
    columns = {KEYS[key][0] for key in keys} | {"size", "storeTimestamp"}
    stored = Stored.plan(
        store,
        columns=sorted(columns),
        topics=topic,
        internal=internal,
        more=files.options(store) | reading(skip_damaged=skip_damaged, verify=verify),
    )
    waits = _waits(store, files)
    schema = ", ".join(f"`{key}` {KEYS[key][1]}" for key in keys)
    counted = spread(
        spark,
        stored.parts,
        partial(_counted, stored, tuple(keys)),
        f"{schema}, size_class int, {_MEASURES}, left_out string",
    )
    rows = collected(spark, _added_up(counted, keys), progress, "counting")
    groups = _groups([row for row in rows if row["size_class"] != DAMAGE], keys)
    left_out = LeftOut()
    if stored.lost_end is not None:
        left_out.add(stored.lost_end)
    for row in rows:
        if row["size_class"] == DAMAGE:
            left_out.join(msgspec.json.decode(row["left_out"], type=LeftOut))
    return StatsReport(
        messages=sum(row["messages"] for row in groups),
        bytes=sum(row["bytes"] for row in groups),
        damaged=left_out.count,
        damaged_bytes=left_out.bytes,
        damage=damage_rows(left_out.named),
        halves=waits.halves,
        timed=waits.timed,
        counts=groups,
    )


def _waits(store: str, files: JobFiles) -> WaitingInStore:
    """Count what waits in the store; -1 for what is not known."""
    try:
        return waiting(files.folder(store))
    except (SettingsError, StoreError) as error:
        _log.warning("what waits in the store is not known", store=store, why=str(error))
        return WaitingInStore(-1, -1)


def _keys(by: Sequence[str]) -> list[str]:
    keys = [key.strip() for text in by for key in text.split(",")]
    for key in keys:
        if key not in KEYS:
            meant = hint(key, KEYS) or f"; expected {', '.join(KEYS)}"
            raise SettingsError(f"cannot count by {key!r}{meant}")
    return list(dict.fromkeys(keys))


def _added_up(counted: Any, keys: Sequence[str]) -> Any:
    """Return the DataFrame of rows of all tasks, each group and class once."""
    from pyspark.sql import functions as F

    return counted.groupBy(*keys, "size_class", "left_out").agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.max("largest").alias("largest"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
    )


def _counted(stored: Stored, keys: tuple[str, ...], part: Any) -> Iterator[Any]:
    """Count one part of the log; runs in a worker."""
    kept: list[Any] = []
    waiting = 0
    left_out = LeftOut()
    for batch in stored.read(part, left_out):
        kept.append(_grouped(_measured(batch, keys), keys))
        waiting += kept[-1].num_rows
        if waiting > PARTIAL_ROWS_MAX:
            kept = [_grouped(pa.concat_tables(kept), keys)]
            waiting = 0
    names = [*keys, "size_class", "messages", "bytes", "largest", "first", "last"]
    if kept:
        counted = _grouped(pa.concat_tables(kept), keys).select(names)
        nothing = pa.nulls(counted.num_rows, pa.string())
        yield from counted.append_column("left_out", nothing).to_batches()
    if left_out.count:
        columns = {key: pa.nulls(1, _KINDS[KEYS[key][1]]) for key in keys}
        columns["size_class"] = pa.array([DAMAGE], pa.int32())
        columns |= {name: pa.array([0], pa.int64()) for name, _ in _SUMS}
        columns["left_out"] = pa.array([msgspec.json.encode(left_out).decode()], pa.string())
        yield pa.RecordBatch.from_pydict(columns)


def _measured(batch: Any, keys: tuple[str, ...]) -> Any:
    """Return a row for each message: the keys, its size class, and what is added up."""
    size = batch.column("size").cast(pa.int64())
    stored_at = batch.column("storeTimestamp").cast(pa.int64()).fill_null(0)
    columns = {key: _key(key, batch.column(KEYS[key][0])) for key in keys}
    columns["size_class"] = pa.array(size_class(size.to_numpy(zero_copy_only=False)), pa.int32())
    columns |= {"messages": pa.repeat(pa.scalar(1), batch.num_rows), "bytes": size}
    return pa.table({**columns, "largest": size, "first": stored_at, "last": stored_at})


def _key(key: str, column: Any) -> Any:
    if key == "hour":
        at = column.cast(pa.int64()).fill_null(0)
        return pc.multiply(pc.divide(at, _HOUR_US), _HOUR_US // 1000)
    if key == "producer":
        coded = column.dictionary_encode()
        hosts = pc.replace_substring_regex(coded.dictionary, r":\d+$", "")
        return hosts.take(coded.indices)
    return column


def _grouped(table: Any, keys: tuple[str, ...]) -> Any:
    """Return one row for each group and size class."""
    groups = table.group_by([*keys, "size_class"], use_threads=False)
    found = groups.aggregate(_SUMS)
    names = {f"{name}_{how}": name for name, how in _SUMS}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def size_class(sizes: Ints) -> Ints:
    """Return the class of each size, in bytes; larger sizes have larger classes."""
    bits = np.frexp(np.maximum(sizes, 1))[1]
    octave: Ints = np.maximum(bits - _EXACT_BITS, 0).astype(np.int64)
    return (octave << (_EXACT_BITS - 1)) + (sizes >> octave)


def largest_of_class(number: int) -> int:
    """Return the largest size, in bytes, whose class is `number`."""
    octave = max((number >> (_EXACT_BITS - 1)) - 1, 0)
    step = number - (octave << (_EXACT_BITS - 1))
    return ((step + 1) << octave) - 1


def _groups(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the report, of those of all groups and size classes."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)

    def place(group: tuple[Any, ...]) -> list[tuple[bool, Any]]:
        return [(value is not None, value) for value in group]

    return [
        {KEYS[key][2]: value for key, value in zip(keys, group, strict=True)} | _row(groups[group])
        for group in sorted(groups, key=place)
    ]


def _row(classes: list[Mapping[str, Any]]) -> dict[str, Any]:
    count = sum(row["messages"] for row in classes)
    largest = max(row["largest"] for row in classes)
    sizes = sorted((row["size_class"], row["messages"]) for row in classes)
    return {
        "messages": count,
        "bytes": sum(row["bytes"] for row in classes),
        **{
            f"p{percent}_bytes": min(_percentile(sizes, count, percent), largest)
            for percent in PERCENTILES
        },
        "largest_bytes": largest,
        "first_stored_at_ms": min(row["first"] for row in classes) // 1000,
        "last_stored_at_ms": max(row["last"] for row in classes) // 1000,
    }


def _percentile(sizes: Sequence[tuple[int, int]], count: int, percent: int) -> int:
    """Return the size that `percent` of the messages do not pass."""
    wanted = -(-count * percent // 100)
    reached = itertools.accumulate(messages for _, messages in sizes)
    found = (number for (number, _), so_far in zip(sizes, reached, strict=True) if so_far >= wanted)
    return largest_of_class(next(found))
