"""RocketMQ's configuration in a RocksDB, `config/rdb`: read, never written.

A broker with `configManagerVersion=v2` keeps topics, groups and committed offsets there instead of
in JSON files. Keys, integers big-endian and signed:

    data version   i8 1 · i16 table · i8 1 · `data_version`
    topic, group   i8 1 · i16 table · i8 2 · name
    offset         i8 1 · i16 1 · i8 2 · name of the group · 01 · name of the topic · 01 · i32 queue
    name           i16 length · UTF-8

Values: a version is `i64 state version · i64 timestamp (ms) · i64 counter`; a topic or group is
`i8 1` and its JSON; an offset is an i64. Tables: 1 consumer offsets, 2 pull offsets, 3 topics,
4 groups. What we do not know is passed over.

Source: RocketMQ `ConfigStorage`, `ConfigHelper`, `TableId`, `RecordPrefix`.
"""

import struct
from collections.abc import Mapping

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, WireError
from sprocket.rocketmq.codec.config import DataVersion, JsonObject, declared, fastjson, tables
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import is_database, read_all

OFFSETS, TOPICS, GROUPS = 1, 3, 4
"""Numbers of the tables that we read."""

_NAMED: Mapping[int, tables.NamedTable[TopicConfig] | tables.NamedTable[SubscriptionGroup]] = {
    TOPICS: tables.TOPICS,
    GROUPS: tables.GROUPS,
}
_HEAD = struct.Struct(">bhb")
"""1, table, kind of record."""
_VERSION, _DATA = 1, 2
_JSON = 1
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_VERSION_VALUE = struct.Struct(">qqq")


def content(disk: Disk, layout: StoreLayout, table: int) -> JsonObject:
    """Return what the JSON file of a table would hold; empty without a database.

    The database is left as it is.

    Args:
        disk: Where it lies.
        layout: Its folder.
        table: `TOPICS`, `GROUPS` or `OFFSETS`.

    Raises:
        EngineMissing: There is one, but not the package that reads it.
        CorruptRecord: A record of the table is not one of those above.
    """
    found: JsonObject = {}
    offsets: dict[str, dict[int, int]] = {}
    named: JsonObject = {}
    is_there = is_database(disk, layout.config_database)
    for key, value in read_all(disk, layout.config_database).items() if is_there else ():
        try:
            one, number, kind = _HEAD.unpack_from(key)
            if (one, number) != (1, table):
                continue
            if kind == _VERSION:
                state, timestamp, counter = _VERSION_VALUE.unpack(value)
                found["dataVersion"] = declared.plain(DataVersion(counter, timestamp, state))
            elif kind == _DATA and table == OFFSETS:
                _take_offset(offsets, key, value)
            elif kind == _DATA:
                name, _ = _text(key, _HEAD.size)
                if value[:1] != bytes([_JSON]):
                    raise WireError(f"{name} is not kept as JSON")
                named[name] = declared.plain(_NAMED[table].one(name, fastjson.read(value[1:])))
        except (struct.error, WireError, UnicodeDecodeError) as error:
            raise CorruptRecord(
                f"{layout.config_database}: key {key.hex()} with value {value.hex()}: {error}"
            ) from error
    if offsets:
        found["offsetTable"] = offsets
    if named:
        found[_NAMED[table].member] = named
    return found


def _take_offset(offsets: dict[str, dict[int, int]], key: bytes, value: bytes) -> None:
    group, at = _text(key, _HEAD.size)
    topic, at = _text(key, at + 1)
    (queue_id,) = _I32.unpack_from(key, at + 1)
    (offset,) = _I64.unpack(value)
    offsets.setdefault(f"{topic}@{group}", {})[queue_id] = offset


def _text(key: bytes, at: int) -> tuple[str, int]:
    """Return a text with its length before it, and the position behind it."""
    (size,) = _I16.unpack_from(key, at)
    begin = at + _I16.size
    if not 0 <= size <= len(key) - begin:
        raise WireError(f"a text of {size} bytes at {at}")
    return key[begin : begin + size].decode(), begin + size
