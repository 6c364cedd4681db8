"""Topics."""

from sprocket.rocketmq.model.topic import READ, WRITE, TopicConfig


def test_a_new_topic_has_rocketmqs_defaults() -> None:
    """16 queues each way, to be read and written."""
    topic = TopicConfig(name="t")
    assert (
        topic.read_queues,
        topic.write_queues,
        topic.perm,
        topic.order,
        topic.filter_type,
        topic.sys_flag,
        topic.attributes,
    ) == (16, 16, READ | WRITE, False, "SINGLE_TAG", 0, {})
