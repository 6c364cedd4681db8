"""JSON bodies."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClusterInfo,
    KeyValueTable,
    MemberGroup,
    MemberGroups,
    TopicNames,
)
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.model.route import BrokerData, QueueData, TopicRoute

BROKER = BrokerData(
    cluster="DefaultCluster",
    name="broker-a",
    addresses={1: "10.0.0.2:10911", 0: "10.0.0.1:10911"},
    zone="z",
)
ROUTE = TopicRoute(
    queues=[QueueData(broker_name="broker-a", read_queues=4, write_queues=3, perm=6, sys_flag=1)],
    brokers=[BROKER],
    order_conf="broker-a:4",
)


def test_a_route_in_standard_json() -> None:
    """Compact, members sorted, broker ids in quotes and in order."""
    assert bodies.encode(ROUTE, quoted=True) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},'
        b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false,'
        b'"zoneName":"z"}],"filterServerTable":{},"orderTopicConf":"broker-a:4",'
        b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":1,'
        b'"writeQueueNums":3}]}'
    )


def test_a_route_for_old_clients() -> None:
    """Broker ids without quotes; what is absent is left out."""
    route = TopicRoute(
        queues=[], brokers=[BrokerData(cluster="c", name="b", addresses={0: "h:1", 1: "h:2"})]
    )
    assert bodies.encode(route) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[]}'
    )


def test_the_go_client_can_read_a_route() -> None:
    """It takes the text of `brokerAddrs` without quotes apart at commas and colons."""
    for standard in (True, False):
        text = bodies.encode(ROUTE, quoted=standard).decode()
        assert " " not in text
        inner = text.split('"brokerAddrs":{')[1].split("}")[0].replace('"', "")
        assert {
            int(item.split(":")[0]): ":".join(item.split(":")[1:]) for item in inner.split(",")
        } == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}


def test_a_route_is_read_back() -> None:
    """With everything in it, and with nothing."""
    assert bodies.decode(TopicRoute, bodies.encode(ROUTE, quoted=True)) == ROUTE
    assert bodies.decode(TopicRoute, b"{}") == TopicRoute(queues=[], brokers=[])


def test_cluster_info_is_read_back() -> None:
    """Brokers by name, names by cluster."""
    info = ClusterInfo(brokers={"broker-a": BROKER}, clusters={"DefaultCluster": ["broker-a"]})
    assert bodies.decode(ClusterInfo, bodies.encode(info, quoted=True)) == info
    assert b'{0:"10.0.0.1:10911",1:' in bodies.encode(info)


def test_lists_and_tables() -> None:
    """Topics, texts by name."""
    assert bodies.encode(TopicNames(topics=["a", "ü"])) == '{"topicList":["a","ü"]}'.encode()
    assert bodies.decode(TopicNames, b'{"topicList":["a"],"brokerAddr":"x"}').topics == ["a"]
    assert bodies.encode(KeyValueTable({"b": "1", "a": "2"})) == b'{"table":{"a":"2","b":"1"}}'
    assert bodies.decode(KeyValueTable, b'{"table":{"a":2}}').table == {"a": "2"}


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (partial(bodies.decode, TopicRoute), b"[]"),
        (partial(bodies.decode, TopicRoute), b'{"queueDatas":5}'),
        (partial(bodies.decode, TopicRoute), b'{"queueDatas":[5]}'),
        (partial(bodies.decode, TopicRoute), b'{"brokerDatas":[{"brokerAddrs":{"x":"a:1"}}]}'),
        (partial(bodies.decode, ClusterInfo), b"null"),
        (partial(bodies.decode, TopicNames), b'{"topicList":{}}'),
    ],
)
def test_what_cannot_be_read_is_a_wire_error(decode: Callable[[bytes], Any], data: bytes) -> None:
    """Never another exception."""
    with pytest.raises(WireError):
        decode(data)


def test_members_of_a_broker() -> None:
    """Ids in quotes for who reads strict JSON."""
    addresses = {0: "1.1.1.1:1"}
    strict, bare = (
        bodies.encode(
            MemberGroups(MemberGroup(addresses=addresses, cluster="C", name="a")), quoted=quoted
        )
        for quoted in (True, False)
    )
    assert strict == (
        b'{"brokerMemberGroup":{"brokerAddrs":{"0":"1.1.1.1:1"},"brokerName":"a","cluster":"C"}}'
    )
    assert bare == strict.replace(b'"0"', b"0")
    unnamed = bodies.encode(MemberGroups(MemberGroup(addresses={}, cluster=None, name=None)))
    assert unnamed == b'{"brokerMemberGroup":{"brokerAddrs":{}}}'


def test_versions_both_ways() -> None:
    """What is missing is 0."""
    version = DataVersion(3, 2, 1)
    assert bodies.decode_request(DataVersion, bodies.encode(version)) == version
    assert bodies.decode_request(DataVersion, b"{}") == DataVersion(0, 0)


def test_a_list_of_topics_may_name_a_broker() -> None:
    """The answer of 304."""
    body = bodies.encode(TopicNames(topics=["X"], broker_address="1.1.1.1:1"))
    assert body == b'{"brokerAddr":"1.1.1.1:1","topicList":["X"]}'
