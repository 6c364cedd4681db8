"""The NameServer's requests, from brokers and from clients of any age."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests import registrations

from sprocket.base.checksum import crc31
from sprocket.rocketmq.codec.config import tables
from sprocket.rocketmq.codec.registration_body import RegisterBrokerBody
from sprocket.rocketmq.model.topic import TopicConfig


def broker_ext(name: str = "b2", **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a registration."""
    return {
        "brokerName": name,
        "brokerAddr": "10.0.0.2:10911",
        "clusterName": "C2",
        "haServerAddr": "10.0.0.2:10912",
        "brokerId": 0,
    } | changes


def registration(*topics: str, counter: int = 1) -> bytes:
    """Return the body of a registration as an old broker writes it."""
    table = {
        t: {"topicName": t, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6} for t in topics
    }
    wrapper = {
        "dataVersion": {"counter": counter, "timestamp": 1, "stateVersion": 0},
        "topicConfigTable": table,
    }
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


def test_a_broker_registers_and_takes_its_leave(on_node: Callable[..., None]) -> None:
    """Its topics have a route from then until then; the node's own broker is there too."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        assert (await names.call(103, broker_ext(), registration("X", "Y"))).code == 0
        route = json.loads((await names.call(105, {"topic": "X"})).body)
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.2:10911"}
        info = json.loads((await names.call(106)).body)
        assert info["clusterAddrTable"] == {"DefaultCluster": ["broker-a"], "C2": ["b2"]}
        assert set(info["brokerAddrTable"]) == {"broker-a", "b2"}
        topics = json.loads((await names.call(206)).body)["topicList"]
        assert {"X", "Y", "TBW102", "broker-a", "DefaultCluster"} <= set(topics)
        assert (await names.call(104, broker_ext())).code == 0
        assert (await names.call(105, {"topic": "X"})).code == 17

    on_node(scenario)


def test_a_slave_learns_of_its_master(on_node: Callable[..., None]) -> None:
    """And it is listed beside it."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        await names.call(103, broker_ext(), registration("X", "Y"))
        slave = broker_ext(brokerAddr="10.0.0.3:10911", brokerId=1)
        answer = await names.call(103, slave, registration("X", "Y"))
        assert answer.ext_map() == {
            "haServerAddr": "10.0.0.2:10912",
            "masterAddr": "10.0.0.2:10911",
        }
        route = json.loads((await names.call(105, {"topic": "X"})).body)
        assert set(route["brokerDatas"][0]["brokerAddrs"]) == {"0", "1"}

    on_node(scenario)


def test_bad_registrations_are_refused(on_node: Callable[..., None]) -> None:
    """A wrong checksum, missing names, a lone topic of an unknown broker, unreadable bodies."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        body = registration("X", "Y")
        assert (await names.call(103, broker_ext(bodyCrc32=5), body)).code == 1
        assert (await names.call(103, broker_ext(brokerName=""), body)).code == 1
        assert (await names.call(103, broker_ext(clusterName=""), body)).code == 1
        assert (await names.call(103, broker_ext(brokerAddr=""), body)).code == 1
        assert (await names.call(103, broker_ext(), registration("X"))).code == 1
        assert (await names.call(103, broker_ext(), b"{")).code == 1
        assert (await names.call(103, broker_ext(compressed="true"), b"no zlib")).code == 1
        assert (await names.call(105, {"topic": "X"})).code == 17
        assert (await names.call(103, broker_ext(bodyCrc32=crc31(body)), body)).code == 0

    on_node(scenario)


def test_a_lost_connection_counts_at_once(on_node: Callable[..., None]) -> None:
    """The broker's topics leave with it."""

    async def scenario(lab: Any) -> None:
        other = await type(lab.names).open(lab.node.addresses.nameserver)
        await other.call(103, broker_ext(), registration("X", "Y"))
        assert (await lab.names.call(105, {"topic": "X"})).code == 0
        other.peer.close()
        while (await lab.names.call(105, {"topic": "X"})).code == 0:
            await asyncio.sleep(0)

    on_node(scenario)


def test_old_clients_get_bare_broker_ids(on_node: Callable[..., None]) -> None:
    """Before 4.9.4 ids are written without quotes, unless strict JSON is asked for."""

    async def scenario(lab: Any) -> None:
        strict = await lab.names.call(105, {"topic": "TBW102"})
        assert b'"brokerAddrs":{"0":"' in strict.body
        old = await lab.names.call(105, {"topic": "TBW102"}, version=317)
        assert b'"brokerAddrs":{0:"' in old.body
        asked = await lab.names.call(
            105, {"topic": "TBW102", "acceptStandardJsonOnly": "true"}, version=317
        )
        assert asked.body == strict.body
        assert b" " not in strict.body

    on_node(scenario)


def test_brokers_learn_the_order_of_topics(on_node: Callable[..., None]) -> None:
    """As soon as somebody has made the namespace, even if it is empty again."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        assert (await names.call(103, broker_ext(), registration("X", "Y"))).body == b""
        order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "X"}
        await names.call(100, order | {"value": "b2:4"})
        answer = await names.call(103, broker_ext(), registration("X", "Y"))
        assert json.loads(answer.body) == {"table": {"X": "b2:4"}}
        route = json.loads((await names.call(105, {"topic": "X"})).body)
        assert "orderTopicConf" not in route
        await names.call(318, {}, b"orderMessageEnable=true")
        route = json.loads((await names.call(105, {"topic": "X"})).body)
        assert route["orderTopicConf"] == "b2:4"
        await names.call(102, order)
        answer = await names.call(103, broker_ext(), registration("X", "Y"))
        assert json.loads(answer.body) == {"table": {}}
        await names.call(318, {}, b"returnOrderTopicConfigToBroker=false")
        assert (await names.call(103, broker_ext(), registration("X", "Y"))).body == b""

    on_node(scenario)


def test_light_heartbeats_keep_a_broker(on_node: Callable[..., None]) -> None:
    """904 and 322; the latter says whether there is something to register."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        assert (await names.call(904, broker_ext())).code == 0
        version = json.dumps({"counter": 1, "timestamp": 1, "stateVersion": 0}).encode()
        unknown = await names.call(322, broker_ext(), version)
        assert (unknown.ext_map(), unknown.body) == ({"changed": "true"}, b"")
        timeout = broker_ext(heartbeatTimeoutMillis=10_000)
        await names.call(103, timeout, registration("X", "Y"))
        for code, body in ((904, b""), (322, version), (904, b"")):
            lab.clock.advance(9_000)
            assert (await names.call(code, broker_ext(), body)).code == 0
        same = await names.call(322, broker_ext(), version)
        assert same.ext_map() == {"changed": "false"}
        assert json.loads(same.body) == {"counter": 1, "timestamp": 1, "stateVersion": 0}
        assert (await names.call(105, {"topic": "X"})).code == 0

    on_node(scenario)


def test_tools_change_routes(on_node: Callable[..., None]) -> None:
    """Permission wiped and given back, topics deleted and registered."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        await names.call(103, broker_ext(), registration("X", "Y"))

        async def perm() -> int:
            route = json.loads((await names.call(105, {"topic": "X"})).body)
            return int(route["queueDatas"][0]["perm"])

        wiped = await names.call(205, {"brokerName": "b2"})
        assert (wiped.ext_map(), await perm()) == ({"wipeTopicCount": "2"}, 4)
        added = await names.call(327, {"brokerName": "b2"})
        assert (added.ext_map(), await perm()) == ({"addTopicCount": "2"}, 6)
        route = (await names.call(105, {"topic": "X"})).body
        assert (await names.call(216, {"topic": "X", "clusterName": "none"})).code == 0
        assert (await names.call(105, {"topic": "X"})).code == 0
        assert (await names.call(216, {"topic": "X"})).code == 0
        assert (await names.call(105, {"topic": "X"})).code == 17
        assert (await names.call(217, {"topic": "X"}, route)).code == 0
        assert (await names.call(105, {"topic": "X"})).body == route
        assert (await names.call(217, {"topic": "X"})).code == 0

    on_node(scenario)


def test_both_forms_of_a_registration(on_node: Callable[..., None]) -> None:
    """The compressed one is what a broker sends with `compressedRegister`."""

    async def scenario(lab: Any) -> None:
        topics = [TopicConfig(name="X"), TopicConfig(name="Y")]
        body = registrations.compressed(
            RegisterBrokerBody(version=tables.DataVersion(1, 1), topics=topics)
        )
        ext = broker_ext(compressed="true", bodyCrc32=crc31(body))
        assert (await lab.names.call(103, ext, body)).code == 0
        assert (await lab.names.call(105, {"topic": "Y"})).code == 0

    on_node(scenario)
