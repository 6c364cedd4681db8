"""Statistics of topics and groups."""

from sprocket.rocketmq.codec import admin_bodies
from sprocket.rocketmq.codec.admin_bodies import QueueStats, TopicStats
from sprocket.rocketmq.model.route import MessageQueue

QUEUES = [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]


def test_topic_stats_have_objects_as_keys() -> None:
    """What every released Java client expects."""
    stats = TopicStats(
        queues={
            queue: QueueStats(min_offset=1, max_offset=2, last_update_at_ms=3) for queue in QUEUES
        }
    )
    one = '{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":1}'
    assert admin_bodies.encode_topic_stats(stats).decode() == (
        f'{{"offsetTable":{{{{"brokerName":"b","queueId":0,"topic":"t"}}:{one},'
        f'{{"brokerName":"b","queueId":1,"topic":"t"}}:{one}}},"topicPutTps":0.0}}'
    )
