"""Topics and groups as JSON."""

from tests.unit.rocketmq.codec.given import TOPIC

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.config import DataVersion, declared, tables
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.topic import TopicConfig


def test_a_topic_has_the_members_of_topic_config() -> None:
    """Sorted by name, as fastjson writes a bean."""
    assert bodies.encode(TopicConfig(name="t", read_queues=4, write_queues=4)) == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":4,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4}'
    )


def test_a_topic_is_read_back() -> None:
    """With everything in it, and with nothing but the name it goes by."""
    assert bodies.decode(TopicConfig, bodies.encode(TOPIC)) == TOPIC
    assert tables.TOPICS.one("x", {}) == TopicConfig(name="x")


def test_a_group_is_read_back() -> None:
    """With everything in it, and with nothing but the name it goes by."""
    group = SubscriptionGroup(
        name="g",
        consume_enable=False,
        retry_queues=2,
        retry_times_max=3,
        retry_policy={"type": "EXPONENTIAL"},
        subscriptions=({"topic": "t"},),
        attributes={"a": "b"},
    )
    assert tables.GROUPS.one("other", declared.plain(group)) == group
    assert tables.GROUPS.one("x", {}) == SubscriptionGroup(name="x")
    assert "subscriptionDataSet" not in declared.plain(SubscriptionGroup(name="x"))


def test_versions_rise() -> None:
    """The counter by one; the term stays."""
    assert DataVersion.new(5) == DataVersion(0, 5, 0)
    assert DataVersion(1, 5, 2).next(9) == DataVersion(2, 9, 2)
    assert DataVersion.from_json(None, 7) == DataVersion(0, 7, 0)
    assert DataVersion.from_json({"counter": "4"}, 7) == DataVersion(4, 7, 0)
