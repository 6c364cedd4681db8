"""Bodies that brokers collect or work out: written as RocketMQ writes them, read back."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies import relay_bodies
from sprocket.rocketmq.codec.bodies.relay_bodies import AssignmentQuery, RequestMode
from sprocket.rocketmq.model.route import MessageQueue

QUEUE = MessageQueue("Life", "broker-a", 0)


def test_statuses() -> None:
    """By client, with queues for keys."""
    assert relay_bodies.encode_statuses({"c1": {QUEUE: 5}}) == (
        b'{"consumerTable":{"c1":{{"brokerName":"broker-a","queueId":0,"topic":"Life"}:5}},'
        b'"messageQueueTable":{}}'
    )


def test_corrections_and_permissions() -> None:
    """Queue ids without quotes."""
    found = relay_bodies.encode_corrections({0: 0, 1: 4})
    assert found == b'{"correctionOffsets":{0:0,1:4}}'
    found = relay_bodies.encode_permission("g1", "Life", is_readable=False)
    assert found == b'{"group":"g1","readable":false,"topic":"Life"}'


def test_queries_for_assignments() -> None:
    """Topic, group and model must be there, client and strategy need not."""
    query = AssignmentQuery(topic="T", group="g", client_id="c", strategy="AVG")
    assert (
        relay_bodies.decode_assignment_query(relay_bodies.encode_assignment_query(query)) == query
    )
    little = b'{"topic":"T","consumerGroup":"g","messageModel":"CLUSTERING"}'
    found = relay_bodies.decode_assignment_query(little)
    assert found == AssignmentQuery(topic="T", group="g", client_id="", strategy="")
    for bad in (b"", b"[]", b"{", b"{}", little.replace(b"topic", b"x")):
        with pytest.raises(WireError):
            relay_bodies.decode_assignment_query(bad)


def test_assignments() -> None:
    """None, nothing and some are three answers."""
    for queues in (None, [], [QUEUE]):
        body = relay_bodies.encode_assignment(queues)
        assert relay_bodies.decode_assignment(body) == queues
    assert relay_bodies.encode_assignment([QUEUE]) == (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":0,'
        b'"topic":"Life"},"mode":"PULL"}]}'
    )


def test_modes() -> None:
    """One, and all of them."""
    mode = RequestMode(topic="Life", group="g1", pop_share_queues=3)
    assert relay_bodies.decode_request_mode(relay_bodies.encode_request_mode(mode)) == mode
    little = b'{"topic":"T","consumerGroup":"g"}'
    assert relay_bodies.decode_request_mode(little) == RequestMode(topic="T", group="g")
    for bad in (b'{"topic":"T"}', b'{"consumerGroup":"g"}'):
        with pytest.raises(WireError):
            relay_bodies.decode_request_mode(bad)
    assert relay_bodies.encode_request_modes({"Life": {"g1": mode}}) == (
        b'{"messageRequestModeMap":{"Life":{"g1":{"consumerGroup":"g1","mode":"PULL",'
        b'"popShareQueueNum":3,"topic":"Life"}}}}'
    )
