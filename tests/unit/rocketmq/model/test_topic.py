"""Topics."""

import pytest

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


@pytest.mark.parametrize(
    ("text", "hours"), [("72", 72), ("+5", 5), ("0", 0), ("-1", 0), ("x", 0), ("", 0), ("1_0", 0)]
)
def test_hours_to_keep_are_read_from_whatever_the_attribute_says(text: str, hours: int) -> None:
    """A table that RocketMQ wrote may say anything."""
    assert TopicConfig(name="T", attributes={"reserve.time": text}).reserve_hours == hours
    assert TopicConfig(name="T").reserve_hours == 0
