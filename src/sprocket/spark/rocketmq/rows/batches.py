"""Arrow batches for Spark: chosen records, in the schema asked for, damage told as `mode` says."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.base.errors import CorruptRecord, SettingsError, WireError
from sprocket.base.nearest import hint
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.columns import Records
from sprocket.rocketmq.model.message import COMPRESSED, unpacked
from sprocket.spark.arrow import cut, numbers
from sprocket.spark.mode import Mode
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.columns import (
    BODIES,
    COLUMNS,
    PROPERTIES_JSON,
    VIEWS,
    RecordRows,
    SourceColumn,
)
from sprocket.spark.rocketmq.rows.selection import RecordSelection

BATCH_BYTES_MAX = 16 * MIB
"""Unpacked bodies per batch; Arrow's offsets have 32 bits and the JVM holds several batches."""
BATCH_ROWS_MAX = 16_384
"""Between 2,000 and 32,000 rows the speed is the same."""


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

    Raises:
        SettingsError: A column is unknown or has another type, or there is none: batches without
            columns have no rows.
    """

    def __init__(
        self,
        schema: Any,
        options: Options,
        broker_name: str = "",
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._names = [column_name(name) for name in schema.fieldNames()]
        if not self._names:
            raise SettingsError("the schema has no columns; name one, such as size")
        self._options = options
        self._broker_name = broker_name
        self._selection = RecordSelection(options, broker_name)
        self._columns = [column(name, options) for name in self._names]
        for name, found_column, field in zip(
            self._names, self._columns, schema.fields, strict=True
        ):
            wanted = found_column.kind
            if field.dataType.simpleString() != wanted:
                found = field.dataType.simpleString()
                raise SettingsError(f"column {name!r} is {wanted}, the schema says {found}")

    @property
    def has_bodies(self) -> bool:
        """Whether anything is made of the bodies of records."""
        return self._options.verify_crc or not BODIES.isdisjoint(self._names)

    def of(self, records: Records, where: str) -> Iterator[Any]:
        """Give the batches of some records; `where` is what they were read from, for errors.

        Raises:
            CorruptRecord: A body is damaged and the mode is FAILFAST.
        """
        for first in range(0, len(records), BATCH_ROWS_MAX):
            part = self._selection.keep(records.part(first, first + BATCH_ROWS_MAX))
            if not len(part):
                continue
            corruption: dict[int, str] = {}
            if self._options.verify_crc:
                part, corruption = self._verified(part, where)
            if self._options.decompress and "body" in self._names:
                yield from self._unpacked(part, corruption, where)
            elif len(part):
                yield self._batch(RecordRows(part, self._broker_name, None, corruption))

    def refuse_damage(self, where: str, start: int | None, why: str) -> None:
        """Say that no record is where one should be, if that ends the query.

        The file or queue is `where`, and `start` the physical offset if that is known.

        Raises:
            CorruptRecord: The mode is FAILFAST.
        """
        if self._options.mode is Mode.FAILFAST:
            place = "" if start is None else f"at physical offset {start}: "
            raise CorruptRecord(f"{where}: {place}{why}")

    def damage(self, start: int | None, size: int, why: str) -> Iterator[Any]:
        """Give what stands for `size` bytes that hold no record: a row, or nothing.

        They begin at the physical offset `start`, if that is known.
        """
        if self._options.mode is Mode.PERMISSIVE:
            known = {"physicalOffset": start, "size": min(size, 0x7FFFFFFF)}
            values = {**known, "corruption": why}
            kinds = zip(self._names, self._schema.types, strict=True)
            columns = [pa.array([values.get(name)], kind) for name, kind in kinds]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _verified(self, records: Records, where: str) -> tuple[Records, dict[int, str]]:
        """Look for bodies that do not fit their checksums; return what is left, and what is bad."""
        bad = records.bad_bodies()
        if not bad.any():
            return records, {}
        text = "the body does not fit its checksum"
        self._fail_fast(records, int(np.argmax(bad)), where, text)
        if self._options.mode is Mode.DROPMALFORMED:
            return records.keep(~bad), {}
        return records, dict.fromkeys(np.flatnonzero(bad).tolist(), text)

    def _fail_fast(self, records: Records, number: int, where: str, why: str) -> None:
        if self._options.mode is Mode.FAILFAST:
            offset = records.number("physical_offset")[number]
            raise CorruptRecord(f"{where}: record at physical offset {offset}: {why}")

    def _unpacked(self, records: Records, corruption: dict[int, str], where: str) -> Iterator[Any]:
        """Give batches with unpacked bodies, each of a bounded size."""
        packed = np.flatnonzero(records.number("sys_flag") & COMPRESSED)
        sys_flags = records.number("sys_flag")
        view = memoryview(records.data)
        first, size = 0, 0
        bodies: dict[int, bytes] = {}
        dropped: set[int] = set()
        for number in packed.tolist():
            stored = view[records.body_start[number] : records.body_end[number]]
            try:
                body = unpacked(stored, int(sys_flags[number]))
            except WireError as error:
                self._fail_fast(records, number, where, str(error))
                corruption.setdefault(number, str(error))
                dropped.add(number)
                continue
            bodies[number] = body
            size += len(body)
            if size > BATCH_BYTES_MAX:
                yield from self._group(records, first, number + 1, bodies, corruption, dropped)
                first, size, bodies = number + 1, 0, {}
        yield from self._group(records, first, len(records), bodies, corruption, dropped)

    def _group(
        self,
        records: Records,
        first: int,
        stop: int,
        unpacked: dict[int, bytes],
        corruption: dict[int, str],
        damaged: set[int],
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
        if damaged and self._options.mode is Mode.DROPMALFORMED:
            keep = np.array([number not in damaged for number in range(first, stop)])
            part, texts = part.keep(keep), {}
            bodies = None if bodies is None else bodies.filter(pa.array(keep))
        if len(part):
            yield self._batch(RecordRows(part, self._broker_name, bodies, texts))

    def _batch(self, rows: RecordRows) -> Any:
        columns = [one.make(rows) for one in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
