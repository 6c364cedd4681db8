"""Bodies that administrators ask for: statistics of topics and groups.

Tables whose keys are queues are written with objects as keys, as every Java client expects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sprocket.rocketmq.codec import body_parts
from sprocket.rocketmq.model.route import MessageQueue


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


def encode_topic_stats(stats: TopicStats) -> bytes:
    """Write the answer of GET_TOPIC_STATS_INFO 202: a map whose keys are objects."""
    entries = (
        body_parts.encode(body_parts.message_queue_json(queue))
        + b":"
        + body_parts.encode(
            {
                "lastUpdateTimestamp": one.last_update_at_ms,
                "maxOffset": one.max_offset,
                "minOffset": one.min_offset,
            }
        )
        for queue, one in stats.queues.items()
    )
    return body_parts.encode(
        {"offsetTable": body_parts.raw_object(entries), "topicPutTps": stats.put_tps}
    )
