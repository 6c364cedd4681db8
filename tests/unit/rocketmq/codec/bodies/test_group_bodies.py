"""Groups and their clients, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    GroupTable,
    ProducerConnection,
)
from sprocket.rocketmq.codec.config import DataVersion, declared
from sprocket.rocketmq.model.group import SubscriptionGroup


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    with pytest.raises(WireError, match="connectionSet"):
        bodies.decode(ProducerConnection, b'{"connectionSet":3}')
    with pytest.raises(WireError, match="forbiddenTable is not a number"):
        bodies.decode(GroupTable, b'{"forbiddenTable":{"g":{"t":"x"}}}')


def test_a_table_of_groups_comes_in_pieces_by_the_order_of_names() -> None:
    """As RocketMQ's library sorts its members."""
    groups = [SubscriptionGroup(name=f'g{number}é"') for number in range(1000)]
    table = GroupTable(version=DataVersion(1, 2), groups=groups, forbidden={"g1": {"t": 1}})
    pieces = list(bodies.encode_pieces(table))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 2 * declared.PIECE_BYTES
    whole = {
        "dataVersion": declared.plain(DataVersion(1, 2)),
        "forbiddenTable": {"g1": {"t": 1}},
        "subscriptionGroupTable": {one.name: declared.plain(one) for one in groups},
    }
    assert b"".join(pieces) == declared.encode(whole)
