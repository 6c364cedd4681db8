"""Bodies that administrators ask for: topics, their queues, and the units of a queue.

How far groups are is in `progress_bodies`, who they are in `group_bodies`, rates in `stats_bodies`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.codec.config import DataVersion, tables, values
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """What GET_TOPIC_STATS_INFO 202 says of one queue; the time is 0 for an empty one."""

    min_offset: int
    max_offset: int
    last_update_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """The answer of GET_TOPIC_STATS_INFO 202."""

    queues: Mapping[MessageQueue, QueueStats] = field(default_factory=dict)
    put_tps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """The answer of GET_ALL_TOPIC_CONFIG 21."""

    version: DataVersion
    topics: Sequence[TopicConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfGroup:
    """The answer of QUERY_TOPICS_BY_CONSUMER 343."""

    broker_address: str
    topics: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnit:
    """One unit of a queue: what it says of a message, and whether that passes a filter."""

    physical_offset: int
    size: int
    tags_code: int
    passes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnits:
    """The answer of QUERY_CONSUME_QUEUE 321."""

    min_offset: int
    max_offset: int
    units: Sequence[QueueUnit] = ()
    subscription: Subscription | None = None
    """Of the group that was named."""
    filter_data: str | None = None
    """A text on how that group filters."""


def encode_topic_stats(stats: TopicStats) -> bytes:
    """Write the answer of GET_TOPIC_STATS_INFO 202: a map whose keys are objects."""
    table = {
        queue: {
            "lastUpdateTimestamp": one.last_update_at_ms,
            "maxOffset": one.max_offset,
            "minOffset": one.min_offset,
        }
        for queue, one in stats.queues.items()
    }
    return body_parts.encode(
        {"offsetTable": body_parts.queue_table_json(table), "topicPutTps": stats.put_tps}
    )


def decode_topic_stats(data: bytes) -> TopicStats:
    """Read the answer of GET_TOPIC_STATS_INFO 202. Raises WireError."""
    body = body_parts.read_answer(data, "topic stats")
    return TopicStats(
        queues={
            queue: QueueStats(
                min_offset=values.member(one, "minOffset", 0),
                max_offset=values.member(one, "maxOffset", 0),
                last_update_at_ms=values.member(one, "lastUpdateTimestamp", 0),
            )
            for queue, one in body_parts.queue_table(body.get("offsetTable"), "a queue").items()
        },
        put_tps=values.fraction(body.get("topicPutTps"), "topicPutTps"),
    )


def encode_topic_table(table: TopicTable) -> bytes:
    """Write the answer of GET_ALL_TOPIC_CONFIG 21."""
    return b"".join(topic_table_pieces(table))


def topic_table_pieces(table: TopicTable) -> Iterator[bytes]:
    """Write the answer of GET_ALL_TOPIC_CONFIG 21 in pieces, members in the order of names."""
    return body_parts.gathered(_topic_table(table))


def _topic_table(table: TopicTable) -> Iterator[bytes]:
    encode = body_parts.encode
    yield b'{"dataVersion":' + encode(table.version.to_json())
    yield b',"mappingDataVersion":' + encode(DataVersion.new(0).to_json())
    yield b',"topicConfigTable":{'
    mark = b""
    for one in sorted(table.topics, key=lambda one: one.name):
        yield mark + encode(one.name) + b":" + encode(tables.topic_to_json(one))
        mark = b","
    yield b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'


def decode_topic_table(data: bytes) -> TopicTable:
    """Read the answer of GET_ALL_TOPIC_CONFIG 21. Raises WireError."""
    body = body_parts.read_answer(data, "a table of topics")
    found = values.mapping(body.get("topicConfigTable"), "topicConfigTable")
    return TopicTable(
        version=DataVersion.from_json(body.get("dataVersion"), 0),
        topics=[tables.topic_from_json(values.text(name), one) for name, one in found.items()],
    )


def encode_topic_configs(topics: Iterable[TopicConfig]) -> bytes:
    """Write the body of UPDATE_AND_CREATE_TOPIC_LIST 18."""
    return body_parts.encode({"topicConfigList": [tables.topic_to_json(one) for one in topics]})


def decode_topic_configs(data: bytes) -> list[TopicConfig]:
    """Read the body of UPDATE_AND_CREATE_TOPIC_LIST 18. Raises WireError."""
    body = body_parts.read_object(data, "a list of topics")
    found = body_parts.required(body, "topicConfigList", "a list of topics")
    return [tables.topic_from_json("", one) for one in values.sequence(found, "topicConfigList")]


def encode_groups(groups: Iterable[str]) -> bytes:
    """Write the answer of QUERY_TOPIC_CONSUME_BY_WHO 300."""
    return body_parts.encode({"groupList": list(groups)})


def decode_groups(data: bytes) -> list[str]:
    """Read the answer of QUERY_TOPIC_CONSUME_BY_WHO 300. Raises WireError."""
    body = body_parts.read_answer(data, "a list of groups")
    return body_parts.texts(body.get("groupList"), "groupList")


def encode_topics_of_group(found: TopicsOfGroup) -> bytes:
    """Write the answer of QUERY_TOPICS_BY_CONSUMER 343."""
    return body_parts.encode({"brokerAddr": found.broker_address, "topicList": list(found.topics)})


def decode_topics_of_group(data: bytes) -> TopicsOfGroup:
    """Read the answer of QUERY_TOPICS_BY_CONSUMER 343. Raises WireError."""
    body = body_parts.read_answer(data, "the topics of a group")
    return TopicsOfGroup(
        broker_address=values.text(body.get("brokerAddr")),
        topics=body_parts.texts(body.get("topicList"), "topicList"),
    )


def encode_queue_units(found: QueueUnits) -> bytes:
    """Write the answer of QUERY_CONSUME_QUEUE 321."""
    body: dict[str, Any] = {
        "maxQueueIndex": found.max_offset,
        "minQueueIndex": found.min_offset,
        "queueData": [
            {
                "eval": one.passes,
                "physicOffset": one.physical_offset,
                "physicSize": one.size,
                "tagsCode": one.tags_code,
            }
            for one in found.units
        ],
    }
    if found.filter_data is not None:
        body["filterData"] = found.filter_data
    if found.subscription is not None:
        body["subscriptionData"] = body_parts.subscription_json(found.subscription)
    return body_parts.encode(body)


def decode_queue_units(data: bytes) -> QueueUnits:
    """Read the answer of QUERY_CONSUME_QUEUE 321. Raises WireError."""
    body = body_parts.read_answer(data, "units of a queue")
    units = [
        values.mapping(one, "a unit") for one in values.sequence(body.get("queueData"), "queueData")
    ]
    subscription, filter_data = body.get("subscriptionData"), body.get("filterData")
    return QueueUnits(
        min_offset=values.member(body, "minQueueIndex", 0),
        max_offset=values.member(body, "maxQueueIndex", 0),
        units=[
            QueueUnit(
                physical_offset=values.member(one, "physicOffset", 0),
                size=values.member(one, "physicSize", 0),
                tags_code=values.member(one, "tagsCode", 0),
                passes=values.boolean(one.get("eval"), default=False),
            )
            for one in units
        ],
        subscription=None
        if subscription is None
        else body_parts.subscription(values.mapping(subscription, "subscriptionData")),
        filter_data=None if filter_data is None else values.text(filter_data),
    )
