"""Columns: what a row of the source has, and how each column is made from many records at once."""

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.rocketmq.codec.columns import Ints, Mask, Records, are_same, gather
from sprocket.rocketmq.codec.record import ids, properties
from sprocket.rocketmq.codec.record_layout import (
    BORN_HOST_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    PHYSICAL_OFFSET_AT,
)
from sprocket.rocketmq.model.internal import HALF_TOPIC
from sprocket.rocketmq.model.message import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_MASK
from sprocket.spark.arrow import cut, numbers, of_width, repeated
from sprocket.spark.filters import ROW_COUNT
from sprocket.spark.map_json import as_json
from sprocket.spark.rocketmq.rows.decode import in_hex, topics
from sprocket.spark.rocketmq.rows.properties import Properties

_TIMESTAMP = pa.timestamp("us", "UTC")
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which is what Spark and Python can show."""
_TRANSACTIONS = ["none", "prepared", "commit", "rollback"]
"""By bits 2 and 3 of the system flag; those of a half message are 0, and its topic says it."""
_PREPARED = _TRANSACTIONS.index("prepared")


class RecordRows:
    """Some records, and the parts of them that several columns share.

    Args:
        records: The records.
        broker_name: Whose they are; empty if that is not known.
        bodies: Their bodies, where these are not the stored ones.
        corruption: What is wrong with a record, by its number.
    """

    def __init__(
        self,
        records: Records,
        broker_name: str = "",
        bodies: Any = None,
        corruption: dict[int, str] | None = None,
    ) -> None:
        self.records = records
        self.broker_name = broker_name
        self.corruption = corruption or {}
        self._bodies = bodies

    @cached_property
    def properties(self) -> Properties:
        """The properties of all records."""
        start, end = self.records.properties_start, self.records.end
        return Properties(cut(self.records.data, start, end))

    @property
    def bodies(self) -> Any:
        """The bodies as an application gets them, or as stored if that was wanted."""
        if self._bodies is not None:
            return self._bodies
        return cut(self.records.data, self.records.body_start, self.records.body_end)

    @cached_property
    def offset_ids(self) -> Any:
        """The offset message ids."""
        records = self.records
        host, place = records.store_host_start, records.start + PHYSICAL_OFFSET_AT
        return self._by_width(
            STORE_HOST_V6,
            lambda size, chosen: _offset_ids(records.data, size, host[chosen], place[chosen]),
        )

    def hosts(self, start: Ints, flag: int) -> Any:
        """Return the addresses at `start` as `ip:port`; `flag` marks the IPv6 ones."""
        return self._by_width(
            flag, lambda size, chosen: _hosts(self.records.data, size, start[chosen])
        )

    def _by_width(self, flag: int, make: Callable[[int, Mask | slice], Any]) -> Any:
        """Return what `make` gives for the hosts of either width, in the order of the records.

        Args:
            flag: Marks the IPv6 ones.
            make: Gets the bytes of a host, and which records have one of this many.
        """
        wide = self.records.is_wide(flag)
        if not wide.any():
            return make(HOST_V4_BYTES, slice(None))
        narrow = make(HOST_V4_BYTES, ~wide)
        both = pa.concat_arrays([narrow, make(HOST_V6_BYTES, wide)])
        order = np.where(wide, len(narrow) + np.cumsum(wide) - 1, np.cumsum(~wide) - 1)
        return both.take(numbers(order, pa.int64()))

    def message_ids(self) -> Any:
        """Return what users know the messages by: the producer's unique key, else the offset id."""
        unique = self.properties.value(properties.UNIQ_KEY)
        return pc.coalesce(unique, self.offset_ids) if unique.null_count else unique

    def broker_names(self) -> Any:
        """Return the broker's name for each record, null if it is not known."""
        count = len(self.records)
        known = self.broker_name
        return repeated(known, count) if known else pa.nulls(count, pa.string())

    def corruption_texts(self) -> Any:
        """Return what is wrong with each record, null for nothing."""
        if not self.corruption:
            return pa.nulls(len(self.records), pa.string())
        texts = [self.corruption.get(number) for number in range(len(self.records))]
        return pa.array(texts, pa.string())


@dataclasses.dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source.

    Args:
        kind: Spark's name of its type.
        make: Makes it from rows.
        note: What it says, for the guide.
    """

    kind: str
    make: Callable[[RecordRows], Any]
    note: str


def _number(kind: str, name: str, note: str) -> SourceColumn:
    """Return a column that is a field of the records' header."""
    stored = {"int": pa.int32(), "bigint": pa.int64()}[kind]
    return SourceColumn(kind, lambda rows: numbers(rows.records.number(name), stored), note)


COLUMNS: dict[str, SourceColumn] = {
    "topic": SourceColumn("string", lambda rows: topics(rows.records), "topic of the message"),
    "queueId": _number("int", "queue_id", "queue within the topic"),
    "queueOffset": _number("bigint", "queue_offset", "place within the queue, from 0"),
    "body": SourceColumn("binary", lambda rows: rows.bodies, "unpacked, unless `decompress=false`"),
    "tags": SourceColumn(
        "string", lambda rows: rows.properties.value(properties.TAGS), "the tag; null for none"
    ),
    "keys": SourceColumn(
        "string",
        lambda rows: rows.properties.value(properties.KEYS),
        "keys, blanks between; null for none",
    ),
    "properties": SourceColumn(
        "map<string,string>", lambda rows: rows.properties.map(), "all properties, system's too"
    ),
    "msgId": SourceColumn(
        "string", RecordRows.message_ids, "the producer's unique key; without one the offset id"
    ),
    "bornTimestamp": SourceColumn(
        "timestamp", lambda rows: _times(rows.records.number("born_at_ms")), "producer's clock"
    ),
    "storeTimestamp": SourceColumn(
        "timestamp", lambda rows: _times(rows.records.stored_at_ms), "broker's clock"
    ),
    "brokerName": SourceColumn(
        "string",
        RecordRows.broker_names,
        "null when a directory is read",
    ),
    "bornHost": SourceColumn(
        "string",
        lambda rows: rows.hosts(rows.records.start + BORN_HOST_AT, BORN_HOST_V6),
        "producer, `ip:port`",
    ),
    "storeHost": SourceColumn(
        "string",
        lambda rows: rows.hosts(rows.records.store_host_start, STORE_HOST_V6),
        "broker, `ip:port`",
    ),
    "flag": _number("int", "flag", "the producer's own 32 bits"),
    "sysFlag": _number("int", "sys_flag", "bits: packed body, transaction, IPv6, batch"),
    "bodyCRC": _number("int", "body_crc", "of the stored body, 31 bits"),
    "reconsumeTimes": _number("int", "reconsume_times", "deliveries before this one"),
    "preparedTransactionOffset": _number(
        "bigint",
        "prepared_transaction_offset",
        "physical offset of a committed transaction's half message",
    ),
    "transactionState": SourceColumn(
        "string",
        lambda rows: _transactions(rows.records),
        "`none`, `prepared` (a half message), `commit` or `rollback`",
    ),
    "physicalOffset": _number("bigint", "physical_offset", "bytes from the log's beginning"),
    "size": _number("int", "size", "bytes of the whole record"),
    "offsetMsgId": SourceColumn(
        "string", lambda rows: rows.offset_ids, "store host and physical offset in hex"
    ),
    "deliverAt": SourceColumn(
        "timestamp",
        lambda rows: _times(_whole(rows.properties.value(properties.TIMER_OUT_MS))),
        "when a timed message is due, or was, by the broker's clock; null for others",
    ),
    "record": SourceColumn(
        "binary",
        lambda rows: cut(rows.records.data, rows.records.start, rows.records.end),
        "the record's bytes as stored",
    ),
    "corruption": SourceColumn(
        "string", RecordRows.corruption_texts, "what is damaged here; null for sound records"
    ),
    ROW_COUNT: SourceColumn(
        "int",
        lambda rows: numbers(np.ones(len(rows.records), np.int32), pa.int32()),
        "how many messages this row stands for: where it is asked for, those of a batch that are"
        " alike in all other columns are one row",
    ),
}

PROPERTIES_JSON = SourceColumn(
    "string", lambda rows: as_json(rows.properties.map()), "with `propertiesFormat=json`"
)
"""The column `properties` as the connector of Spark 2 had it."""

BODIES = frozenset({"body", "record"})
"""Columns for which the body of a record must be there."""
RAW = ("physicalOffset", "size", "record")
_ASKED_FOR = ("deliverAt", "record", "corruption", ROW_COUNT)
"""Columns that no view has."""
FULL = tuple(name for name in COLUMNS if name not in _ASKED_FOR)
FROM_PROPERTIES = frozenset({"properties", "tags", "keys", "msgId", "deliverAt"})
"""Columns that are made of the properties of a record."""
META = tuple(name for name in FULL if name not in ("body", *FROM_PROPERTIES))
VIEWS = {"full": FULL, "meta": META, "raw": RAW}
"""Columns by `view`: everything, what costs little, or the stored bytes."""


def _transactions(records: Records) -> Any:
    """Return what each record is of a transaction."""
    states = (records.number("sys_flag") & TRANSACTION_MASK) >> 2
    if HALF_TOPIC in records.topic_names:
        is_half = records.topic_number == records.topic_names.index(HALF_TOPIC)
        states = np.where(is_half, _PREPARED, states)
    if not states.any():
        return repeated(_TRANSACTIONS[0], len(states))
    return pa.array(_TRANSACTIONS).take(numbers(states, pa.int32()))


def _whole(texts: Any) -> Ints:
    """Return what texts say in decimal, the lowest number for those that say none."""
    is_number = pc.match_substring_regex(texts, r"^[0-9]{1,18}$")
    values = pc.if_else(is_number, texts, None).cast(pa.int64())
    found: Ints = np.asarray(pc.fill_null(values, -1 << 63))
    return found


def _times(at_ms: Ints) -> Any:
    """Return milliseconds since 1970 as timestamps, null where Spark could not show the year."""
    odd = (at_ms < FIRST_MS) | (at_ms > LAST_MS)
    if odd.any():
        return numbers(np.where(odd, 0, at_ms) * 1000, _TIMESTAMP, is_known=~odd)
    return numbers(at_ms * 1000, _TIMESTAMP)


def _hosts(data: Any, size: int, start: Ints) -> Any:
    """Return the addresses of `size` bytes as text; each distinct one is written out once."""
    hosts = gather(data, f"V{size}", start)
    if len(hosts) and are_same(hosts):
        return repeated(ids.host_text(bytes(hosts[0])), len(hosts))
    stored = pa.Array.from_buffers(
        pa.binary(size), len(start), [None, pa.py_buffer(hosts.tobytes())]
    )
    coded = stored.dictionary_encode()
    texts = [ids.host_text(host) for host in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


def _offset_ids(data: Any, host_size: int, host: Ints, place: Ints) -> Any:
    """Return host and physical offset in hex; `host` and `place` say where they lie."""
    words = [gather(data, ">u4", host + at) for at in range(0, host_size, 4)]
    words += [gather(data, ">u4", place + at) for at in (0, 4)]
    return of_width(in_hex(words), 8 * len(words), len(host))
