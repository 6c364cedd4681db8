"""Bodies that brokers collect or work out: written as RocketMQ writes them, read back."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    AssignmentQuery,
    ConsumerStatus,
    Corrections,
    Permission,
    QueueAssignment,
    RequestMode,
    RequestModeTable,
)
from sprocket.rocketmq.model.route import MessageQueue

QUEUE = MessageQueue("Life", "broker-a", 0)


def test_statuses() -> None:
    """By client, with queues for keys."""
    assert bodies.encode(ConsumerStatus(clients={"c1": {QUEUE: 5}})) == (
        b'{"consumerTable":{"c1":{{"brokerName":"broker-a","queueId":0,"topic":"Life"}:5}},'
        b'"messageQueueTable":{}}'
    )


def test_corrections_and_permissions() -> None:
    """Queue ids without quotes."""
    found = bodies.encode(Corrections({0: 0, 1: 4}))
    assert found == b'{"correctionOffsets":{0:0,1:4}}'
    found = bodies.encode(Permission(group="g1", topic="Life", is_readable=False))
    assert found == b'{"group":"g1","readable":false,"topic":"Life"}'


def test_queries_for_assignments() -> None:
    """Topic, group and model must be there, client and strategy need not."""
    query = AssignmentQuery(
        topic="T", group="g", client_id="c", strategy="AVG", message_model="CLUSTERING"
    )
    assert bodies.decode_request(AssignmentQuery, bodies.encode(query)) == query
    little = b'{"topic":"T","consumerGroup":"g","messageModel":"CLUSTERING"}'
    found = bodies.decode_request(AssignmentQuery, little)
    assert found == AssignmentQuery(
        topic="T", group="g", client_id="", strategy="", message_model="CLUSTERING"
    )
    for bad in (b"", b"[]", b"{", b"{}", little.replace(b"topic", b"x")):
        with pytest.raises(WireError):
            bodies.decode_request(AssignmentQuery, bad)


def test_assignments() -> None:
    """None, nothing and some are three answers."""
    for queues in (None, [], [QUEUE]):
        assignment = QueueAssignment.of(queues)
        assert bodies.decode(QueueAssignment, bodies.encode(assignment)) == assignment
    assert bodies.encode(QueueAssignment.of([QUEUE])) == (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":0,'
        b'"topic":"Life"},"mode":"PULL"}]}'
    )


def test_modes() -> None:
    """One, and all of them."""
    mode = RequestMode(topic="Life", group="g1", pop_share_queues=3)
    assert bodies.decode_request(RequestMode, bodies.encode(mode)) == mode
    little = b'{"topic":"T","consumerGroup":"g"}'
    assert bodies.decode_request(RequestMode, little) == RequestMode(topic="T", group="g")
    for bad in (b'{"topic":"T"}', b'{"consumerGroup":"g"}'):
        with pytest.raises(WireError):
            bodies.decode_request(RequestMode, bad)
    assert bodies.encode(RequestModeTable({"Life": {"g1": mode}})) == (
        b'{"messageRequestModeMap":{"Life":{"g1":{"consumerGroup":"g1","mode":"PULL",'
        b'"popShareQueueNum":3,"topic":"Life"}}}}'
    )
