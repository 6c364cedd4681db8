"""The NameServer's requests for members and lists; routes are in test_names."""

import json
from collections.abc import Callable
from typing import Any

from tests.unit.rocketmq.server.handlers.nameserver.test_registration import (
    broker_ext,
    registration,
)


def test_lists(on_node: Callable[..., None]) -> None:
    """Of a cluster, of clusters and brokers themselves, of units."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        await names.call(103, broker_ext(), registration("X", "Y"))

        async def topics(code: int, **ext: Any) -> Any:
            return json.loads((await names.call(code, ext)).body)

        assert await topics(224, cluster="C2") == {"topicList": ["X", "Y"]}
        assert await topics(224, cluster="none") == {"topicList": []}
        assert await topics(304) == {
            "brokerAddr": lab.node.addresses.broker,
            "topicList": ["DefaultCluster", "broker-a", "C2", "b2"],
        }
        for code in (311, 312, 313):
            assert await topics(code) == {"topicList": []}
        await names.call(318, {}, b"enableTopicList=false")
        for code in (224, 311, 312, 313):
            answer = await names.call(code, {"cluster": "C2"})
            assert (answer.code, answer.remark) == (1, "disable")

    on_node(scenario)


def test_members(on_node: Callable[..., None]) -> None:
    """With ids in quotes for who reads strict JSON; of an unknown name there are none."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        await names.call(103, broker_ext(), registration("X", "Y"))
        slave = broker_ext(brokerAddr="10.0.0.3:10911", brokerId=1)
        await names.call(103, slave, registration("X", "Y"))
        asked = {"clusterName": "C2", "brokerName": "b2"}
        answer = await names.call(901, asked)
        assert json.loads(answer.body) == {
            "brokerMemberGroup": {
                "brokerAddrs": {"0": "10.0.0.2:10911", "1": "10.0.0.3:10911"},
                "brokerName": "b2",
                "cluster": "C2",
            }
        }
        old = await names.call(901, asked, version=317)
        assert b'{0:"10.0.0.2:10911",1:' in old.body
        none = await names.call(901, {"clusterName": "C2", "brokerName": "nobody"})
        assert json.loads(none.body)["brokerMemberGroup"]["brokerAddrs"] == {}

    on_node(scenario)


def test_a_zone_is_asked_for(on_node: Callable[..., None]) -> None:
    """By both fields; the mode alone changes nothing."""

    async def scenario(lab: Any) -> None:
        names = lab.names
        await names.call(103, broker_ext(__ZONE_NAME="z1"), registration("X", "Y"))
        for zone, count in (("z1", 1), ("Z1", 1), ("z2", 0), ("", 1)):
            ext = {"topic": "X", "__ZONE_MODE": "true", "__ZONE_NAME": zone}
            route = json.loads((await names.call(105, ext)).body)
            assert (len(route["brokerDatas"]), len(route["queueDatas"])) == (count, count)
        route = json.loads((await names.call(105, {"topic": "X", "__ZONE_NAME": "z2"})).body)
        assert route["brokerDatas"][0]["zoneName"] == "z1"

    on_node(scenario)
