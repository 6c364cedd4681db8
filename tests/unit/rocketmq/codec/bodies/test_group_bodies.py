"""Groups and their clients, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClientConnection,
    ConsumerConnection,
    GroupConfigs,
    GroupSubscription,
    GroupTable,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
)
from sprocket.rocketmq.codec.config import DataVersion, declared
from sprocket.rocketmq.model.group import BROADCASTING, Subscription, SubscriptionGroup

GROUPS = [
    SubscriptionGroup(name="g", retry_queues=3),
    SubscriptionGroup(name="h", consume_enable=False, attributes={"a": "b"}),
]
CLIENT = ClientConnection(client_id="c@1", address="1.2.3.4:5", language="JAVA", version=479)
SUBSCRIPTION = Subscription.parse("t", "a||b", version=5)


def test_groups_are_read_back() -> None:
    """One, a list, the whole table."""
    assert bodies.decode_group(bodies.encode(GROUPS[0])) == GROUPS[0]
    assert bodies.decode_groups(bodies.encode(GroupConfigs(GROUPS))) == GROUPS
    table = GroupTable(version=DataVersion(1, 2), groups=GROUPS, forbidden={"g": {"t": 1}})
    assert bodies.decode(GroupTable, bodies.encode(table)) == table


def test_clients_are_read_back() -> None:
    """Consumers with what they subscribe to, producers."""
    found = ConsumerConnection(
        connections=[CLIENT],
        subscriptions=[SUBSCRIPTION],
        consume_type="CONSUME_PASSIVELY",
        message_model=BROADCASTING,
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
    )
    data = bodies.encode(found)
    assert bodies.decode(ConsumerConnection, data) == found
    data = bodies.encode(ProducerConnection([CLIENT]))
    assert data == (
        b'{"connectionSet":[{"clientAddr":"1.2.3.4:5","clientId":"c@1","language":"JAVA",'
        b'"version":479}]}'
    )
    assert bodies.decode(ProducerConnection, data).connections == [CLIENT]
    one = ProducerInfo(
        client_id="c", address="1.2.3.4:5", language="GO", version=1, seen_at_ms=1_700_000_000_000
    )
    producers = {"p": [one], "q": []}
    assert bodies.decode(ProducerTable, bodies.encode(ProducerTable(producers))).groups == producers


@pytest.mark.parametrize("subscription", [None, SUBSCRIPTION])
def test_a_subscription_is_read_back(subscription: Subscription | None) -> None:
    """There may be none."""
    found = GroupSubscription(group="g", topic="t", subscription=subscription)
    data = bodies.encode(found)
    assert bodies.decode(GroupSubscription, data) == found


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    with pytest.raises(WireError, match="connectionSet"):
        bodies.decode(ProducerConnection, b'{"connectionSet":3}')
    with pytest.raises(WireError, match="forbiddenTable is no number"):
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
