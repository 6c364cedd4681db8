"""The body of REGISTER_BROKER 103, what a broker tells a NameServer of itself, in both forms."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.codes import MAPPING_SECTION_VERSION, VERSION
from sprocket.rocketmq.codec.config import DataVersion, TopicTable, declared, fastjson, values
from sprocket.rocketmq.model.topic import TopicConfig

_INT32 = struct.Struct(">i")


class RegisterBrokerBody(Struct, frozen=True, kw_only=True):
    """What a broker tells a NameServer of itself: its topics, and the version of their table."""

    version: DataVersion
    topics: Sequence[TopicConfig]
    filter_servers: Sequence[str] = ()


class _Registration(Struct, frozen=True):
    """The body of REGISTER_BROKER 103 that is not compressed."""

    table: TopicTable = field(name="topicConfigSerializeWrapper")
    filter_servers: Sequence[str] = field(name="filterServerList")


def encode(body: RegisterBrokerBody) -> bytes:
    """Write the body of REGISTER_BROKER 103."""
    table = TopicTable(version=body.version, topics=body.topics)
    return declared.encode(_Registration(table, body.filter_servers))


def decode(data: bytes, *, compressed: bool = False, version: int = VERSION) -> RegisterBrokerBody:
    """Read the body of REGISTER_BROKER 103.

    Args:
        data: The body; an empty one has no topics.
        compressed: As the request's header says.
        version: Of the broker, as the request's header says: from 413 on, the compressed form ends
            with static topic mappings, which are not looked at.

    Raises:
        WireError: The body cannot be read.
    """
    if not data:
        return RegisterBrokerBody(version=DataVersion.new(0), topics=[])
    if compressed:
        return _read_sections(compression.decompress(Method.ZLIB, data), version)
    body = declared.read(_Registration, fastjson.read(data), "a registration")
    return RegisterBrokerBody(
        version=body.table.version,
        topics=body.table.topics,
        filter_servers=body.filter_servers,
    )


def _read_sections(data: bytes, version: int) -> RegisterBrokerBody:
    """Read the compressed form's content: each part an int32 size and its text."""
    position = 0

    def number() -> int:
        nonlocal position
        try:
            (value,) = _INT32.unpack_from(data, position)
        except struct.error as short:
            raise WireError(f"a registration of {len(data)} bytes ends early") from short
        position += _INT32.size
        if value < 0:
            raise WireError(f"a registration with a size of {value}")
        return int(value)

    def text() -> bytes:
        nonlocal position
        size = number()
        if size > len(data) - position:
            raise WireError(f"a registration's part of {size} bytes, {len(data) - position} left")
        position += size
        return data[position - size : position]

    data_version = DataVersion.from_json(fastjson.read(text()), 0)
    topics = [_topic_line(text()) for _ in range(number())]
    servers = values.sequence(fastjson.read(text()), "filterServerList")
    if version >= MAPPING_SECTION_VERSION:
        for _ in range(number()):
            text()
    return RegisterBrokerBody(
        version=data_version, topics=topics, filter_servers=[values.text(one) for one in servers]
    )


def _topic_line(line: bytes) -> TopicConfig:
    """Read `name read write perm filterType attributes`, the last of which may be missing."""
    fields = line.decode("utf-8", "replace").split(" ", 5)
    if len(fields) < 5:
        raise WireError(f"a registration's topic with {len(fields)} fields, expected 5 or 6")
    attributes: Mapping[Any, Any] = {}
    if len(fields) == 6 and fields[5]:
        attributes = values.mapping(fastjson.read(fields[5].encode()), "attributes")
    return TopicConfig(
        name=fields[0],
        read_queues=values.integer(fields[1], "readQueueNums"),
        write_queues=values.integer(fields[2], "writeQueueNums"),
        perm=values.integer(fields[3], "perm"),
        filter_type=fields[4],
        attributes={values.text(key): values.text(value) for key, value in attributes.items()},
    )
