"""Routes follow what brokers say, and brokers leave when they are gone."""

import msgspec
import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.headers import RegisterBroker
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.nameserver.routes import Registered, Routes
from sprocket.testing.clock import FakeClock

V1, V2 = DataVersion(1, 1), DataVersion(2, 2)
X, Y = TopicConfig(name="X", read_queues=4), TopicConfig(name="Y")


def header(
    broker: str = "a", addr: str = "1.1.1.1:1", *, broker_id: int = 0, timeout_ms: int | None = None
) -> RegisterBroker:
    """Return who registers."""
    return RegisterBroker(
        broker_name=broker,
        broker_addr=addr,
        cluster_name="C",
        ha_server_addr=addr + "1",
        broker_id=broker_id,
        heartbeat_timeout_millis=timeout_ms,
    )


def addresses(routes: Routes, topic: str = "X") -> list[dict[int, str]]:
    """Return the addresses of each broker of a topic; none without a route."""
    if topic not in routes.topics():
        with pytest.raises(RequestRefused) as refused:
            routes.route(topic)
        assert refused.value.code == 17
        return []
    return [dict(one.addresses) for one in routes.route(topic).brokers]


def test_topics_of_all_brokers_are_in_the_route() -> None:
    """Each with its own queues."""
    routes = Routes(FakeClock(), 120_000)
    routes.register("l1", header(), V1, [X, Y])
    routes.register("l2", header("b", "2.2.2.2:1"), V1, [TopicConfig(name="X", read_queues=9), Y])
    route = routes.route("X")
    assert {one.broker_name: one.read_queues for one in route.queues} == {"a": 4, "b": 9}
    assert addresses(routes) == [{0: "1.1.1.1:1"}, {0: "2.2.2.2:1"}]
    assert sorted(routes.topics()) == ["X", "Y"]
    assert {name: list(of) for name, of in routes.cluster_info().clusters.items()} == {
        "C": ["a", "b"]
    }


def test_a_changed_version_changes_queues() -> None:
    """With the version it had, a broker only renews; a single topic may be told later."""
    routes = Routes(FakeClock(), 120_000)
    routes.register("l", header(), V1, [X, Y])
    changed = TopicConfig(name="X", read_queues=8)
    routes.register("l", header(), V1, [changed, Y])
    assert routes.route("X").queues[0].read_queues == 4
    routes.register("l", header(), V2, [changed])
    assert routes.route("X").queues[0].read_queues == 8
    routes.register("l", header(), V2, [TopicConfig(name="Z")])
    assert sorted(routes.topics()) == ["X", "Y", "Z"]


def test_an_unknown_broker_must_send_everything() -> None:
    """A lone topic of it is refused, so that a restarted NameServer does not lose the others."""
    routes = Routes(FakeClock(), 120_000)
    with pytest.raises(RequestRefused) as refused:
        routes.register("l", header(), V1, [X])
    assert refused.value.code == 1
    assert routes.topics() == []
    assert routes.cluster_info().brokers == {}


def test_slaves_are_listed_and_learn_of_their_master() -> None:
    """Their topics do not count; without a master they learn nothing."""
    routes = Routes(FakeClock(), 120_000)
    slave = header(addr="1.1.1.2:1", broker_id=1)
    assert routes.register("s", slave, V1, [X, Y]) == Registered()
    assert routes.topics() == []
    routes.register("m", header(), V1, [X, Y])
    assert routes.register("s", slave, V1, [X, Y]) == Registered("1.1.1.1:11", "1.1.1.1:1")
    assert addresses(routes) == [{0: "1.1.1.1:1", 1: "1.1.1.2:1"}]
    routes.drop("m")
    assert addresses(routes) == [{1: "1.1.1.2:1"}]
    assert routes.register("s", slave, V1, [X, Y]) == Registered()


def test_an_address_has_one_id() -> None:
    """A slave that became master leaves its old place."""
    routes = Routes(FakeClock(), 120_000)
    routes.register("l", header(broker_id=1), V1, [X, Y])
    routes.register("l", header(broker_id=0), V1, [X, Y])
    assert addresses(routes) == [{0: "1.1.1.1:1"}]


def test_an_older_rival_is_ignored() -> None:
    """Of two masters with one name the one with the newer term stays."""
    routes = Routes(FakeClock(), 120_000)
    routes.register("l", header(), DataVersion(1, 1, 5), [X, Y])
    routes.register("r", header(addr="9.9.9.9:1"), DataVersion(9, 9, 4), [X, Y])
    assert addresses(routes) == [{0: "1.1.1.1:1"}]
    routes.register("r", header(addr="9.9.9.9:1"), DataVersion(9, 9, 5), [X, Y])
    assert addresses(routes) == [{0: "9.9.9.9:1"}]


def test_a_broker_leaves_with_its_word_or_its_connection() -> None:
    """With its topics, when nobody of its name is left; others stay."""
    routes = Routes(FakeClock(), 120_000)
    routes.register("a", header(), V1, [X, Y])
    routes.register("b", header("b", "2.2.2.2:1"), V1, [X, TopicConfig(name="Z")])
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
    routes = Routes(clock, 120_000)
    routes.register("a", header(), V1, [X, Y])
    routes.register("b", header("b", "2.2.2.2:1", timeout_ms=1000), V1, [X, Y])
    clock.advance(1000)
    assert routes.expire() == []
    clock.advance(1)
    assert routes.expire() == ["b"]
    clock.advance(118_000)
    routes.register("a", header(), V1, [X, Y])
    clock.advance(120_000)
    assert routes.expire() == []
    clock.advance(1)
    assert routes.expire() == ["a"]
    assert routes.topics() == []


@pytest.mark.parametrize("field", ["broker_name", "broker_addr", "cluster_name"])
def test_nameless_brokers_are_refused(field: str) -> None:
    """RocketMQ takes them and lists them in part."""
    named = RegisterBroker(broker_name="a", broker_addr="1.1.1.1:1", cluster_name="C", broker_id=0)
    routes = Routes(FakeClock(), 120_000)
    with pytest.raises(RequestRefused):
        routes.register("l", msgspec.structs.replace(named, **{field: ""}), V1, [X, Y])
