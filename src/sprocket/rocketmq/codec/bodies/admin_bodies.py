"""Bodies that administrators ask for: topics, their queues, and the units of a queue.

How far groups are is in `progress_bodies`, who they are in `group_bodies`, rates in `stats_bodies`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from msgspec import Struct, field

from sprocket.rocketmq.codec.bodies.body_parts import SUBSCRIPTION
from sprocket.rocketmq.codec.config import REQUIRED
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig


class QueueStats(Struct, frozen=True, kw_only=True, rename="camel"):
    """What GET_TOPIC_STATS_INFO 202 says of one queue; the time is 0 for an empty one."""

    min_offset: int
    max_offset: int
    last_update_at_ms: int = field(name="lastUpdateTimestamp")


class TopicStats(Struct, frozen=True, kw_only=True):
    """The answer of GET_TOPIC_STATS_INFO 202."""

    queues: Mapping[MessageQueue, QueueStats] = field(name="offsetTable", default_factory=dict)
    put_tps: float = field(name="topicPutTps", default=0.0)


class TopicConfigs(Struct, frozen=True):
    """The body of UPDATE_AND_CREATE_TOPIC_LIST 18."""

    what: ClassVar = "a list of topics"
    topics: Annotated[Sequence[TopicConfig], REQUIRED] = field(name="topicConfigList")


class GroupNames(Struct, frozen=True):
    """The answer of QUERY_TOPIC_CONSUME_BY_WHO 300."""

    groups: Sequence[str] = field(name="groupList")


class QueueUnit(Struct, frozen=True, kw_only=True):
    """One unit of a queue: what it says of a message, and whether that passes a filter."""

    physical_offset: int = field(name="physicOffset")
    size: int = field(name="physicSize")
    tags_code: int = field(name="tagsCode")
    passes: bool = field(name="eval", default=False)


class QueueUnits(Struct, frozen=True, kw_only=True):
    """The answer of QUERY_CONSUME_QUEUE 321."""

    min_offset: int = field(name="minQueueIndex")
    max_offset: int = field(name="maxQueueIndex")
    units: Sequence[QueueUnit] = field(name="queueData", default=())
    subscription: Annotated[Subscription | None, SUBSCRIPTION] = field(
        name="subscriptionData", default=None
    )
    """Of the group that was named."""
    filter_data: str | None = field(name="filterData", default=None)
    """A text on how that group filters."""
