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

from msgspec import Struct, field

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, WireError
from sprocket.rocketmq.codec.config import (
    DataVersion,
    JsonObject,
    JsonValue,
    declared,
    fastjson,
    tables,
)
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import is_database, read_all

OFFSETS, TOPICS, GROUPS = 1, 3, 4
"""Numbers of the tables that we read."""

_HEAD = struct.Struct(">bhb")
"""1, table, kind of record."""
_VERSION, _DATA = 1, 2
_JSON = 1
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_VERSION_VALUE = struct.Struct(">qqq")


class ConfigTables(Struct):
    """What the database holds.

    Attributes:
        topics: By name.
        groups: By name.
        offsets: By `topic@group` and queue: the next message the group wants.
        versions: Of the tables `TOPICS`, `GROUPS` and `OFFSETS`.
    """

    topics: dict[str, TopicConfig] = field(default_factory=dict)
    groups: dict[str, SubscriptionGroup] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    versions: dict[int, DataVersion] = field(default_factory=dict)


def read(disk: Disk, layout: StoreLayout) -> ConfigTables:
    """Read the whole database, which is left as it is; a missing one is empty.

    Raises:
        EngineMissing: There is one, but not the package that reads it.
        CorruptRecord: A record is none of those above.
    """
    found = ConfigTables()
    if is_database(disk, layout.config_database):
        for key, value in read_all(disk, layout.config_database).items():
            try:
                _take(found, key, value)
            except (struct.error, WireError, UnicodeDecodeError) as error:
                raise CorruptRecord(
                    f"{layout.config_database}: key {key.hex()} with value {value.hex()}: {error}"
                ) from error
    return found


def topics_json(disk: Disk, layout: StoreLayout) -> JsonObject:
    """Return what `topics.json` would hold; empty without a database."""
    found = read(disk, layout)
    entries = {name: declared.plain(topic) for name, topic in found.topics.items()}
    return _json(found, TOPICS, topicConfigTable=entries)


def groups_json(disk: Disk, layout: StoreLayout) -> JsonObject:
    """Return what `subscriptionGroup.json` would hold; empty without a database."""
    found = read(disk, layout)
    entries = {name: declared.plain(group) for name, group in found.groups.items()}
    return _json(found, GROUPS, subscriptionGroupTable=entries)


def offsets_json(disk: Disk, layout: StoreLayout) -> JsonObject:
    """Return what `consumerOffset.json` would hold; empty without a database."""
    found = read(disk, layout)
    return _json(found, OFFSETS, offsetTable=found.offsets)


def _json(found: ConfigTables, table: int, **members: JsonValue) -> JsonObject:
    version = found.versions.get(table)
    if version is None:
        return {name: value for name, value in members.items() if value}
    return {"dataVersion": declared.plain(version), **members}


def _take(found: ConfigTables, key: bytes, value: bytes) -> None:
    """Take in one record.

    Raises:
        struct.error, WireError, UnicodeDecodeError: It is not what its key says.
    """
    one, table, kind = _HEAD.unpack_from(key)
    if one != 1 or table not in (OFFSETS, TOPICS, GROUPS) or kind not in (_VERSION, _DATA):
        return
    if kind == _VERSION:
        state, timestamp, counter = _VERSION_VALUE.unpack(value)
        found.versions[table] = DataVersion(counter, timestamp, state)
        return
    name, at = _text(key, _HEAD.size)
    if table == OFFSETS:
        topic, at = _text(key, at + 1)
        (queue_id,) = _I32.unpack_from(key, at + 1)
        (offset,) = _I64.unpack(value)
        found.offsets.setdefault(f"{topic}@{name}", {})[queue_id] = offset
    elif value[:1] != bytes([_JSON]):
        raise WireError(f"{name} is not kept as JSON")
    elif table == TOPICS:
        found.topics[name] = tables.topic_from_json(name, fastjson.read(value[1:]))
    else:
        found.groups[name] = tables.group_from_json(name, fastjson.read(value[1:]))


def _text(key: bytes, at: int) -> tuple[str, int]:
    """Return a text with its length before it, and the position behind it."""
    (size,) = _I16.unpack_from(key, at)
    begin = at + _I16.size
    if not 0 <= size <= len(key) - begin:
        raise WireError(f"a text of {size} bytes at {at}")
    return key[begin : begin + size].decode(), begin + size
