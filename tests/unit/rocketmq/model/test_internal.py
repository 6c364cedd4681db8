"""What is the system's own is told from what users made."""

from sprocket.rocketmq.model.internal import (
    clusters_among,
    is_internal_group,
    is_internal_topic,
    may_hold_replies,
)


def test_internal_topics_are_known_by_their_names() -> None:
    """By name, by prefix, and by the names of clusters and brokers; dead letters are the users'."""
    for name in ("TBW102", "SCHEDULE_TOPIC_XXXX", "%RETRY%kitchen", "rmq_sys_wheel_timer"):
        assert is_internal_topic(name), name
    for name in ("orders", "%DLQ%kitchen", "broker-a", "mine_REPLY_TOPIC"):
        assert not is_internal_topic(name), name
    owners = {"broker-a", "DefaultCluster"}
    for name in ("broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"):
        assert is_internal_topic(name, owners), name
    assert not is_internal_topic("mine_REPLY_TOPIC", owners)


def test_a_cluster_is_known_by_its_topics() -> None:
    """It has one of its own name, and one for replies; a user's topic is not taken for that."""
    names = ["orders", "c", "c_REPLY_TOPIC", "mine_REPLY_TOPIC"]
    assert clusters_among(names) == {"c"}
    assert [name for name in names if may_hold_replies(name)] == names[2:]


def test_internal_groups_are_those_every_broker_has() -> None:
    """Those that every broker has from the start."""
    assert is_internal_group("TOOLS_CONSUMER")
    assert is_internal_group("CID_RMQ_SYS_TRANS")
    assert not is_internal_group("kitchen")
