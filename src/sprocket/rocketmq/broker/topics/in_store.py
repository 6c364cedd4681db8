"""The topics that a store has messages of, as far as its queues tell what they are like."""

from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.model.topic import (
    BATCH_QUEUES,
    CLEANUP_POLICY,
    COMPACTION,
    QUEUE_TYPE,
    TopicConfig,
)
from sprocket.rocketmq.store.store import Store


def topics_in(store: Store) -> list[TopicConfig]:
    """Return the topics that have queues, as far as these tell what topics are like."""
    counts: dict[str, int] = {}
    for topic, queue_id, _ in store.queues():
        if not topic.startswith(LIGHT_PREFIX) and topic not in store.deletions.pending:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    return [
        TopicConfig(
            name=topic,
            read_queues=count,
            write_queues=count,
            attributes=_attributes(store, topic),
        )
        for topic, count in counts.items()
    ]


def _attributes(store: Store, topic: str) -> dict[str, str]:
    found = {}
    if topic in store.batch_topics:
        found[QUEUE_TYPE] = BATCH_QUEUES
    if topic in store.compacted_topics:
        found[CLEANUP_POLICY] = COMPACTION
    return found
