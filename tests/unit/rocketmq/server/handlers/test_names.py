"""The NameServer's requests, from brokers and from clients of any age."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from sprocket.base.checksum import crc31


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
