"""What is asked for by name and is not there is an error that names the nearest, everywhere."""

from collections.abc import Callable
from typing import Any

import pytest

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import Message, MessageQueue, blocking
from sprocket.rocketmq.errors import NoRoute, NoSuchGroup, NoSuchTopic
from sprocket.testing.local_broker import LocalBroker

Call = Callable[[blocking.Admin], Any]
LOST = MessageQueue("order", "broker-a", 0)

TOPIC_CALLS: list[Call] = [
    lambda admin: admin.route("order"),
    lambda admin: admin.queues("order"),
    lambda admin: admin.topic.delete("order"),
    lambda admin: admin.topic.set_permission("order", 4),
    lambda admin: admin.topic.config("order"),
    lambda admin: admin.topic.stats("order"),
    lambda admin: admin.topic.groups("order"),
    lambda admin: admin.offset.max(LOST),
    lambda admin: admin.offset.min(LOST),
    lambda admin: admin.offset.by_time(LOST, 0),
    lambda admin: admin.offset.earliest_at_ms(LOST),
    lambda admin: admin.offset.committed("kitchen", LOST),
    lambda admin: admin.offset.commit("kitchen", LOST, 0),
    lambda admin: admin.query_by_key("order", "k"),
    lambda admin: admin.view("7F00000116CFD27707566BD36F480000", "order"),
    lambda admin: admin.group.progress("kitchen", "order"),
    lambda admin: admin.group.reset_offsets("kitchen", "order", "first"),
    lambda admin: admin.group.clone_offsets("kitchen", "bar", "order"),
]
GROUP_CALLS: list[Call] = [
    lambda admin: admin.group.get("kitchn"),
    lambda admin: admin.group.delete("kitchn"),
    lambda admin: admin.group.topics("kitchn"),
    lambda admin: admin.group.progress("kitchn"),
    lambda admin: admin.group.progress("kitchn", "orders"),
    lambda admin: admin.group.consumers("kitchn"),
    lambda admin: admin.group.reset_offsets("kitchn", "orders", "first"),
    lambda admin: admin.group.clone_offsets("kitchn", "bar"),
]
BROKER_CALLS: list[Call] = [
    lambda admin: admin.broker.status("broker-b"),
    lambda admin: admin.broker.config("broker-b"),
    lambda admin: admin.broker.producers("broker-b"),
    lambda admin: admin.topic.configs("broker-b"),
    lambda admin: admin.topic.create("t", broker="broker-b"),
    lambda admin: admin.group.create("g", broker="broker-b"),
    lambda admin: admin.nameserver.wipe_write_permission("broker-b"),
]
CLUSTER_CALLS: list[Call] = [
    lambda admin: admin.topic.names(cluster="DefaultCluste"),
    lambda admin: admin.topic.create("t", cluster="DefaultCluste"),
    lambda admin: admin.topic.delete("orders", cluster="DefaultCluste"),
    lambda admin: admin.group.delete("kitchen", cluster="DefaultCluste"),
]


@pytest.mark.parametrize(
    ("calls", "kind", "meant"),
    [
        (TOPIC_CALLS, NoSuchTopic, "did you mean orders"),
        (GROUP_CALLS, NoSuchGroup, "did you mean kitchen"),
        (BROKER_CALLS, NoRoute, "did you mean broker-a"),
        (CLUSTER_CALLS, NoRoute, "did you mean DefaultCluster"),
    ],
)
def test_every_call_by_name(calls: list[Call], kind: type[ClientError], meant: str) -> None:
    """Topics, groups, brokers and clusters; nothing is made or deleted by the way."""
    with LocalBroker() as broker, blocking.Admin(broker.nameserver) as admin:
        admin.create_topic("orders", queues=1)
        admin.group.create("kitchen")
        before = admin.topics(), admin.group.names()
        for number, call in enumerate(calls):
            with pytest.raises(kind, match=meant):
                print(number, call(admin))
        assert (admin.topics(), admin.group.names()) == before


def test_what_is_there_and_empty_is_no_error() -> None:
    """A group without members and offsets, a topic without messages and groups."""
    with LocalBroker() as broker, blocking.Admin(broker.nameserver) as admin:
        admin.create_topic("orders", queues=1)
        admin.group.create("kitchen")
        assert admin.group.progress("kitchen").queues == {}
        assert admin.group.progress("kitchen", "orders").lag == 0
        assert admin.group.consumers("kitchen") is None
        assert admin.group.topics("kitchen") == []
        assert admin.topic.groups("orders") == []
        assert admin.query_by_key("orders", "k") == []


def test_a_group_that_has_only_committed_is_there() -> None:
    """Nobody set it up: its offsets were cloned from another's."""
    with LocalBroker() as broker, blocking.Admin(broker.nameserver) as admin:
        admin.create_topic("orders", queues=1)
        with blocking.Producer(broker.nameserver, group="p") as producer:
            producer.send(Message("orders", b"x"))
        admin.group.create("kitchen")
        admin.offset.commit("kitchen", MessageQueue("orders", "broker-a", 0), 1)
        admin.group.clone_offsets("kitchen", "bar")
        assert "bar" not in admin.group.names()
        assert admin.group.topics("bar") == ["orders"]
        assert admin.group.progress("bar").lag == 0


def test_a_producer_group_of_which_nobody_is_connected() -> None:
    """It is not there; the nearest that is, is named."""
    with LocalBroker() as broker, blocking.Admin(broker.nameserver) as admin:
        admin.create_topic("orders", queues=1)
        with blocking.Producer(broker.nameserver, group="cooks") as producer:
            producer.send(Message("orders", b"x"))
            assert [one.language for one in admin.group.producers("cooks")]
            with pytest.raises(NoSuchGroup, match="did you mean cooks"):
                admin.group.producers("cook")


def test_a_puller_names_the_nearest_topic() -> None:
    """When it has given up."""
    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("orders", queues=1)
        with (
            blocking.Puller(broker.nameserver, patience_ms=0) as puller,
            pytest.raises(NoSuchTopic, match="did you mean orders"),
        ):
            puller.queues("order")
