"""Rows as messages: checked and encoded by columns, refused by partition, row and column."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.base.errors import InvalidMessage, SettingsError
from sprocket.base.nearest import hint
from sprocket.rocketmq.client.producer import check_topic, queue_of_key
from sprocket.rocketmq.codec.columns import (
    HEAD_BYTES,
    LENGTH_BYTES,
    Ints,
    Mask,
    batch_heads,
)
from sprocket.rocketmq.codec.record import properties as names
from sprocket.rocketmq.errors import NoSuchTopic
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.message import INNER_BATCH
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.columns import COLUMNS
from sprocket.spark.rocketmq.sink import unique_keys
from sprocket.spark.rocketmq.sink.plain import plain
from sprocket.spark.rocketmq.sink.texts import first_with, joined, of_width, sizes, stored
from sprocket.spark.rocketmq.sink.unique_keys import Writing

_TEXT = frozenset({"string", "binary"})
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
SINK_COLUMNS: dict[str, tuple[frozenset[str], str]] = {
    "body": (
        _TEXT,
        "the content of the message; must not be null, nor empty unless `emptyBodies` is true",
    ),
    "topic": (frozenset({"string"}), "where it goes, unless the option `topic` says it"),
    "tags": (frozenset({"string"}), "its tag; null or empty for none"),
    "keys": (
        frozenset({"string", "array<string>"}),
        "the keys that it can be found by: an array, or with blanks between them",
    ),
    "properties": (
        frozenset({"map<string,string>"}),
        "further names and values; those that clients and brokers set themselves are left out",
    ),
    "shardingKey": (
        frozenset({"string"}),
        "messages of one key in one partition go to one queue, in their order",
    ),
    "queueId": (_WHOLE, "the queue it goes to, in order; null for any"),
    "brokerName": (
        frozenset({"string"}),
        "the broker of the queue, if several brokers have a queue of this id",
    ),
    "delayLevel": (_WHOLE, "level of delay, from 1; null or 0 for none"),
    "deliverAt": (
        frozenset({"timestamp", "bigint"}),
        "when it is delivered: a time, or ms since 1970; null for at once",
    ),
    "msgId": (frozenset({"string"}), "its unique key, unless `keyColumn` names what makes it"),
    "flag": (_WHOLE, "the producer's own 32 bits; null for 0"),
    "sysFlag": (_WHOLE, "as the source gives it: refuses the records of batch queues"),
}
"""By name: the types in Spark's words, and what the column says, for the guide."""

_OWN = (
    names.UNIQ_KEY,
    names.WAIT,
    names.DELAY,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TIMER_DELIVER_MS,
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    names.REAL_TOPIC,
    names.REAL_QID,
    names.RETRY_TOPIC,
    names.ORIGIN_MESSAGE_ID,
    names.TRAN_MSG,
    "PGROUP",
    "RECONSUME_TIME",
    "MAX_RECONSUME_TIMES",
    names.CLUSTER,
    names.MSG_REGION,
    names.TRACE_ON,
    names.INNER_NUM,
    names.INNER_BASE,
    names.INNER_MULTI_DISPATCH,
    names.INNER_MULTI_QUEUE_OFFSET,
    names.CRC32,
    "POP_CK",
)
"""Properties that clients and brokers give a message for their own work: a copy gets new ones."""

_AS_TEXT = re.compile(r"string collate \w+|(?:var)?char\(\d+\)")
"""Types whose values are texts like others."""
_ONE, _TWO = 1, 2
_FLAG_MAX = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Where messages go: to one queue in their order, or to any of a topic."""

    topic: str
    queue: MessageQueue | None


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """Some rows as messages.

    Args:
        first_row: Number of the first in its partition.
        bodies: Binary.
        properties: Binary, as they are stored.
        unique_keys: Binary.
        flags: The producer's bits of each.
        targets: Where they go.
        target: Of each the number of its target.
        is_alone: Which are sent by themselves: delayed ones, and those that are packed.
        frames: Each as it stands in a batch body; binary.
    """

    first_row: int
    bodies: Any
    properties: Any
    unique_keys: Any
    flags: Ints
    targets: Sequence[Target]
    target: Ints
    is_alone: Mask
    frames: Any


def check_columns(fields: Mapping[str, str], options: Options) -> None:
    """Check the columns of a DataFrame, given as Spark's types by name.

    Those of the source that say nothing to a sink are let pass, so that what was read can be
    written as it is.

    Raises:
        SettingsError: One is missing, unknown, or of another type.
    """
    known = {name.lower(): name for name in SINK_COLUMNS}
    ignored = {name.lower() for name in COLUMNS} | {options.key_column.lower()}
    seen = set()
    for name, kind in fields.items():
        column = known.get(name.lower())
        if column is None:
            if name.lower() not in ignored:
                meant = hint(name, SINK_COLUMNS) or f"; there are {', '.join(SINK_COLUMNS)}"
                raise SettingsError(f"unknown column {name!r}{meant}")
            continue
        kinds = SINK_COLUMNS[column][0]
        if _AS_TEXT.sub("string", kind) not in kinds:
            wanted = " or ".join(sorted(kinds))
            raise SettingsError(f"column {column!r} is {kind}, and must be {wanted}")
        seen.add(column)
    if "body" not in seen:
        raise SettingsError("there is no column 'body', which says what to send")
    if not options.target_topic and "topic" not in seen:
        raise SettingsError("say where to write: .option('topic', 'name'), or a column 'topic'")
    if options.key_column and options.key_column.lower() not in {one.lower() for one in fields}:
        meant = hint(options.key_column, fields)
        raise SettingsError(f"keyColumn names {options.key_column!r}, which is not a column{meant}")


class Encoder:
    """Makes messages of the rows of one task.

    Args:
        fields: The names of the columns, in their order.
        options: The options of the write.
        writing: Which part of what is written.
        queues: Returns the queues of a topic that take messages, in the order of the client, the
            same whenever it is asked; raises NoSuchTopic.
        level_max: The highest delay level.
        alone_bytes_min: A body of this size is sent by itself, as the client packs it; None if it
            packs none.
        batch_bytes_max: What may be sent together.
    """

    def __init__(
        self,
        fields: Sequence[str],
        options: Options,
        writing: Writing,
        queues: Callable[[str], Sequence[MessageQueue]],
        *,
        level_max: int,
        alone_bytes_min: int | None,
        batch_bytes_max: int,
    ) -> None:
        known = {name.lower(): name for name in SINK_COLUMNS}
        self._place = {known.get(name.lower(), name): at for at, name in enumerate(fields)}
        key = options.key_column.lower()
        self._key_at = next((at for at, name in enumerate(fields) if name.lower() == key), None)
        self._options = options
        self._writing = writing
        self._queues = queues
        self._level_max = level_max
        self._alone_bytes_min = alone_bytes_min
        self._batch_bytes_max = batch_bytes_max
        self._first_row = 0

    def encode(self, rows: Any, first_row: int) -> Encoded:
        """Encode some rows, a RecordBatch that is not empty.

        Raises:
            InvalidMessage: One cannot be sent; the text names partition, row and column.
            ClientError: Nobody could say which queues a topic has.
        """
        self._first_row = first_row
        self._rows = rows
        bodies = self._bodies()
        flags = self._flags()
        topics, topic = self._topics()
        waits, is_delayed = self._delays()
        properties, kept_keys = self._properties(waits)
        keys = self._unique_keys(bodies, properties, kept_keys)
        properties = joined(b"UNIQ_KEY\x01", keys, b"\x02", properties)
        property_sizes = sizes(properties)
        self._refuse_first(
            property_sizes > names.PROPERTIES_BYTES_MAX,
            "properties",
            lambda at: (
                f"takes {property_sizes[at]} bytes with tags and keys; the format holds "
                f"{names.PROPERTIES_BYTES_MAX}"
            ),
        )
        targets, target = self._targets(topics, topic)
        body_sizes = sizes(bodies)
        heads, lengths = batch_heads(flags, body_sizes, property_sizes)
        frames = joined(
            of_width(heads, HEAD_BYTES), bodies, of_width(lengths, LENGTH_BYTES), properties
        )
        is_retry = np.array([one.startswith(RETRY_PREFIX) for one in topics], np.bool_)[topic]
        is_alone = is_delayed | is_retry
        if self._alone_bytes_min is not None:
            is_alone |= body_sizes >= self._alone_bytes_min
        # A message by itself may have a body as long as a whole batch.
        is_alone |= (sizes(frames) > self._batch_bytes_max) & (body_sizes > 0)
        self._refuse_first(
            is_alone & (body_sizes == 0),
            "body",
            lambda _: "is empty, and delayed or of a retry topic, where clients take no empty one",
        )
        return Encoded(
            first_row, bodies, properties, keys, flags, targets, target, is_alone, frames
        )

    def refuse(self, row: int, column: str, why: str) -> NoReturn:
        """Raise for a row, whose number counts from the batch's first."""
        raise InvalidMessage(
            f"partition {self._writing.partition}, row {self._first_row + row}, column {column!r}: "
            f"{why}"
        )

    def _refuse_first(self, is_wrong: Any, column: str, why: Callable[[int], str]) -> None:
        wrong = np.asarray(is_wrong)
        if wrong.any():
            at = int(np.argmax(wrong))
            self.refuse(at, column, why(at))

    def _column(self, name: str) -> Any:
        """Return a column, None if there is none of the name."""
        at = self._place.get(name)
        return None if at is None else plain(self._rows.column(at))

    def _text(self, name: str) -> Any:
        """Return a column of texts as binary, empty ones as null; None if it is not there."""
        column = self._column(name)
        if column is None:
            return None
        if pa.types.is_list(column.type):
            column = self._words(column)
        column = column.cast(pa.binary())
        at = first_with(column, (_TWO,))
        if at is not None:
            self.refuse(at, name, "holds the byte 0x02, which ends a property")
        empty = pc.equal(pc.binary_length(column), 0)
        return pc.if_else(empty, pa.scalar(None, pa.binary()), column)

    def _words(self, column: Any) -> Any:
        """Return arrays of words as one text each."""
        flat = column.flatten()
        blank = pc.fill_null(pc.match_substring(flat, " "), fill_value=True)
        if pc.any(blank).as_py():
            owner = np.asarray(pc.list_parent_indices(column))
            at = int(owner[int(np.argmax(np.asarray(blank)))])
            self.refuse(at, "keys", "has a word that is null or holds a blank")
        return pc.binary_join(column, " ")

    def _numbers(self, name: str) -> tuple[Ints, Mask] | None:
        """Return a column of whole numbers, 0 for null, and which are not null."""
        column = self._column(name)
        if column is None:
            return None
        values = np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
        return values, np.asarray(pc.is_valid(column))

    def _bodies(self) -> Any:
        bodies = self._column("body").cast(pa.binary())
        if bodies.null_count:
            self._refuse_first(pc.is_null(bodies), "body", lambda _: "is null")
        held = sizes(bodies)
        least, size_max = not self._options.takes_empty_bodies, self._options.message_bytes_max
        self._refuse_first(
            (held < least) | (held > size_max),
            "body",
            lambda at: (
                f"has {held[at]} bytes; {least:d} to {size_max} may be sent (maxMessageBytes)"
            ),
        )
        bits = self._numbers("sysFlag")
        if bits is not None:
            self._refuse_first(
                bits[0] & INNER_BATCH != 0,
                "sysFlag",
                lambda _: "is of a batch that is one record; take its messages apart before",
            )
        return bodies

    def _flags(self) -> Ints:
        found = self._numbers("flag")
        if found is None:
            return np.zeros(self._rows.num_rows, np.int64)
        values = found[0]
        self._refuse_first(
            (values > _FLAG_MAX) | (values < -_FLAG_MAX - 1),
            "flag",
            lambda at: f"is {values[at]}, which has more than 32 bits",
        )
        return values

    def _topics(self) -> tuple[list[str], Ints]:
        """Return the topics, and of each row the number of its topic."""
        if self._options.target_topic:
            return [self._options.target_topic], np.zeros(self._rows.num_rows, np.int64)
        column = self._column("topic")
        if column.null_count:
            self._refuse_first(pc.is_null(column), "topic", lambda _: "is null")
        coded = column.dictionary_encode()
        topics = coded.dictionary.to_pylist()
        numbers = np.asarray(coded.indices).astype(np.int64)
        for number, topic in enumerate(topics):
            try:
                check_topic(topic)
            except InvalidMessage as error:
                self.refuse(int(np.argmax(numbers == number)), "topic", str(error))
        return topics, numbers

    def _delays(self) -> tuple[Any, Mask]:
        """Return the property of each row that delays it, null for none, and which have one."""
        count = self._rows.num_rows
        levels, times = self._numbers("delayLevel"), self._times()
        if levels is None and times is None:
            return None, np.zeros(count, np.bool_)
        pieces = []
        is_delayed = np.zeros(count, np.bool_)
        if levels is not None:
            values = levels[0]
            self._refuse_first(
                (values < 0) | (values > self._level_max),
                "delayLevel",
                lambda at: f"is {values[at]}; 0 to {self._level_max} are there",
            )
            is_delayed |= values > 0
            pieces.append(self._delay(names.DELAY, values, values > 0))
        if times is not None:
            values, given = times
            self._refuse_first(
                given & (values <= 0), "deliverAt", lambda at: f"is {values[at]} ms, before 1970"
            )
            self._refuse_first(given & is_delayed, "deliverAt", lambda _: "stands with delayLevel")
            is_delayed |= given
            pieces.append(self._delay(names.TIMER_DELIVER_MS, values, given))
        return pc.coalesce(*pieces), is_delayed

    def _times(self) -> tuple[Ints, Mask] | None:
        """Return when rows are to be delivered, in ms since 1970, and which have such a time."""
        column = self._column("deliverAt")
        if column is None:
            return None
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        values = np.asarray(pc.fill_null(column.cast(pa.int64()), 0)).astype(np.int64)
        return values, np.asarray(pc.is_valid(column))

    def _delay(self, name: str, values: Ints, given: Mask) -> Any:
        texts = pa.array(values, mask=~given).cast(pa.string()).cast(pa.binary())
        return joined(f"{name}\x01".encode(), texts, b"\x02")

    def _properties(self, waits: Any) -> tuple[Any, Any]:
        """Return the properties but for the unique key, and that key where rows have one."""
        count = self._rows.num_rows
        pieces = []
        for column, name in (("tags", names.TAGS), ("keys", names.KEYS)):
            values = self._text(column)
            if values is not None:
                pieces.append(joined(f"{name}\x01".encode(), values, b"\x02"))
        if waits is not None:
            pieces.append(waits)
        kept = None
        given = self._column("properties")
        if given is not None:
            own, kept = self._map(given)
            pieces.append(own)
        if not pieces:
            return pa.array([b""] * count, pa.binary()), kept
        empty = pa.scalar(b"", pa.binary())
        return joined(*(pc.fill_null(piece, empty) for piece in pieces)), kept

    def _map(self, given: Any) -> tuple[Any, Any]:
        """Return what maps say as properties, and their unique keys, null for none."""
        keys, values = given.keys.cast(pa.binary()), given.items.cast(pa.binary())
        owner = np.repeat(np.arange(len(given)), np.diff(np.asarray(given.offsets)))
        is_key = np.asarray(pc.fill_null(pc.equal(keys, names.UNIQ_KEY.encode()), fill_value=False))
        kept = np.full(len(given), -1, np.int64)
        kept[owner[is_key]] = np.flatnonzero(is_key)
        unique = values.take(pa.array(kept, mask=kept < 0))
        left_out = {*_OWN}
        left_out |= {names.TAGS} if "tags" in self._place else set()
        left_out |= {names.KEYS} if "keys" in self._place else set()
        refused = pa.array([name.encode() for name in sorted(left_out)], pa.binary())
        stays = ~np.asarray(pc.is_in(keys, value_set=refused))
        chosen = pa.array(np.flatnonzero(stays))
        keys, values, owner = keys.take(chosen), values.take(chosen), owner[stays]
        if self._options.drops_empty_properties:
            held = np.flatnonzero(sizes(values) > 0)
            chosen = pa.array(held)
            keys, values, owner = keys.take(chosen), values.take(chosen), owner[held]
        self._check_pairs(keys, values, owner)
        pairs = joined(keys, b"\x01", values, b"\x02")
        counts = np.bincount(owner, minlength=len(given))
        ends = np.concatenate([[0], np.cumsum(counts)])
        starts, data = stored(pairs)
        offsets = starts[ends].astype(np.int32)
        column = pa.Array.from_buffers(pa.binary(), len(given), [None, pa.py_buffer(offsets), data])
        return column, unique

    def _check_pairs(self, keys: Any, values: Any, owner: Ints) -> None:
        for column, refused, what in ((keys, (_ONE, _TWO), "name"), (values, (_TWO,), "value")):
            is_empty = np.asarray(pc.fill_null(pc.equal(pc.binary_length(column), 0), True))
            at = int(np.argmax(is_empty)) if is_empty.any() else first_with(column, refused)
            if at is not None:
                name = (keys[at].as_py() or b"").decode("utf-8", "replace")
                why = "is null or empty" if is_empty[at] else "holds a byte that ends it"
                if is_empty[at] and column is values:
                    why += ", which RocketMQ cannot carry; dropEmptyProperties leaves it out"
                self.refuse(int(owner[at]), "properties", f"the {what} of {name!r} {why}")

    def _unique_keys(self, bodies: Any, properties: Any, kept: Any) -> Any:
        """Return the unique key of each row; see `unique_keys`."""
        if self._key_at is not None:
            values = plain(self._rows.column(self._key_at))
            if values.null_count:
                column = self._options.key_column
                self._refuse_first(
                    pc.is_null(values), column, lambda _: "is null, and makes the unique key"
                )
            if not pa.types.is_binary(values.type):
                values = values.cast(pa.string())
            return unique_keys.of_values(self._options.app_id, values.cast(pa.binary()))
        own = self._text("msgId")
        if own is None:
            own = kept
        if own is not None and not own.null_count:
            return own
        made = unique_keys.numbered(self._writing, self._first_row, bodies, properties)
        return made if own is None else pc.coalesce(own, made)

    def _targets(self, topics: list[str], topic: Ints) -> tuple[list[Target], Ints]:
        """Return where rows go, and of each row the number of its target."""
        sharding, queue_ids = self._column("shardingKey"), self._numbers("queueId")
        for place, name in enumerate(topics):
            self._known(name, int(np.argmax(topic == place)))
        if sharding is None and queue_ids is None:
            return [Target(name, None) for name in topics], topic
        count = self._rows.num_rows
        parts = [topic]
        sharding_keys: list[str | None] = [None]
        if sharding is not None:
            coded = sharding.dictionary_encode()
            sharding_keys += coded.dictionary.to_pylist()
            parts.append(np.asarray(pc.fill_null(coded.indices, -1)).astype(np.int64) + 1)
        else:
            parts.append(np.zeros(count, np.int64))
        if queue_ids is not None:
            ids, given = queue_ids
            self._refuse_first(given & (ids < 0), "queueId", lambda at: f"is {ids[at]}")
            if sharding is not None:
                both = given & (parts[1] > 0)
                self._refuse_first(both, "queueId", lambda _: "stands with shardingKey; give one")
            parts.append(np.where(given, ids, -1))
        else:
            parts.append(np.full(count, -1, np.int64))
        brokers = self._column("brokerName") if queue_ids is not None else None
        broker_names: list[str | None] = [None]
        if brokers is not None:
            coded = brokers.dictionary_encode()
            broker_names += coded.dictionary.to_pylist()
            parts.append(np.asarray(pc.fill_null(coded.indices, -1)).astype(np.int64) + 1)
        else:
            parts.append(np.zeros(count, np.int64))
        kinds, first, number = np.unique(
            np.stack(parts, axis=1), axis=0, return_index=True, return_inverse=True
        )
        targets: list[Target] = []
        for (at, key, queue_id, broker), row in zip(kinds.tolist(), first.tolist(), strict=True):
            name = topics[at]
            queue = None
            sharding_key = sharding_keys[key]
            if sharding_key is not None:
                queue = queue_of_key(sharding_key, self._known(name, row))
            elif queue_id >= 0:
                queue = self._queue(name, queue_id, broker_names[broker], row)
            targets.append(Target(name, queue))
        return _merged(targets, number.reshape(-1).astype(np.int64))

    def _known(self, topic: str, row: int) -> Sequence[MessageQueue]:
        try:
            return self._queues(topic)
        except NoSuchTopic as error:
            self.refuse(row, "topic", str(error))

    def _queue(self, topic: str, queue_id: int, broker: str | None, row: int) -> MessageQueue:
        """Return the queue that a row names."""
        known = self._known(topic, row)
        named = [queue for queue in known if queue.queue_id == queue_id]
        own = [queue for queue in named if queue.broker_name == broker]
        found = own or named
        if not found:
            self.refuse(
                row,
                "queueId",
                f"is {queue_id}; topic {topic!r} has {len(known)} queues",
            )
        if len(found) > 1:
            brokers = ", ".join(queue.broker_name for queue in found)
            self.refuse(row, "queueId", f"{queue_id} is on {brokers}: give brokerName, too")
        return found[0]


def _merged(targets: list[Target], number: Ints) -> tuple[list[Target], Ints]:
    """Return targets without repeats: many keys share a queue."""
    places: dict[Target, int] = {}
    merged = np.array([places.setdefault(one, len(places)) for one in targets], np.int64)
    return list(places), merged[number]
