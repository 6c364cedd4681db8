"""What a NameServer answers from its tables."""

from typing import Any

import pytest
from msgspec import structs
from tests.unit.rocketmq.nameserver.test_routes import FakeLink

from sprocket.rocketmq import live_settings
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.route import BrokerData, QueueData
from sprocket.rocketmq.nameserver import KeyValues, Lookup, RouteTables
from sprocket.rocketmq.nameserver.lookup import SystemTopics
from sprocket.rocketmq.nameserver.routes import LiveEntry
from sprocket.rocketmq.settings import NameServerSettings, Settings
from sprocket.testing.clock import FakeClock

ORDER = {"ORDER_TOPIC_CONFIG": {"X": "a:4"}}


def queues(broker: str, *, perm: int = 6, flag: int = 0) -> QueueData:
    """Return queues on a broker."""
    return QueueData(broker_name=broker, read_queues=1, write_queues=1, perm=perm, sys_flag=flag)


def broker(cluster: str, name: str, addresses: dict[int, str], **more: Any) -> BrokerData:
    """Return a broker of a zone, and what it allows."""
    return BrokerData(cluster=cluster, name=name, addresses=addresses, **more)


def lookup(tables: RouteTables, **settings: Any) -> Lookup:
    """Return the reading side of tables."""
    live = live_settings.of_nameserver(
        Settings(nameserver=NameServerSettings(**settings)), FakeClock()
    )
    return Lookup(tables, KeyValues(ORDER, lambda _: None), live)


def empty() -> RouteTables:
    """Return tables that hold nothing."""
    return RouteTables(FakeClock(), live_settings.of_nameserver(Settings(), FakeClock()))


def two_brokers() -> RouteTables:
    """Return two brokers of two clusters and zones, the second without a master."""
    found = empty()
    found.brokers["a"] = broker("C", "a", {0: "1.1.1.1:1"}, zone="z1")
    found.brokers["b"] = broker(
        "D", "b", {1: "2.2.2.2:1", 2: "2.2.2.2:2"}, zone="z2", enable_acting_master=True
    )
    found.topics["X"] = {"a": queues("a"), "b": queues("b", perm=4)}
    found.topics["Y"] = {"b": queues("b", perm=4, flag=1)}
    return found


def test_a_topic_that_is_not_there() -> None:
    """Is refused with its name, as every client expects of an unknown one."""
    with pytest.raises(Refused, match="the topic: N") as refused:
        lookup(empty()).route("N")
    assert refused.value.why is Refusal.NO_TOPIC


def test_the_order_of_a_topic_is_told_where_it_is_set_so() -> None:
    """A producer goes by it instead of the queues."""
    assert lookup(two_brokers()).route("X").order_conf is None
    assert lookup(two_brokers(), order_conf=True).route("X").order_conf == "a:4"
    assert lookup(two_brokers(), order_conf=True).route("Y").order_conf is None


def test_a_slave_is_named_in_the_masters_place() -> None:
    """Only where both sides allow it, and nothing can be written."""
    told = lookup(two_brokers(), acting_master=True)
    assert dict(told.route("X").brokers[1].addresses) == {0: "2.2.2.2:1", 2: "2.2.2.2:2"}
    assert dict(told.route("X").brokers[0].addresses) == {0: "1.1.1.1:1"}
    assert 0 not in lookup(two_brokers()).route("X").brokers[1].addresses
    for change in ("perm", "allowed", "topic"):
        tables = two_brokers()
        topic = "X"
        if change == "perm":
            tables.topics["X"]["b"] = queues("b", perm=6)
        elif change == "allowed":
            tables.brokers["b"] = structs.replace(tables.brokers["b"], enable_acting_master=False)
        else:
            topic = "rmq_sys_SYNC_BROKER_MEMBER_b"
            tables.topics[topic] = {"b": queues("b", perm=4)}
        route = lookup(tables, acting_master=True).route(topic)
        assert 0 not in route.brokers[-1].addresses, change


def test_a_zone_sees_its_own_brokers() -> None:
    """And those without a master, whose zone nobody can know."""
    route = lookup(two_brokers()).route("X", zone="Z1")
    assert [one.name for one in route.brokers] == ["a", "b"]
    route = lookup(two_brokers()).route("X", zone="z2")
    assert [one.name for one in route.brokers] == ["b"]
    assert [one.broker_name for one in route.queues] == ["b"]


def test_filter_servers_are_told_by_address() -> None:
    """Of the brokers in the route."""
    tables = two_brokers()
    tables.live["C", "1.1.1.1:1"] = LiveEntry(
        "a", 0, 1, 1.0, DataVersion(1, 1), FakeLink(), "", ("1.1.1.1:9",)
    )
    assert lookup(tables).route("X").filter_servers == {"1.1.1.1:1": ["1.1.1.1:9"]}
    assert lookup(tables).route("Y").filter_servers == {}


def test_lists_of_topics() -> None:
    """Of all, of a cluster, of units; of clusters and brokers themselves."""
    tables = two_brokers()
    tables.topics["U"] = {"a": queues("a", flag=3)}
    tables.topics["S"] = {"a": queues("a", flag=2), "b": queues("b", flag=1)}
    told = lookup(tables)
    assert told.topics() == ["X", "Y", "U", "S"]
    assert told.topics_of_cluster("C") == ["X", "U", "S"]
    assert told.topics_of_cluster("D") == ["X", "Y", "S"]
    assert told.topics_of_cluster("none") == []
    assert told.unit_topics() == ["Y", "U", "S"]
    assert told.unit_subscription_topics() == ["U", "S"]
    assert told.unit_subscription_topics(without_units=True) == []
    tables.topics["S"]["b"] = queues("b")
    assert told.unit_subscription_topics(without_units=True) == ["S"]
    assert told.system_topics() == SystemTopics(["C", "a", "D", "b"], "1.1.1.1:1")
    assert lookup(empty()).system_topics() == SystemTopics([], None)


def test_members_of_a_broker() -> None:
    """Whatever its cluster; one that is not known has none."""
    told = lookup(two_brokers())
    assert dict(told.members("b")) == {1: "2.2.2.2:1", 2: "2.2.2.2:2"}
    assert dict(told.members("n")) == {}
    assert told.cluster_info().clusters == {"C": ["a"], "D": ["b"]}
