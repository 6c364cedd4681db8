"""Arrow batches for Spark: messages of queues, in the schema asked for, damage as `mode` says."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sprocket.base import log
from sprocket.base.errors import CorruptRecord, SettingsError
from sprocket.base.nearest import hint
from sprocket.base.units import MIB
from sprocket.rabbitmq.codec.columns import Ints, Mask
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store.damage import FileDamage
from sprocket.rabbitmq.store.reading import IndexRows, MessageState
from sprocket.spark.asked_schema import fitted, require_kind
from sprocket.spark.mode import Mode
from sprocket.spark.rabbitmq.columns import (
    COLUMNS,
    FROM_HEADERS,
    HEADERS_JSON,
    STATES,
    VIEWS,
    MessageColumn,
)
from sprocket.spark.rabbitmq.message_rows import MessageRows
from sprocket.spark.rabbitmq.options import RabbitOptions
from sprocket.spark.rabbitmq.plan import QueueShare
from sprocket.spark.rabbitmq.stored_terms import StoredTerms

_log = log.get_logger(__name__)

BATCH_BYTES_MAX = 16 * MIB
"""Bodies per batch, if it is more than one message."""
BATCH_ROWS_MAX = 8192
NAMED_MAX = 1000
"""Damage that a task names in its log where it is left out; further damage is not named."""


def column_names(options: RabbitOptions) -> tuple[str, ...]:
    """Return the columns that the options ask for.

    Raises:
        SettingsError: One is unknown; the text names the nearest.
    """
    names = tuple(column_name(name) for name in options.columns) or VIEWS[options.view]
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
    for column in COLUMNS:
        if column.lower() == name.lower():
            return column
    meant = hint(name, COLUMNS) or f"; there are {', '.join(COLUMNS)}"
    raise SettingsError(f"unknown column {name!r}{meant}")


def spark_schema(options: RabbitOptions) -> str:
    """Return the columns that the options ask for, as Spark writes a schema."""
    return ", ".join(f"`{name}` {column(name, options).kind}" for name in column_names(options))


def schema_of(options: RabbitOptions, metadata: Mapping[str, str]) -> Any:
    """Return the same as a StructType whose first column carries some metadata."""
    from pyspark.sql import types

    text = types.StringType()
    kinds = {
        "string": text,
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "boolean": types.BooleanType(),
        "binary": types.BinaryType(),
        "timestamp": types.TimestampType(),
        "array<string>": types.ArrayType(text),
        "map<string,string>": types.MapType(text, text),
    }
    fields = [
        types.StructField(name, kinds[column(name, options).kind]) for name in column_names(options)
    ]
    fields[0].metadata = dict(metadata)
    return types.StructType(fields)


def column(name: str, options: RabbitOptions) -> MessageColumn:
    """Return what a column is for a query with these options."""
    if name == FROM_HEADERS and options.headers_format == "json":
        return HEADERS_JSON
    return COLUMNS[name]


class MessageBatches:
    """Makes the batches of one task.

    Args:
        schema: The StructType that Spark wants filled: any columns of ours, in any order.
        options: What to read and how.

    Raises:
        SettingsError: A column is unknown or has another type.
    """

    def __init__(self, schema: Any, options: RabbitOptions) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._options = options
        self._left_out_count = 0
        self._names = [column_name(name) for name in schema.fieldNames()]
        self._columns = [column(name, options) for name in self._names]
        for name, one, field in zip(self._names, self._columns, schema.fields, strict=True):
            require_kind(name, one.kind, field, options.mode)

    def of(self, share: QueueShare, rows: IndexRows, stored: StoredTerms) -> Iterator[Any]:
        """Give the batches of some rows of a queue's index.

        Raises:
            CorruptRecord: A message that a server would have after a start cannot be read, and the
                mode is FAILFAST.
        """
        is_gone = rows.is_acked | ~rows.is_persistent
        wanted = np.arange(len(rows)) if self._options.include_gone else np.flatnonzero(~is_gone)
        states = np.where(
            rows.is_acked, _number(MessageState.ACKNOWLEDGED), _delivered(share, rows)
        )
        needs_messages = bool(self._options.verify_crc)
        needs_messages |= any(one.needs_message for one in self._columns)
        for which in _chunks(rows, wanted):
            found = stored.read(rows, which) if needs_messages else None
            messages = MessageRows(share.queue, rows, which, states[which], found)
            yield from self._batch(messages, is_gone[which])

    def damage(self, queue: QueueName, fault: FileDamage, *, is_of_queue: bool) -> Iterator[Any]:
        """Give what stands for damage to files: a row, or nothing.

        Raises:
            CorruptRecord: The mode is FAILFAST.
        """
        if self._options.mode is Mode.FAILFAST:
            raise CorruptRecord(str(fault))
        if self._options.mode is Mode.DROPMALFORMED:
            self._leave_out(str(fault))
        if self._options.mode is Mode.PERMISSIVE:
            known = {"vhost": queue.vhost, "corruption": str(fault)}
            if is_of_queue:
                known["queue"] = queue.name
            kinds = zip(self._names, self._schema.types, strict=True)
            columns = [pa.array([known.get(name)], kind) for name, kind in kinds]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _batch(self, rows: MessageRows, is_gone: Mask) -> Iterator[Any]:
        if FROM_HEADERS in self._names:
            rows.faults.update(rows.headers.faults)
        for row in np.flatnonzero(is_gone).tolist():  # nobody misses them
            rows.faults.pop(row, None)
        if rows.faults and self._options.mode is Mode.FAILFAST:
            raise CorruptRecord(_why(rows, min(rows.faults)))
        arrays = [one.make(rows) for one in self._columns]
        which = rows.which
        if rows.faults and self._options.mode is Mode.DROPMALFORMED:
            is_sound = np.ones(len(rows), np.bool_)
            is_sound[list(rows.faults)] = False
            for row in sorted(rows.faults):
                self._leave_out(_why(rows, row))
            arrays = [array.filter(pa.array(is_sound)) for array in arrays]
            which = which[is_sound]

        def place_of(row: int) -> str:
            return f"for message {rows.index.seq_ids[which[row]]} of queue {rows.queue.name!r}"

        columns = [
            fitted(name, array, field, place_of)
            for name, array, field in zip(self._names, arrays, self._schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _leave_out(self, place: str) -> None:
        self._left_out_count += 1
        if self._left_out_count <= NAMED_MAX:
            _log.warning("damage is left out", place=place)
        elif self._left_out_count == NAMED_MAX + 1:
            _log.warning("further damage is left out, and not named")


def _why(rows: MessageRows, row: int) -> str:
    """Return where a message that cannot be read is named, which it is, and why it cannot."""
    index, source = rows.index, rows.which[row]
    place = f"{index.files[index.sources[source]].path} at {index.records[source]}"
    message = f"message {index.seq_ids[source]} of queue {rows.queue.name!r}"
    return f"{place}: {message}: {rows.faults[row]}"


def _number(state: MessageState) -> int:
    return STATES.index(state)


def _delivered(share: QueueShare, rows: IndexRows) -> Ints:
    """Return for each row the number of its state, were it not acknowledged."""
    below = share.redelivered_below
    if below is None:
        is_old: Mask = np.ones(len(rows), np.bool_)
    else:
        is_old = rows.is_delivered if below < 0 else rows.seq_ids < below
    return np.where(is_old, _number(MessageState.DELIVERED), _number(MessageState.PUBLISHED))


def _chunks(rows: IndexRows, wanted: Ints) -> Iterator[Ints]:
    """Divide rows so that the messages of each part fit into a batch."""
    sizes = np.cumsum(rows.body_sizes[wanted])
    first = 0
    while first < len(wanted):
        before = sizes[first - 1] if first else 0
        stop = int(np.searchsorted(sizes, before + BATCH_BYTES_MAX, "right"))
        stop = min(max(stop, first + 1), first + BATCH_ROWS_MAX)
        yield wanted[first:stop]
        first = stop
