"""Arrow batches for Spark: chosen records, in the schema asked for, damage reported as `mode` says.

Nothing of a record is handed out that its checksums do not vouch for, unless that is asked for.
They are compared before records are chosen by what they say: a record with a wrong topic, time or
tag would be missing silently.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.base.errors import CorruptRecord, SettingsError, WireError
from sprocket.base.nearest import hint
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import Mask, Records
from sprocket.rocketmq.model.message import COMPRESSED, unpacked
from sprocket.spark.arrow import cut, numbers
from sprocket.spark.asked_schema import fitted, require_kind
from sprocket.spark.filters import ROW_COUNT
from sprocket.spark.mode import Mode
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.columns import (
    BODIES,
    COLUMNS,
    FROM_PROPERTIES,
    PROPERTIES_JSON,
    VIEWS,
    RecordRows,
    SourceColumn,
)
from sprocket.spark.rocketmq.rows.damage import DamagedRange, LeftOut, wrong_records
from sprocket.spark.rocketmq.rows.selection import QueueCount, RecordSelection

BATCH_BYTES_MAX = 16 * MIB
"""Unpacked bodies per batch; Arrow's offsets have 32 bits and the JVM holds several batches."""
BATCH_ROWS_MAX = 16_384
"""Between 2,000 and 32,000 rows the speed is the same."""
ALIKE_MAX, ALIKE_ROWS_MAX = 64, 4096
"""So many batches whose rows are alike, and rows of them, are added up at once."""


def column_names(options: Options) -> tuple[str, ...]:
    """Return the columns that the options ask for.

    Raises:
        SettingsError: One is unknown; the text names the nearest.
    """
    names = tuple(column_name(name) for name in options.columns)
    if not names:
        names = VIEWS[options.view]
        if not options.include_properties:
            names = tuple(name for name in names if name != "properties")
    if len(set(names)) < len(names):
        raise SettingsError(f"a column is named twice in {', '.join(names)}")
    if options.mode is Mode.PERMISSIVE and "corruption" not in names:
        names += ("corruption",)
    return names


def column_name(name: str) -> str:
    """Return a column's own spelling; as in Spark, capitals do not matter.

    Raises:
        SettingsError: There is none of this name.
    """
    known = {column.lower(): column for column in COLUMNS}
    if name.lower() in known:
        return known[name.lower()]
    meant = hint(name, COLUMNS) or f"; there are {', '.join(COLUMNS)}"
    raise SettingsError(f"unknown column {name!r}{meant}")


def spark_schema(options: Options) -> str:
    """Return the columns that the options ask for, as Spark writes a schema."""
    return ", ".join(f"`{name}` {column(name, options).kind}" for name in column_names(options))


def schema_of(options: Options, metadata: Mapping[str, str]) -> Any:
    """Return the same as a StructType whose first column carries some metadata."""
    from pyspark.sql import types

    text = types.StringType()
    kinds = {
        "string": text,
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "binary": types.BinaryType(),
        "timestamp": types.TimestampType(),
        "map<string,string>": types.MapType(text, text),
    }
    fields = [
        types.StructField(name, kinds[column(name, options).kind]) for name in column_names(options)
    ]
    fields[0].metadata = dict(metadata)
    return types.StructType(fields)


def column(name: str, options: Options) -> SourceColumn:
    """Return what a column is for a query with these options."""
    if name == "properties" and options.properties_format == "json":
        return PROPERTIES_JSON
    return COLUMNS[name]


def columns_of_view(view: str) -> str:
    """Return the columns of a `view`, as Spark writes a schema."""
    return ", ".join(f"`{name}` {COLUMNS[name].kind}" for name in VIEWS[view])


class Batches:
    """Makes the batches of one task.

    Args:
        schema: The StructType that Spark wants filled: any columns of ours, in any order.
        options: What to choose and how.
        broker_name: Whose records they are; empty if that is not known.
        left_out: Damage that is left out is added to it.

    Raises:
        SettingsError: A column is unknown or has another type, or there is none: batches without
            columns have no rows.
    """

    def __init__(
        self,
        schema: Any,
        options: Options,
        broker_name: str = "",
        *,
        left_out: LeftOut | None = None,
    ) -> None:
        self._left_out = left_out or LeftOut()
        from pyspark.sql.pandas.types import to_arrow_schema

        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._names = [column_name(name) for name in schema.fieldNames()]
        if not self._names:
            raise SettingsError("the schema has no columns; name one, such as size")
        self._options = options
        self._broker_name = broker_name
        self._selection = RecordSelection(options, broker_name)
        self._columns = [column(name, options) for name in self._names]
        self._count_number = self._names.index(ROW_COUNT) if ROW_COUNT in self._names else -1
        if ROW_COUNT in self._names and any(map(pa.types.is_map, self._schema.types)):
            raise SettingsError(f"{ROW_COUNT!r} cannot be read with a map, such as 'properties'")
        for name, found_column, field in zip(
            self._names, self._columns, schema.fields, strict=True
        ):
            require_kind(name, found_column.kind, field, options.mode)

    @property
    def has_bodies(self) -> bool:
        """Whether anything is made of the bodies of records."""
        return self._verifies or not BODIES.isdisjoint(self._names)

    @property
    def _verifies(self) -> bool:
        """Whether checksums are compared; by default where bodies or properties are read."""
        options = self._options
        if options.verify_crc is not None:
            return options.verify_crc
        chooses = options.tags or options.condition
        return bool(chooses) or not (BODIES | FROM_PROPERTIES).isdisjoint(self._names)

    @property
    def counts_queues(self) -> bool:
        """Whether all that is asked for is how many messages of each queue there are."""
        return (
            self._count_number >= 0
            and set(self._names) <= {"topic", "queueId", ROW_COUNT}
            and not self._verifies
            and self._options.mode is Mode.FAILFAST
            and self._selection.is_by_queue
        )

    def of_counts(self, counts: Sequence[QueueCount]) -> Sequence[Any] | None:
        """Return what stands for the records of queues, of which only the number is known.

        Only if `counts_queues`.

        Returns:
            A batch, or nothing if none of them is wanted; None if the records have to be seen.
        """
        kept = self._selection.of_counts(counts)
        if not kept:
            return kept
        topics, queue_ids, numbers_of = zip(*kept, strict=True)
        values = {"topic": topics, "queueId": queue_ids, ROW_COUNT: numbers_of}
        columns = [
            pa.array(values[name], kind)
            for name, kind in zip(self._names, self._schema.types, strict=True)
        ]
        return [
            _alike([pa.RecordBatch.from_arrays(columns, schema=self._schema)], self._count_number)
        ]

    def of(self, records: Records, where: str, wanted: Mask | None = None) -> Iterator[Any]:
        """Give the batches of some records.

        Args:
            records: The records.
            where: What they were read from, for errors.
            wanted: Which of them are wanted; None for all. Damage of the others is reported, too.

        Raises:
            CorruptRecord: A record is damaged and the mode is FAILFAST.
        """
        for first in range(0, len(records), BATCH_ROWS_MAX):
            part = records.part(first, first + BATCH_ROWS_MAX)
            kept = None if wanted is None else wanted[first : first + BATCH_ROWS_MAX]
            if self._verifies:
                bad = part.wrong_sums()
                if bad.any():
                    damaged = part.keep(bad)
                    yield from self.damage(wrong_records(damaged, where), damaged)
                    kept = ~bad if kept is None else kept & ~bad
            part = self._selection.keep(part if kept is None else part.keep(kept))
            if not len(part):
                continue
            if self._options.decompress and "body" in self._names:
                yield from self._unpacked(part, where)
            else:
                yield self._batch(RecordRows(part, self._broker_name))

    def added_up(self, made: Iterator[Any]) -> Iterator[Any]:
        """Give batches that were made, several as one where rows that are alike come once.

        A batch costs Spark as much as some thousand rows of it, and of alike rows there are few.
        """
        if self._count_number < 0:
            yield from made
            return
        waiting: list[Any] = []
        for batch in made:
            waiting.append(batch)
            if sum(one.num_rows for one in waiting) >= ALIKE_ROWS_MAX or len(waiting) == ALIKE_MAX:
                yield _alike(waiting, self._count_number)
                waiting.clear()
        if waiting:
            yield _alike(waiting, self._count_number)

    def damage(
        self, damage: Sequence[DamagedRange], records: Records | None = None
    ) -> Iterator[Any]:
        """Give what stands for damage: rows, or nothing.

        Of damaged `records`, one for each range, their bytes are in the column `record`.

        Raises:
            CorruptRecord: The mode is FAILFAST.
        """
        mode = self._options.mode
        if mode is Mode.FAILFAST:
            raise CorruptRecord(str(damage[0]))
        if mode is Mode.DROPMALFORMED:
            for one in damage:
                self._left_out.add(one)
            return
        values: dict[str, Any] = {
            "physicalOffset": [one.start if one.start >= 0 else None for one in damage],
            "size": [min(one.size, 0x7FFFFFFF) for one in damage],
            "corruption": [one.why for one in damage],
            ROW_COUNT: [1] * len(damage),
        }
        if records is not None:
            values["record"] = cut(records.data, records.start, records.end)
        nothing = [None] * len(damage)
        columns = [
            pa.array(values.get(name, nothing), kind)
            for name, kind in zip(self._names, self._schema.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _unpacked(self, records: Records, where: str) -> Iterator[Any]:
        """Give batches with unpacked bodies, each of a bounded size."""
        packed = np.flatnonzero(records.number("sys_flag") & COMPRESSED)
        sys_flags = records.number("sys_flag")
        view = memoryview(records.data)
        first, size = 0, 0
        bodies: dict[int, bytes] = {}
        corruption: dict[int, str] = {}
        for number in packed.tolist():
            stored = view[records.body_start[number] : records.body_end[number]]
            try:
                body = unpacked(stored, int(sys_flags[number]))
            except WireError as error:
                self._refuse_packed(records.part(number, number + 1), where, str(error))
                corruption[number] = str(error)
                continue
            bodies[number] = body
            size += len(body)
            if size > BATCH_BYTES_MAX:
                yield from self._group(records, first, number + 1, bodies, corruption)
                first, size, bodies = number + 1, 0, {}
        yield from self._group(records, first, len(records), bodies, corruption)

    def _refuse_packed(self, record: Records, where: str, why: str) -> None:
        """Take note of a body that cannot be unpacked, as its producer sent it.

        Raises:
            CorruptRecord: The mode is FAILFAST.
        """
        if self._options.mode is not Mode.PERMISSIVE:  # where its row has the stored body
            offset, size = int(record.number("physical_offset")[0]), int(record.number("size")[0])
            deque(self.damage([DamagedRange(where, offset, size, why)]), maxlen=0)

    def _group(
        self,
        records: Records,
        first: int,
        stop: int,
        unpacked: dict[int, bytes],
        corruption: dict[int, str],
    ) -> Iterator[Any]:
        """Give the batch of the records from `first` up to `stop`; some have unpacked bodies."""
        part = records.part(first, stop)
        bodies = None
        if unpacked:
            places = np.array(sorted(unpacked))
            order = np.arange(len(part))
            order[places - first] = len(part) + np.arange(len(places))
            plain = cut(part.data, part.body_start, part.body_end)
            loose = pa.array([unpacked[number] for number in places.tolist()], pa.binary())
            bodies = pa.concat_arrays([plain, loose]).take(numbers(order, pa.int64()))
        texts = {number - first: text for number, text in corruption.items() if first <= number}
        if texts and self._options.mode is Mode.DROPMALFORMED:
            keep = np.ones(len(part), np.bool_)
            keep[list(texts)] = False
            part, texts = part.keep(keep), {}
            bodies = None if bodies is None else bodies.filter(pa.array(keep))
        if len(part):
            yield self._batch(RecordRows(part, self._broker_name, bodies, texts))

    def _batch(self, rows: RecordRows) -> Any:
        def place(row: int) -> str:
            return f"at physical offset {int(rows.records.number('physical_offset')[row])}"

        columns = [
            fitted(name, one.make(rows), field, place)
            for name, one, field in zip(self._names, self._columns, self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return _alike([batch], self._count_number) if self._count_number >= 0 else batch


def _alike(batches: Sequence[Any], number: int) -> Any:
    """Return the rows of some batches that are alike once, with how many they are.

    Args:
        batches: The batches.
        number: That of the column which says how many.
    """
    schema = batches[0].schema
    counted, total = schema.names[number], f"{schema.names[number]}_sum"
    others = [name for name in schema.names if name != counted]
    groups = pa.Table.from_batches(batches).group_by(others, use_threads=False)
    sums = groups.aggregate([(counted, "sum")])
    columns = [
        sums.column(total if name == counted else name).cast(kind).combine_chunks()
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
