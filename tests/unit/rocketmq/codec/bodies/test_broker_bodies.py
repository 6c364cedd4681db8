"""JSON bodies."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    KeyValueTable,
    MemberGroup,
    MemberGroups,
    TopicNames,
)
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute

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


def test_the_go_client_can_read_a_route() -> None:
    """It takes the text of `brokerAddrs` without quotes apart at commas and colons."""
    for standard in (True, False):
        text = bodies.encode(ROUTE, quoted=standard).decode()
        assert " " not in text
        inner = text.split('"brokerAddrs":{')[1].split("}")[0].replace('"', "")
        assert {
            int(item.split(":")[0]): ":".join(item.split(":")[1:]) for item in inner.split(",")
        } == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}


def test_a_route_may_be_empty() -> None:
    """With nothing in it."""
    assert bodies.decode(TopicRoute, b"{}") == TopicRoute(queues=[], brokers=[])


def test_values_that_are_numbers_are_texts() -> None:
    """As RocketMQ reads them."""
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


def test_a_version_may_say_nothing() -> None:
    """What is missing is 0."""
    assert bodies.decode_request(DataVersion, b"{}") == DataVersion(0, 0)
