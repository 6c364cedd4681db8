"""What requests about assignments may leave out."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import AssignmentQuery
from sprocket.rocketmq.codec.config import RequestMode


def test_queries_for_assignments() -> None:
    """Topic, group and model must be there, client and strategy need not."""
    little = b'{"topic":"T","consumerGroup":"g","messageModel":"CLUSTERING"}'
    found = bodies.decode_request(AssignmentQuery, little)
    assert found == AssignmentQuery(
        topic="T", group="g", client_id="", strategy="", message_model="CLUSTERING"
    )
    for bad in (b"", b"[]", b"{", b"{}", little.replace(b"topic", b"x")):
        with pytest.raises(WireError):
            bodies.decode_request(AssignmentQuery, bad)


def test_modes() -> None:
    """Topic and group must be there."""
    little = b'{"topic":"T","consumerGroup":"g"}'
    assert bodies.decode_request(RequestMode, little) == RequestMode(topic="T", group="g")
    for bad in (b'{"topic":"T"}', b'{"consumerGroup":"g"}'):
        with pytest.raises(WireError):
            bodies.decode_request(RequestMode, bad)
