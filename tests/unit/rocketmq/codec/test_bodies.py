"""JSON bodies."""

from collections.abc import Callable
from typing import Any

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClusterInfo,
    ConsumerData,
    HeartbeatData,
    QueueStats,
    TopicStats,
)
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute

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
QUEUES = [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]


def test_a_route_in_standard_json() -> None:
    """Compact, members sorted, broker ids in quotes and in order."""
    assert bodies.encode_route(ROUTE, standard=True) == (
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
    assert bodies.encode_route(route, standard=False) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[]}'
    )


def test_the_go_client_can_read_a_route() -> None:
    """It takes the text of `brokerAddrs` without quotes apart at commas and colons."""
    for standard in (True, False):
        text = bodies.encode_route(ROUTE, standard=standard).decode()
        assert " " not in text
        inner = text.split('"brokerAddrs":{')[1].split("}")[0].replace('"', "")
        assert {
            int(item.split(":")[0]): ":".join(item.split(":")[1:]) for item in inner.split(",")
        } == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}


def test_a_route_is_read_back() -> None:
    """With everything in it, and with nothing."""
    assert bodies.decode_route(bodies.encode_route(ROUTE, standard=True)) == ROUTE
    assert bodies.decode_route(b"{}") == TopicRoute(queues=[], brokers=[])


def test_cluster_info_is_read_back() -> None:
    """Brokers by name, names by cluster."""
    info = ClusterInfo(brokers={"broker-a": BROKER}, clusters={"DefaultCluster": ["broker-a"]})
    assert bodies.decode_cluster_info(bodies.encode_cluster_info(info, standard=True)) == info
    assert b'{0:"10.0.0.1:10911",1:' in bodies.encode_cluster_info(info, standard=False)


def test_lists_and_tables() -> None:
    """Topics, members of a group, texts by name."""
    assert bodies.encode_topic_list(["a", "ü"]) == '{"topicList":["a","ü"]}'.encode()
    assert bodies.decode_topic_list(b'{"topicList":["a"],"brokerAddr":"x"}') == ["a"]
    assert bodies.encode_consumer_list(["1@2"]) == b'{"consumerIdList":["1@2"]}'
    assert bodies.decode_consumer_list(b'{"consumerIdList":["1@2"]}') == ["1@2"]
    assert bodies.encode_key_values({"b": "1", "a": "2"}) == b'{"table":{"a":"2","b":"1"}}'
    assert bodies.decode_key_values(b'{"table":{"a":2}}') == {"a": "2"}


def test_a_heartbeat_is_read_back() -> None:
    """As our own client writes it."""
    heartbeat = HeartbeatData(
        client_id="c@1",
        producers=["PG"],
        consumers=[
            ConsumerData(
                group="CG",
                subscriptions=[
                    Subscription.parse("T", "a || b", version=5),
                    Subscription.parse("S", "x > 1", type="SQL92"),
                ],
                message_model="BROADCASTING",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            )
        ],
        fingerprint=7,
        without_sub=True,
    )
    assert bodies.decode_heartbeat(bodies.encode_heartbeat(heartbeat)) == heartbeat


def test_a_heartbeat_of_the_cpp_client_is_read() -> None:
    """Ordinals for names, texts for numbers, codes as texts, a line end."""
    data = (
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,'
        b'"groupName":"CG","messageModel":0,"subscriptionDataSet":[{"codeSet":["97"],'
        b'"subString":"a","subVersion":"1700000000000","tagsSet":["a"],"topic":"T"}]}],'
        b'"producerDataSet":[{"groupName":"PG"}]}\n'
    )
    heartbeat = bodies.decode_heartbeat(data)
    (consumer,) = heartbeat.consumers
    assert (
        heartbeat.client_id,
        heartbeat.producers,
        heartbeat.fingerprint,
        heartbeat.without_sub,
    ) == ("c", ["PG"], 0, False)
    assert (
        consumer.consume_type,
        consumer.message_model,
        consumer.consume_from_where,
    ) == ("CONSUME_PASSIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET")
    assert consumer.subscriptions == [Subscription.parse("T", "a", version=1_700_000_000_000)]


def test_a_heartbeat_with_little_in_it() -> None:
    """Missing members have RocketMQ's defaults."""
    (consumer,) = bodies.decode_heartbeat(b'{"consumerDataSet":[{}]}').consumers
    assert consumer == ConsumerData(group="", subscriptions=[])


def test_a_client_check_is_read() -> None:
    """With and without a type."""
    data = (
        b'{"clientId":"c","group":"g",'
        b'"subscriptionData":{"expressionType":"SQL92","subString":"a > 1","topic":"t"}}'
    )
    check = bodies.decode_client_check(data)
    assert (check.client_id, check.group) == ("c", "g")
    assert check.subscription == Subscription.parse("t", "a > 1", type="SQL92")
    assert bodies.decode_client_check(b"{}").subscription.type == "TAG"


def test_locks_are_read_back() -> None:
    """The request, and what it brought."""
    lock = bodies.decode_lock(bodies.encode_lock("g", "c", QUEUES))
    assert (
        lock.group,
        lock.client_id,
        lock.queues,
        lock.only_this_broker,
    ) == ("g", "c", QUEUES, False)
    assert bodies.decode_locked(bodies.encode_locked(QUEUES)) == QUEUES


def test_topic_stats_have_objects_as_keys() -> None:
    """What every released Java client expects."""
    stats = TopicStats(
        queues={
            queue: QueueStats(min_offset=1, max_offset=2, last_update_at_ms=3) for queue in QUEUES
        }
    )
    one = '{"lastUpdateTimestamp":3,"maxOffset":2,"minOffset":1}'
    assert bodies.encode_topic_stats(stats).decode() == (
        f'{{"offsetTable":{{{{"brokerName":"b","queueId":0,"topic":"t"}}:{one},'
        f'{{"brokerName":"b","queueId":1,"topic":"t"}}:{one}}},"topicPutTps":0.0}}'
    )


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (bodies.decode_route, b"[]"),
        (bodies.decode_route, b'{"queueDatas":5}'),
        (bodies.decode_route, b'{"queueDatas":[5]}'),
        (bodies.decode_route, b'{"brokerDatas":[{"brokerAddrs":{"x":"a:1"}}]}'),
        (bodies.decode_cluster_info, b"null"),
        (bodies.decode_topic_list, b'{"topicList":{}}'),
        (bodies.decode_heartbeat, b""),
        (bodies.decode_heartbeat, b'{"consumerDataSet":[{"messageModel":2}]}'),
        (bodies.decode_heartbeat, b'{"consumerDataSet":[{"messageModel":"NONE"}]}'),
        (bodies.decode_heartbeat, b'{"consumerDataSet":[{"subscriptionDataSet":[1]}]}'),
        (bodies.decode_heartbeat, b'{"producerDataSet":["x"]}'),
        (bodies.decode_lock, b'{"mqSet":[{"queueId":"x"}]}'),
    ],
)
def test_what_cannot_be_read_is_a_wire_error(decode: Callable[[bytes], Any], data: bytes) -> None:
    """Never another exception."""
    with pytest.raises(WireError):
        decode(data)
