"""Our NameServer answers what the real one does, and each takes the other's brokers."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.interop import link, peers
from tests.interop.clusters import Cluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-names"),
]

SETTINGS = {"orderMessageEnable": "true", "supportActingMaster": "true"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, jars: Path) -> Iterator[Cluster]:
    """Return what starts processes, and end them."""
    one = Cluster(tmp_path_factory.mktemp("names"), jars)
    yield one
    one.close()


def registration(*topics: str, counter: int = 1, flag: int = 0, state: int = 0) -> bytes:
    """Return the body of a registration."""
    table = {
        name: {
            "topicName": name,
            "readQueueNums": 4,
            "writeQueueNums": 4,
            "perm": 6,
            "topicSysFlag": flag,
        }
        for name in topics
    }
    version = {"counter": counter, "timestamp": 1, "stateVersion": state}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


def broker(number: int, broker_id: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a registration."""
    return {
        "brokerName": f"b{number}",
        "brokerAddr": f"10.0.0.{number}:{10911 + broker_id}",
        "clusterName": f"C{number}",
        "haServerAddr": f"10.0.0.{number}:10912",
        "brokerId": broker_id,
        "enableActingMaster": "true",
        **changes,
    }


VERSION = json.dumps({"counter": 1, "timestamp": 1, "stateVersion": 0}).encode()
ORDER = {"namespace": "ORDER_TOPIC_CONFIG", "key": "X"}
SCRIPT: list[tuple[int, Mapping[str, Any], bytes]] = [
    (206, {}, b""),
    (304, {}, b""),
    (105, {"topic": "X"}, b""),
    (103, broker(1), registration("X", "Y")),
    (103, broker(2), registration("Z")),
    (103, broker(2, enableActingMaster="false"), registration("X", "Z", flag=3)),
    (103, broker(3, 1), registration("X", "S", flag=2)),
    (103, broker(3, 2), registration("X", "T")),
    (105, {"topic": "S"}, b""),
    (105, {"topic": "X"}, b""),
    (105, {"topic": "T"}, b""),
    (901, {"clusterName": "C3", "brokerName": "b3"}, b""),
    (103, broker(3, 0), registration("X", "S", counter=2)),
    (103, broker(3, 1), registration("X", "S", flag=2)),
    (105, {"topic": "S"}, b""),
    (104, broker(3, 0), b""),
    (105, {"topic": "S"}, b""),
    (103, broker(4, 1, enableActingMaster="false"), registration("V", "W")),
    (105, {"topic": "V"}, b""),
    (106, {}, b""),
    (206, {}, b""),
    *((code, {}, b"") for code in (311, 312, 313)),
    (224, {"cluster": "C1"}, b""),
    (224, {"cluster": "none"}, b""),
    (304, {}, b""),
    (322, broker(1), VERSION),
    (322, broker(2), json.dumps({"counter": 9}).encode()),
    (322, broker(9), VERSION),
    (904, broker(1), b""),
    (904, broker(9), b""),
    (205, {"brokerName": "b1"}, b""),
    (105, {"topic": "X"}, b""),
    (205, {"brokerName": "none"}, b""),
    (327, {"brokerName": "b1"}, b""),
    (105, {"topic": "X"}, b""),
    (101, ORDER, b""),
    (100, {**ORDER, "value": "b1:4;b2:4"}, b""),
    (100, {"namespace": "E", "key": "k"}, b""),
    (101, {"namespace": "E", "key": "k"}, b""),
    (101, ORDER, b""),
    (219, {"namespace": "ORDER_TOPIC_CONFIG"}, b""),
    (219, {"namespace": "none"}, b""),
    (105, {"topic": "X"}, b""),
    (103, broker(1), registration("X", "Y")),
    (102, ORDER, b""),
    (102, ORDER, b""),
    (103, broker(1), registration("X", "Y")),
    (216, {"topic": "X", "clusterName": "C1"}, b""),
    (105, {"topic": "X"}, b""),
    (216, {"topic": "X"}, b""),
    (216, {"topic": "none"}, b""),
    (105, {"topic": "X"}, b""),
    (103, broker(1, brokerAddr="10.0.0.9:1"), registration("X", "Y", counter=5, state=3)),
    (103, broker(1), registration("X", "Y", counter=9, state=2)),
    (901, {"clusterName": "C1", "brokerName": "b1"}, b""),
    (901, {"clusterName": "C1", "brokerName": "none"}, b""),
    (318, {}, b"garbage\nnoSuchThing=1\nlistenPort=x\n"),
    (318, {}, b"kvConfigPath=/x"),
    (318, {}, b"enableTopicList=nonsense\nenableAllTopicList=false"),
    (206, {}, b""),
    (224, {"cluster": "C1"}, b""),
]


def said(answer: link.Answer) -> tuple[Any, ...]:
    """Return what two NameServers must agree on: not the wording, nor the order of lists."""
    body: Any = answer.body
    if body:
        # Of some bodies the real one leaves keys without quotes; all its readers take both.
        text = re.sub(r"([{,])(\d+):", r'\1"\2":', body.decode())
        body = in_order(json.loads(text))
    ext = {name: value for name, value in answer.ext.items() if value}
    return answer.code, ext, body


def in_order(value: Any) -> Any:
    """Return a value with all lists in one order."""
    if isinstance(value, dict):
        return {key: in_order(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((in_order(one) for one in value), key=json.dumps)
    return value


def test_the_same_answers_as_the_real_one(cluster: Cluster) -> None:
    """To the same requests, one after the other; each difference is named."""
    real = cluster.real_nameserver(SETTINGS)
    options = [f"nameserver.{name}=true" for name in ("order_conf", "acting_master")]
    ours = cluster.nameserver(*(word for one in options for word in ("--set", one)))
    different = []
    with link.Link(real) as theirs, link.Link(ours) as mine:
        for step, (code, ext, body) in enumerate(SCRIPT):
            wanted, got = (said(one.ask(code, ext, body)) for one in (theirs, mine))
            if wanted != got:
                different.append((step, code, ext, wanted, got))
    assert not different, "\n".join(map(str, different))


def test_the_real_broker_registers_with_ours_and_ours_with_the_real(cluster: Cluster) -> None:
    """Each broker with both NameServers; all four routes are there, and go with their broker."""
    names = [cluster.real_nameserver(), cluster.nameserver()]
    mine = cluster.broker("ours", names)
    theirs = cluster.real_broker("theirs", names)

    def addresses(nameserver: str) -> dict[str, Any]:
        with link.Link(nameserver) as connection:
            answer = connection.ask(105, {"topic": "TBW102"})
        if answer.code != 0:
            return {}
        found = json.loads(answer.body)["brokerDatas"]
        return {one["brokerName"]: one["brokerAddrs"] for one in found}

    wanted = {"ours": {"0": mine}, "theirs": {"0": theirs}}
    for nameserver in names:
        peers.wait_until(
            lambda nameserver=nameserver: addresses(nameserver) == wanted,  # type: ignore[misc]
            "both brokers in the route",
            seconds=60,
        )
    with link.Link(theirs) as connection:
        link.create_topic(connection, "FromTheirs", 3)
    with link.Link(mine) as connection:
        link.create_topic(connection, "FromOurs", 3)
    for nameserver in names:
        with link.Link(nameserver) as connection:
            for topic, name in (("FromTheirs", "theirs"), ("FromOurs", "ours")):
                route = json.loads(connection.call(105, {"topic": topic}).body)
                assert [
                    (one["brokerName"], one["readQueueNums"]) for one in route["queueDatas"]
                ] == [(name, 3)]
    assert cluster.stop(mine) == 0
    cluster.kill(theirs)
    for nameserver in names:
        peers.wait_until(
            lambda nameserver=nameserver: addresses(nameserver) == {},  # type: ignore[misc]
            "no broker in the route",
            seconds=30,
        )


def test_a_broker_whose_name_another_held_comes_back(cluster: Cluster) -> None:
    """Into the routes of both NameServers, as soon as it asks them again."""
    names = [cluster.real_nameserver(), cluster.nameserver()]
    mine = cluster.broker("held", names, "--set", "broker.register_seconds=1")
    other = {
        "brokerName": "held",
        "brokerAddr": "10.0.0.9:10911",
        "clusterName": "DefaultCluster",
        "haServerAddr": "",
        "brokerId": 0,
    }

    def addresses(connection: link.Link) -> dict[str, str]:
        answer = connection.ask(105, {"topic": "TBW102"})
        if answer.code != 0:
            return {}
        (found,) = json.loads(answer.body)["brokerDatas"]
        return dict(found["brokerAddrs"])

    for nameserver in names:
        with link.Link(nameserver) as connection:
            connection.call(103, other, registration("TBW102"))
            assert addresses(connection) == {"0": other["brokerAddr"]}
            connection.call(104, other)
            peers.wait_until(
                lambda connection=connection: addresses(connection) == {"0": mine},  # type: ignore[misc]
                f"the broker in the routes of {nameserver}",
                seconds=30,
            )
    assert cluster.stop(mine) == 0
