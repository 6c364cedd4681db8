"""Routes follow what brokers say, and brokers leave when they are gone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sprocket.rocketmq import live_settings
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.route import BrokerData, QueueData, TopicRoute
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.nameserver import BrokerRegistration, KeyValues, Lookup, RouteTables
from sprocket.rocketmq.nameserver.routes import Freshness, Registered
from sprocket.rocketmq.settings import NameServerSettings, Settings
from sprocket.testing.clock import FakeClock

V1, V2 = DataVersion(1, 1), DataVersion(2, 2)
X, Y = TopicConfig(name="X", read_queues=4), TopicConfig(name="Y")


class FakeLink:
    """The connection of a broker."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        """Close it."""
        self.is_closed = True


class Both:
    """The tables of one NameServer from both sides."""

    def __init__(self, clock: FakeClock | None = None, **settings: Any) -> None:
        live = live_settings.of_nameserver(
            Settings(nameserver=NameServerSettings(**settings)), FakeClock()
        )
        self.writing = RouteTables(clock or FakeClock(), live)
        self.lookup = Lookup(self.writing, KeyValues({}, lambda _: None), live)
        self.unregister = self.writing.unregister
        self.links: dict[str, FakeLink] = {}
        self.topics, self.cluster_info = self.lookup.topics, self.lookup.cluster_info

    def register(
        self,
        link: str,
        one: BrokerRegistration,
        version: DataVersion,
        topics: Sequence[TopicConfig],
    ) -> Registered:
        """Register a broker's topics."""
        one = replace(one, version=version, topics=topics)
        return self.writing.register(self.links.setdefault(link, FakeLink()), one)

    def drop(self, link: str) -> None:
        """Let a connection be lost."""
        self.writing.drop(self.links.get(link, FakeLink()))

    def expire(self) -> list[str]:
        """Let silent brokers go; return the connections that this closed."""
        before = {name for name, link in self.links.items() if link.is_closed}
        self.writing.expire()
        return [name for name, link in self.links.items() if link.is_closed and name not in before]

    def route(self, topic: str) -> TopicRoute:
        """Return where a topic lies."""
        return self.lookup.route(topic)

    def perms(self, topic: str = "X") -> dict[str, int]:
        """Return the permission of a topic by broker."""
        return {one.broker_name: one.perm for one in self.route(topic).queues}


def registration(
    broker: str = "a",
    addr: str = "1.1.1.1:1",
    *,
    broker_id: int = 0,
    timeout_ms: int | None = None,
    acting: bool | None = None,
) -> BrokerRegistration:
    """Return who registers."""
    return BrokerRegistration(
        name=broker,
        cluster="C",
        broker_id=broker_id,
        address=addr,
        ha_server_addr=addr + "1",
        version=V1,
        topics=(),
        timeout_ms=timeout_ms,
        enable_acting_master=acting,
    )


def addresses(routes: Both, topic: str = "X") -> list[dict[int, str]]:
    """Return the addresses of each broker of a topic; none without a route."""
    if topic not in routes.topics():
        with pytest.raises(Refused) as refused:
            routes.route(topic)
        assert refused.value.why is Refusal.NO_TOPIC
        return []
    return [dict(one.addresses) for one in routes.route(topic).brokers]


def test_topics_of_all_brokers_are_in_the_route() -> None:
    """Each with its own queues."""
    routes = Both()
    routes.register("l1", registration(), V1, [X, Y])
    routes.register(
        "l2", registration("b", "2.2.2.2:1"), V1, [TopicConfig(name="X", read_queues=9), Y]
    )
    route = routes.route("X")
    assert {one.broker_name: one.read_queues for one in route.queues} == {"a": 4, "b": 9}
    assert addresses(routes) == [{0: "1.1.1.1:1"}, {0: "2.2.2.2:1"}]
    assert sorted(routes.topics()) == ["X", "Y"]
    assert {name: list(of) for name, of in routes.cluster_info().clusters.items()} == {
        "C": ["a", "b"]
    }


def test_a_changed_version_changes_queues() -> None:
    """With the version it had, a broker only renews; a single topic may be told later."""
    routes = Both()
    routes.register("l", registration(), V1, [X, Y])
    changed = TopicConfig(name="X", read_queues=8)
    routes.register("l", registration(), V1, [changed, Y])
    assert routes.route("X").queues[0].read_queues == 4
    routes.register("l", registration(), V2, [changed])
    assert routes.route("X").queues[0].read_queues == 8
    routes.register("l", registration(), V2, [TopicConfig(name="Z")])
    assert sorted(routes.topics()) == ["X", "Y", "Z"]


def test_an_unknown_broker_must_send_everything() -> None:
    """A lone topic of it is refused, so that a restarted NameServer does not lose the others."""
    routes = Both()
    with pytest.raises(Refused) as refused:
        routes.register("l", registration(), V1, [X])
    assert refused.value.why is Refusal.OTHER
    assert routes.topics() == []
    assert routes.cluster_info().brokers == {}


def test_slaves_are_listed_and_learn_of_their_master() -> None:
    """Their topics do not count; without a master they learn nothing."""
    routes = Both()
    slave = registration(addr="1.1.1.2:1", broker_id=1)
    assert routes.register("s", slave, V1, [X, Y]) == Registered()
    assert routes.topics() == []
    routes.register("m", registration(), V1, [X, Y])
    assert routes.register("s", slave, V1, [X, Y]) == Registered("1.1.1.1:11", "1.1.1.1:1")
    assert addresses(routes) == [{0: "1.1.1.1:1", 1: "1.1.1.2:1"}]
    routes.drop("m")
    assert addresses(routes) == [{1: "1.1.1.2:1"}]
    assert routes.register("s", slave, V1, [X, Y]) == Registered()


def test_an_address_has_one_id() -> None:
    """A slave that became master leaves its old place."""
    routes = Both()
    routes.register("l", registration(broker_id=1), V1, [X, Y])
    routes.register("l", registration(broker_id=0), V1, [X, Y])
    assert addresses(routes) == [{0: "1.1.1.1:1"}]


def test_an_older_rival_is_ignored() -> None:
    """Of two masters with one name the one with the newer term stays."""
    routes = Both()
    routes.register("l", registration(), DataVersion(1, 1, 5), [X, Y])
    routes.register("r", registration(addr="9.9.9.9:1"), DataVersion(9, 9, 4), [X, Y])
    assert addresses(routes) == [{0: "1.1.1.1:1"}]
    routes.register("r", registration(addr="9.9.9.9:1"), DataVersion(9, 9, 5), [X, Y])
    assert addresses(routes) == [{0: "9.9.9.9:1"}]


def test_a_broker_leaves_with_its_word_or_its_connection() -> None:
    """With its topics, when nobody of its name is left; others stay."""
    routes = Both()
    routes.register("a", registration(), V1, [X, Y])
    routes.register("b", registration("b", "2.2.2.2:1"), V1, [X, TopicConfig(name="Z")])
    routes.unregister("a", "C", "9.9.9.9:1")
    routes.unregister("a", "C", "1.1.1.1:1")
    routes.unregister("a", "C", "1.1.1.1:1")
    assert addresses(routes) == [{0: "2.2.2.2:1"}]
    assert sorted(routes.topics()) == ["X", "Z"]
    routes.drop("nobody")
    routes.drop("b")
    assert routes.topics() == []
    assert routes.cluster_info().clusters == {}


def test_silent_brokers_leave() -> None:
    """After 120 s or what they announced; each registration begins anew."""
    clock = FakeClock()
    routes = Both(clock)
    routes.register("a", registration(), V1, [X, Y])
    routes.register("b", registration("b", "2.2.2.2:1", timeout_ms=1000), V1, [X, Y])
    clock.advance(1000)
    assert routes.expire() == []
    clock.advance(1)
    assert routes.expire() == ["b"]
    clock.advance(118_000)
    routes.register("a", registration(), V1, [X, Y])
    clock.advance(120_000)
    assert routes.expire() == []
    clock.advance(1)
    assert routes.expire() == ["a"]
    assert routes.topics() == []


@pytest.mark.parametrize(
    "nameless",
    [
        replace(registration(), name=""),
        replace(registration(), address=""),
        replace(registration(), cluster=""),
    ],
)
def test_nameless_brokers_are_refused(nameless: BrokerRegistration) -> None:
    """RocketMQ takes them and lists them in part."""
    with pytest.raises(Refused):
        Both().register("l", nameless, V1, [X, Y])


def test_without_a_master_the_first_slave_speaks() -> None:
    """A slave of before 5, and a later one, are not asked; one that may act is read only."""
    for acting, perm in ((True, 4), (False, 6)):
        routes = Both()
        routes.register("old", registration(broker_id=3), V1, [X, Y])
        assert routes.topics() == []
        first = registration(addr="1.1.1.2:1", broker_id=2, acting=acting)
        routes.register("s2", first, V1, [X, Y])
        assert routes.perms() == {"a": perm}
        later = registration(addr="1.1.1.4:1", broker_id=4, acting=acting)
        routes.register("s4", later, V2, [X, Y, TopicConfig(name="Z")])
        assert sorted(routes.topics()) == ["X", "Y"]
        routes.register("m", registration(addr="1.1.1.5:1", acting=acting), V1, [X, Y])
        assert routes.perms() == {"a": 6}


@pytest.mark.parametrize(("acting", "perm"), [(True, 4), (False, 6), (None, 6)])
def test_a_master_that_leaves_takes_the_permission_to_write(acting: bool | None, perm: int) -> None:
    """Where a slave may act in its place; elsewhere clients see that there is no master."""
    routes = Both()
    routes.register("m", registration(acting=acting), V1, [X, Y])
    routes.register("s", registration(addr="1.1.1.2:1", broker_id=1, acting=acting), V1, [X, Y])
    routes.drop("m")
    assert routes.perms() == {"a": perm}
    assert addresses(routes) == [{1: "1.1.1.2:1"}]


def test_heartbeats_keep_a_broker() -> None:
    """For as long as it had announced; those of unknown brokers are ignored."""
    clock = FakeClock()
    routes = Both(clock)
    routes.writing.refresh("C", "1.1.1.1:1")
    routes.register("a", registration(timeout_ms=1000), V1, [X, Y])
    for _ in range(3):
        clock.advance(900)
        routes.writing.refresh("C", "1.1.1.1:1")
        assert routes.expire() == []
    clock.advance(1001)
    assert routes.expire() == ["a"]


def test_versions_are_compared() -> None:
    """A broker that asks counts as alive; one that is not known has changed."""
    clock = FakeClock()
    routes = Both(clock)
    compare = routes.writing.compare
    assert compare("C", "1.1.1.1:1", V1) == Freshness(has_changed=True, known=None)
    routes.register("a", registration(timeout_ms=1000), V1, [X, Y])
    clock.advance(900)
    assert compare("C", "1.1.1.1:1", V1) == Freshness(has_changed=False, known=V1)
    assert compare("C", "1.1.1.1:1", V2) == Freshness(has_changed=True, known=V1)
    clock.advance(900)
    assert routes.expire() == []


@pytest.mark.parametrize("has_left", [True, False])
def test_a_broker_whose_name_another_process_took_must_register(has_left: bool) -> None:
    """A copied configuration comes and goes: the first one is in the routes again afterwards."""
    routes = Both()
    routes.register("a", registration(), V1, [X, Y])
    routes.register("b", registration(addr="2.2.2.2:1"), V1, [X, Y])
    if has_left:
        routes.unregister("a", "C", "2.2.2.2:1")
    assert routes.writing.compare("C", "1.1.1.1:1", V1).has_changed
    routes.register("a", registration(), V1, [X, Y])
    assert routes.route("X").brokers[0].addresses == {0: "1.1.1.1:1"}
    assert not routes.writing.compare("C", "1.1.1.1:1", V1).has_changed


def test_the_permission_to_write_is_wiped_and_given_back() -> None:
    """On every topic of the broker, until its table changes; the others' stay."""
    routes = Both()
    locked = TopicConfig(name="L", perm=4)
    routes.register("a", registration(), V1, [X, locked])
    routes.register("b", registration("b", "2.2.2.2:1"), V1, [X, Y])
    assert routes.writing.wipe_write_permission("a") == 2
    assert routes.perms() == {"a": 4, "b": 6}
    routes.register("a", registration(), V1, [X, locked])
    assert routes.perms() == {"a": 4, "b": 6}
    assert routes.writing.add_write_permission("a") == 2
    assert routes.perms("L") == {"a": 6}
    assert routes.writing.wipe_write_permission("nobody") == 0
    routes.writing.wipe_write_permission("a")
    routes.register("a", registration(), V2, [X, locked])
    assert routes.perms() == {"a": 6, "b": 6}


def test_topics_are_deleted_and_registered_by_tools() -> None:
    """Whole or in one cluster; queues of a broker that is not known end the registration."""
    routes = Both()
    routes.register("a", registration(), V1, [X, Y])
    other = replace(registration("b", "2.2.2.2:1"), cluster="D")
    routes.register("b", other, V1, [X, Y])
    routes.writing.delete_topic("X", "D")
    assert routes.perms() == {"a": 6}
    routes.writing.delete_topic("X")
    routes.writing.delete_topic("X")
    assert routes.topics() == ["Y"]

    def queues(broker: str) -> QueueData:
        return QueueData(broker_name=broker, read_queues=1, write_queues=1, perm=6)

    routes.writing.put_queues("X", [queues("a"), queues("nobody"), queues("b")])
    assert routes.perms() == {"a": 6}


def test_topics_that_are_not_named_any_more() -> None:
    """They stay, unless it is set that they go; a single topic that changed names no others."""
    for forget, left in ((False, ["X", "Y", "Z"]), (True, ["X", "Z"])):
        routes = Both(forget_missing_topics=forget)
        routes.register("a", registration(), V1, [X, Y])
        routes.register("a", registration(), V2, [X, TopicConfig(name="Z")])
        assert sorted(routes.topics()) == left
        routes.register("a", registration(), DataVersion(3, 3), [X])
        assert sorted(routes.topics()) == left


def test_the_tables_agree_after_any_of_it() -> None:
    """No topic without a broker, no broker without a process."""
    routes = Both()
    routes.register("m", registration(acting=True), V1, [X, Y])
    routes.register("s", registration(addr="1.1.1.2:1", broker_id=1, acting=True), V1, [X, Y])
    routes.register("s", registration(addr="1.1.1.2:1", broker_id=0, acting=True), V1, [X, Y])
    routes.drop("s")
    routes.drop("m")
    assert (routes.topics(), routes.cluster_info().brokers) == ([], {})


def tables_of() -> RouteTables:
    """Return tables that hold nothing."""
    return RouteTables(FakeClock(), live_settings.of_nameserver(Settings(), FakeClock()))


def queues_on(broker: str) -> QueueData:
    """Return queues on a broker."""
    return QueueData(broker_name=broker, read_queues=1, write_queues=1, perm=6)


def test_a_topic_goes_with_its_last_queues_on() -> None:
    """Forgetting what is not there changes nothing."""
    tables = tables_of()
    tables.topics["X"] = {"a": queues_on("a"), "b": queues_on("b")}
    tables.forget_queues("X", "a")
    tables.forget_queues("X", "a")
    tables.forget_queues("Y", "a")
    assert list(tables.topics["X"]) == ["b"]
    tables.forget_queues("X", "b")
    assert tables.topics == {}


def test_brokers_are_told_as_they_are() -> None:
    """What was told does not change while it waits to be written."""
    routes = Both()
    tables = routes.writing
    routes.register("l1", registration(broker_id=1), V1, [X, Y])
    slave = tables.brokers["a"]
    routes.register("l2", registration(addr="2.2.2.2:2"), V1, [X, Y])
    both = tables.brokers["a"]
    routes.drop("l1")
    assert slave == BrokerData(cluster="C", name="a", addresses={1: "1.1.1.1:1"})
    assert dict(both.addresses) == {1: "1.1.1.1:1", 0: "2.2.2.2:2"}
    assert dict(tables.brokers["a"].addresses) == {0: "2.2.2.2:2"}
    assert tables.clusters() == {"C": ["a"]}
