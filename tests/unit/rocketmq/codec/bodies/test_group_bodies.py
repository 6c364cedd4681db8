"""Groups and their clients, as texts."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies import body_parts, group_bodies
from sprocket.rocketmq.codec.bodies.group_bodies import (
    ClientConnection,
    ConsumerConnection,
    GroupSubscription,
    GroupTable,
    ProducerInfo,
)
from sprocket.rocketmq.codec.config import DataVersion, tables
from sprocket.rocketmq.model.group import BROADCASTING, Subscription, SubscriptionGroup

GROUPS = [
    SubscriptionGroup(name="g", retry_queues=3),
    SubscriptionGroup(name="h", consume_enable=False, attributes={"a": "b"}),
]
CLIENT = ClientConnection(client_id="c@1", address="1.2.3.4:5", language="JAVA", version=479)
SUBSCRIPTION = Subscription.parse("t", "a||b", version=5)


def test_groups_are_read_back() -> None:
    """One, a list, the whole table."""
    assert group_bodies.decode_group(group_bodies.encode_group(GROUPS[0])) == GROUPS[0]
    assert group_bodies.decode_group_list(group_bodies.encode_group_list(GROUPS)) == GROUPS
    table = GroupTable(version=DataVersion(1, 2), groups=GROUPS, forbidden={"g": {"t": 1}})
    assert group_bodies.decode_group_table(group_bodies.encode_group_table(table)) == table


def test_clients_are_read_back() -> None:
    """Consumers with what they subscribe to, producers."""
    found = ConsumerConnection(
        connections=[CLIENT], subscriptions=[SUBSCRIPTION], message_model=BROADCASTING
    )
    data = group_bodies.encode_consumer_connection(found)
    assert group_bodies.decode_consumer_connection(data) == found
    data = group_bodies.encode_producer_connection([CLIENT])
    assert data == (
        b'{"connectionSet":[{"clientAddr":"1.2.3.4:5","clientId":"c@1","language":"JAVA",'
        b'"version":479}]}'
    )
    assert group_bodies.decode_producer_connection(data) == [CLIENT]
    one = ProducerInfo(
        client_id="c", address="1.2.3.4:5", language="GO", version=1, seen_at_ms=1_700_000_000_000
    )
    producers = {"p": [one], "q": []}
    assert group_bodies.decode_producers(group_bodies.encode_producers(producers)) == producers


@pytest.mark.parametrize("subscription", [None, SUBSCRIPTION])
def test_a_subscription_is_read_back(subscription: Subscription | None) -> None:
    """There may be none."""
    found = GroupSubscription(group="g", topic="t", subscription=subscription)
    data = group_bodies.encode_group_subscription(found)
    assert group_bodies.decode_group_subscription(data) == found


def test_what_cannot_be_read_is_named() -> None:
    """Members of the wrong kind."""
    with pytest.raises(WireError, match="connectionSet"):
        group_bodies.decode_producer_connection(b'{"connectionSet":3}')
    with pytest.raises(WireError, match="a set of bits"):
        group_bodies.decode_group_table(b'{"forbiddenTable":{"g":{"t":"x"}}}')


def test_a_table_of_groups_comes_in_pieces_by_the_order_of_names() -> None:
    """As RocketMQ's library sorts its members."""
    groups = [SubscriptionGroup(name=f'g{number}é"') for number in range(1000)]
    table = GroupTable(version=DataVersion(1, 2), groups=groups, forbidden={"g1": {"t": 1}})
    pieces = list(group_bodies.group_table_pieces(table))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < 2 * body_parts.PIECE_BYTES
    whole = {
        "dataVersion": DataVersion(1, 2).to_json(),
        "forbiddenTable": {"g1": {"t": 1}},
        "subscriptionGroupTable": {one.name: tables.group_to_json(one) for one in groups},
    }
    assert b"".join(pieces) == body_parts.encode(whole)
