"""Routes are asked of any NameServer that answers, and kept while nobody knows better."""

from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, SettingsError
from sprocket.rocketmq.client.network.routes import NameServers, split_addresses
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute
from sprocket.runtime.driver import Peer

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def answer_with(world: Any, route: TopicRoute) -> None:
    """Let the NameServer give this route for every topic."""

    def handler(peer: Peer, command: Command) -> None:
        peer.send(response(command, 0, body=[bodies.encode(route, quoted=True)]))

    world.cluster.on[ROUTE] = handler


def test_addresses_of_nameservers() -> None:
    """Separated by semicolons or commas; what is none is named."""
    assert split_addresses("a:1; b:2,c:3") == ["a:1", "b:2", "c:3"]
    for wrong in ("", " ; "):
        with pytest.raises(SettingsError, match="no NameServer given"):
            split_addresses(wrong)
    for wrong in ("a", "a:", ":1", "a:0", "a:65536", "a:x"):
        with pytest.raises(SettingsError, match="expected host:port, such as"):
            split_addresses(wrong)


def test_the_next_nameserver_answers_for_one_that_is_away(world: Any) -> None:
    """And is asked first from then on."""

    async def main() -> None:
        instance = world.instance()
        names = NameServers(["10.9.9.9:1", world.names], instance.connections)
        await names.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert names.addresses == [world.names, "10.9.9.9:1"]
        await instance.close()

    world.run(main)


def test_when_none_answers_each_is_named(world: Any) -> None:
    """The error says which were tried and why they failed."""

    async def main() -> None:
        instance = world.instance()
        names = NameServers(["10.9.9.9:1", "10.9.9.8:1"], instance.connections)
        with pytest.raises(NoRoute, match=r"is one running there\?.*10\.9\.9\.9:1.*10\.9\.9\.8:1"):
            await names.request(ROUTE, None)
        await instance.close()

    world.run(main)


def test_a_broker_is_told_from_a_nameserver(world: Any) -> None:
    """At a broker's port nobody knows routes: the error says so, at once; another may know."""
    world.cluster.on[ROUTE] = lambda peer, command: world.cluster.refuse(
        peer, command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported"
    )

    async def main() -> None:
        instance = world.instance()
        names = NameServers([world.names], instance.connections)
        with pytest.raises(BrokerRefused, match=r"not a NameServer: .* Is it the port of a broker"):
            await names.request(ROUTE, None)
        names = NameServers([world.names, "10.9.9.9:1"], instance.connections)
        with pytest.raises(NoRoute, match="is not a NameServer"):
            await names.request(ROUTE, None)
        await instance.close()

    world.run(main)


def test_queues_to_write_and_to_read_follow_the_permissions(world: Any) -> None:
    """Writing needs the permission and a master; reading needs only the permission."""

    async def main() -> None:
        answer_with(
            world,
            TopicRoute(
                queues=[
                    QueueData(broker_name="z", read_queues=1, write_queues=2, perm=6),
                    QueueData(broker_name="r", read_queues=1, write_queues=1, perm=4),
                    QueueData(broker_name="w", read_queues=1, write_queues=1, perm=2),
                    QueueData(broker_name="slave", read_queues=1, write_queues=1, perm=6),
                ],
                brokers=[
                    BrokerData(cluster="c", name="z", addresses={0: "z:1", 1: "z:2"}),
                    BrokerData(cluster="c", name="r", addresses={0: "r:1"}),
                    BrokerData(cluster="c", name="w", addresses={0: "w:1"}),
                    BrokerData(cluster="c", name="slave", addresses={1: "s:1"}),
                ],
            ),
        )
        instance = world.instance()
        routes = instance.routes
        await routes.find("t")
        assert routes.publish_queues("t") == [
            MessageQueue("t", "w", 0),
            MessageQueue("t", "z", 0),
            MessageQueue("t", "z", 1),
        ]
        assert routes.subscribe_queues("t") == [
            MessageQueue("t", name, 0) for name in ("r", "slave", "z")
        ]
        assert routes.master_address("slave") is None
        assert routes.read_address("slave") == "s:1"
        assert routes.read_address("z") == "z:1"
        with pytest.raises(NoRoute, match="slave"):
            routes.require_master("slave")
        with pytest.raises(NoRoute, match="nobody"):
            routes.read_address("nobody")
        assert routes.broker_addresses(masters_only=True) == ["r:1", "w:1", "z:1"]
        assert "s:1" in routes.broker_addresses(masters_only=False)
        assert (routes.broker_at("z:2"), routes.broker_at("q:1")) == ("z", None)
        await instance.close()

    world.run(main)


def test_a_known_route_outlives_an_answer_that_there_is_none(world: Any) -> None:
    """While its broker restarts, a topic keeps the route it had."""

    async def main() -> None:
        world.cluster.topics["t"] = 2
        instance = world.instance()
        changes: list[str] = []
        instance.routes.on_change.append(changes.append)
        known = await instance.routes.refresh("t")
        del world.cluster.topics["t"]
        assert await instance.routes.refresh("t") == known
        assert changes == ["t"]
        world.cluster.topics["t"] = 3
        await instance.routes.refresh_all()
        assert changes == ["t", "t"]
        await instance.close()

    world.run(main)


def test_an_unknown_topic_has_the_templates_route_for_senders_only(world: Any) -> None:
    """At most `topic_queues` queues to write to; nothing to read until it exists."""

    async def main() -> None:
        instance = world.instance()
        with pytest.raises(NoRoute, match=r"Admin\.create_topic"):
            await instance.routes.find("new")
        await instance.routes.find_for_sending("new")
        assert len(instance.routes.publish_queues("new")) == 4
        assert instance.routes.subscribe_queues("new") == []
        world.cluster.topics["new"] = 2
        await instance.routes.refresh("new")
        assert len(instance.routes.subscribe_queues("new")) == 2
        await instance.close()

    world.run(main)


def test_without_a_template_sending_needs_the_topic(world: Any) -> None:
    """The error says how to get it."""

    async def main() -> None:
        world.cluster.creates_topics = False
        instance = world.instance()
        with pytest.raises(NoRoute, match="no broker would create it"):
            await instance.routes.find_for_sending("new")
        await instance.close()

    world.run(main)


def test_a_nameserver_that_answers_nonsense_is_a_client_error(world: Any) -> None:
    """Neither a body that is not a route nor another code leaks the codec's errors."""

    async def main() -> None:
        instance = world.instance()
        world.cluster.on[ROUTE] = lambda peer, command: peer.send(
            response(command, 0, body=[b"[1]"])
        )
        with pytest.raises(BrokerRefused, match="unreadable"):
            await instance.routes.find("t")
        world.cluster.on[ROUTE] = lambda peer, command: world.cluster.refuse(
            peer, command, 1, "not ready"
        )
        with pytest.raises(BrokerRefused, match="not ready"):
            await instance.routes.find("t")
        await instance.close()

    world.run(main)


def test_a_moved_broker_is_found_by_asking_again(world: Any) -> None:
    """`refresh_broker` asks for a topic that the broker serves."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        await instance.routes.find("t")
        moved = BrokerData(cluster="c", name="b", addresses={0: "new:1"})
        queues = [QueueData(broker_name="b", read_queues=1, write_queues=1, perm=6)]
        answer_with(world, TopicRoute(queues=queues, brokers=[moved]))
        await instance.routes.refresh_broker("b")
        assert instance.routes.master_address("b") == "new:1"
        await instance.close()

    world.run(main)


@pytest.mark.parametrize(
    ("order_conf", "expected"),
    [
        ("b:2;z:1", [("b", 0), ("b", 1), ("z", 0)]),
        ("b:two", [("b", 0)]),
        ("", [("b", 0)]),
    ],
)
def test_an_administrator_may_fix_the_queues(
    world: Any, order_conf: str, expected: list[tuple[str, int]]
) -> None:
    """Senders then use these, and a text that is not such a list counts as absent."""

    async def main() -> None:
        instance = world.instance()
        brokers = [BrokerData(cluster="c", name="b", addresses={0: world.cluster.broker_address})]
        queues = [QueueData(broker_name="b", read_queues=1, write_queues=1, perm=6)]
        answer_with(world, TopicRoute(queues=queues, brokers=brokers, order_conf=order_conf))
        await instance.routes.find("t")
        found = instance.routes.publish_queues("t")
        assert [(one.broker_name, one.queue_id) for one in found] == expected
        await instance.close()

    world.run(main)
