"""Tables of topics and groups as JSON: bodies on the wire, and the broker's own files.

The members of `TopicConfig` and `SubscriptionGroupConfig` are the same in both places, so they are
told here once. Source: the Java classes of these names, 5.3.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct, error
from typing import Any, TypeAlias

import msgspec

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.codes import MAPPING_SECTION_VERSION, VERSION
from sprocket.rocketmq.codec.config import fastjson, values
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.topic import SINGLE_TAG, TopicConfig

_INT32 = Struct(">i")
_encode = msgspec.json.Encoder(order="sorted").encode


SEQUENCE = "sprocketSequence"
"""Our member of a table's file: up to which line it covers the table's journal."""


def covered_by(content: Mapping[str, Any]) -> int | None:
    """Return up to which line a table's file covers the journal; None if the journal is void.

    RocketMQ passes over our member and does not write it: a journal is older than a file of its.
    """
    if not content:
        return 0
    covered = content.get(SEQUENCE)
    return covered if isinstance(covered, int) else None


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The version of a table that is kept in several places; it rises with each change.

    Attributes:
        counter: Changes since the table was made.
        timestamp: When it changed last, ms since 1970.
        state_version: The term of the writer, where there are terms.
    """

    counter: int
    timestamp: int
    state_version: int = 0

    @classmethod
    def new(cls, now_ms: int) -> "DataVersion":
        """Return the first version of a table."""
        return cls(counter=0, timestamp=now_ms)

    @classmethod
    def from_json(cls, value: Any, now_ms: int) -> "DataVersion":
        """Read a version; what is missing takes its default. Raises WireError."""
        members = values.mapping(value, "dataVersion")
        return cls(
            counter=values.member(members, "counter", 0),
            timestamp=values.member(members, "timestamp", now_ms),
            state_version=values.member(members, "stateVersion", 0),
        )

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version behind this one."""
        return DataVersion(self.counter + 1, now_ms, self.state_version)

    def to_json(self) -> dict[str, int]:
        """Return the members as files and NameServers have them."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerBody:
    """What a broker tells a NameServer of itself: its topics, and the version of their table."""

    version: DataVersion
    topics: Sequence[TopicConfig]
    filter_servers: Sequence[str] = ()


def topic_to_json(topic: TopicConfig) -> dict[str, Any]:
    """Return the members of a topic."""
    return {
        "attributes": dict(topic.attributes),
        "order": topic.order,
        "perm": topic.perm,
        "readQueueNums": topic.read_queues,
        "topicFilterType": topic.filter_type,
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }


def topic_from_json(name: str, value: Any) -> TopicConfig:
    """Read a topic. `name` is used if it does not say its own. Raises WireError."""
    members = values.mapping(value, f"topic {name}")
    attributes = values.mapping(members.get("attributes"), "attributes")
    return TopicConfig(
        name=values.text(members.get("topicName")) or name,
        read_queues=values.member(members, "readQueueNums", 16),
        write_queues=values.member(members, "writeQueueNums", 16),
        perm=values.member(members, "perm", 6),
        order=values.boolean(members.get("order"), default=False),
        filter_type=values.text(members.get("topicFilterType")) or SINGLE_TAG,
        sys_flag=values.member(members, "topicSysFlag", 0),
        attributes={values.text(key): values.text(text) for key, text in attributes.items()},
    )


TopicLine: TypeAlias = tuple[int, int, int, dict[str, dict[str, Any] | None]]
"""A line of the journal of topics: its sequence, counter and timestamp of the table's version, and
by name the members of topics that were changed, None of those that were removed."""

GroupLine: TypeAlias = tuple[
    int, int, int, dict[str, dict[str, Any] | None], dict[str, dict[str, int]]
]
"""A line of the journal of groups: as `TopicLine`, and by group and topic bits of what the group is
forbidden, complete for each group that is named."""


def topics_from_json(content: Mapping[str, Any]) -> dict[str, TopicConfig]:
    """Read the table of `topics.json` by name. Raises WireError."""
    found = values.mapping(content.get("topicConfigTable"), "topicConfigTable")
    return {str(name): topic_from_json(str(name), value) for name, value in found.items()}


def apply_topics(
    table: dict[str, TopicConfig], changed: Mapping[str, dict[str, Any] | None]
) -> None:
    """Change a table as a line of its journal says. Raises WireError."""
    for name, members in changed.items():
        if members is None:
            table.pop(name, None)
        else:
            table[name] = topic_from_json(name, members)


def encode_topic(topic: TopicConfig) -> bytes:
    """Write the answer of GET_TOPIC_CONFIG 351."""
    return _encode(topic_to_json(topic))


def decode_topic(data: bytes) -> TopicConfig:
    """Read the answer of GET_TOPIC_CONFIG 351. Raises WireError."""
    return topic_from_json("", fastjson.read(data))


def group_to_json(group: SubscriptionGroup) -> dict[str, Any]:
    """Return the members of a group."""
    members: dict[str, Any] = {
        "attributes": dict(group.attributes),
        "brokerId": group.broker_id,
        "consumeBroadcastEnable": group.consume_broadcast_enable,
        "consumeEnable": group.consume_enable,
        "consumeFromMinEnable": group.consume_from_min_enable,
        "consumeMessageOrderly": group.consume_message_orderly,
        "consumeTimeoutMinute": group.consume_timeout_minutes,
        "groupName": group.name,
        "groupRetryPolicy": dict(group.retry_policy),
        "groupSysFlag": group.sys_flag,
        "notifyConsumerIdsChangedEnable": group.notify_ids_changed_enable,
        "retryMaxTimes": group.retry_times_max,
        "retryQueueNums": group.retry_queues,
        "whichBrokerWhenConsumeSlowly": group.slow_broker_id,
    }
    if group.subscriptions is not None:
        members["subscriptionDataSet"] = [dict(one) for one in group.subscriptions]
    return members


def group_from_json(name: str, value: Any) -> SubscriptionGroup:
    """Read a group. `name` is used if it does not say its own. Raises WireError."""
    members = values.mapping(value, f"group {name}")
    new = SubscriptionGroup(name=name)
    attributes = values.mapping(members.get("attributes"), "attributes")
    policy = values.mapping(members.get("groupRetryPolicy"), "groupRetryPolicy")
    fixed = members.get("subscriptionDataSet")

    def flag(member: str, default: bool) -> bool:
        return values.boolean(members.get(member), default=default)

    return SubscriptionGroup(
        name=values.text(members.get("groupName")) or name,
        consume_enable=flag("consumeEnable", new.consume_enable),
        consume_from_min_enable=flag("consumeFromMinEnable", new.consume_from_min_enable),
        consume_broadcast_enable=flag("consumeBroadcastEnable", new.consume_broadcast_enable),
        consume_message_orderly=flag("consumeMessageOrderly", new.consume_message_orderly),
        retry_queues=values.member(members, "retryQueueNums", new.retry_queues),
        retry_times_max=values.member(members, "retryMaxTimes", new.retry_times_max),
        retry_policy={values.text(key): one for key, one in policy.items()} or new.retry_policy,
        broker_id=values.member(members, "brokerId", new.broker_id),
        slow_broker_id=values.member(members, "whichBrokerWhenConsumeSlowly", new.slow_broker_id),
        notify_ids_changed_enable=flag(
            "notifyConsumerIdsChangedEnable", new.notify_ids_changed_enable
        ),
        sys_flag=values.member(members, "groupSysFlag", new.sys_flag),
        consume_timeout_minutes=values.member(
            members, "consumeTimeoutMinute", new.consume_timeout_minutes
        ),
        subscriptions=None
        if fixed is None
        else tuple(
            values.mapping(one, "a subscription") for one in values.sequence(fixed, "subscriptions")
        ),
        attributes={values.text(key): values.text(text) for key, text in attributes.items()},
    )


def encode_register_broker(body: RegisterBrokerBody, *, compressed: bool = False) -> bytes:
    """Write the body of REGISTER_BROKER 103; compressed, it loses `order` and `sys_flag`."""
    if compressed:
        return compression.compress(Method.ZLIB, sections(body))
    return _encode(
        {
            "filterServerList": list(body.filter_servers),
            "topicConfigSerializeWrapper": {
                "dataVersion": body.version.to_json(),
                "mappingDataVersion": DataVersion.new(0).to_json(),
                "topicConfigTable": {topic.name: topic_to_json(topic) for topic in body.topics},
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            },
        }
    )


def decode_register_broker(
    data: bytes, *, compressed: bool = False, version: int = VERSION
) -> RegisterBrokerBody:
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
    body = values.mapping(fastjson.read(data), "a registration")
    wrapper = values.mapping(body.get("topicConfigSerializeWrapper"), "topicConfigSerializeWrapper")
    table = values.mapping(wrapper.get("topicConfigTable"), "topicConfigTable")
    servers = values.sequence(body.get("filterServerList"), "filterServerList")
    return RegisterBrokerBody(
        version=DataVersion.from_json(wrapper.get("dataVersion"), 0),
        topics=[topic_from_json(values.text(name), topic) for name, topic in table.items()],
        filter_servers=[values.text(server) for server in servers],
    )


def sections(body: RegisterBrokerBody) -> bytes:
    """Return the compressed form's content: each part an int32 size and its text."""
    parts = [_sized(_encode(body.version.to_json())), _INT32.pack(len(body.topics))]
    for topic in body.topics:
        attributes = _encode(dict(topic.attributes)).decode()
        line = (
            f"{topic.name} {topic.read_queues} {topic.write_queues} {topic.perm} "
            f"{topic.filter_type} {attributes}"
        )
        parts.append(_sized(line.encode()))
    parts.append(_sized(_encode(list(body.filter_servers))))
    parts.append(_INT32.pack(0))
    return b"".join(parts)


def _sized(text: bytes) -> bytes:
    return _INT32.pack(len(text)) + text


def _read_sections(data: bytes, version: int) -> RegisterBrokerBody:
    position = 0

    def number() -> int:
        nonlocal position
        try:
            (value,) = _INT32.unpack_from(data, position)
        except error as short:
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
