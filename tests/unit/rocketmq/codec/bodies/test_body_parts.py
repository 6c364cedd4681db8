"""Subscriptions, as clients write them in their own ways."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ClientCheck, ConsumerData
from sprocket.rocketmq.model.group import Subscription


@pytest.mark.parametrize("kind", ["null", '""', "0", "false", "[]"])
def test_a_type_that_says_nothing_is_that_of_tags(kind: str) -> None:
    """Whatever the client puts there; tags are worked out from the text."""
    text = f'{{"subscriptionData":{{"topic":"t","subString":"a","expressionType":{kind}}}}}'
    check = bodies.decode_request(ClientCheck, text.encode())
    assert check.subscription == Subscription.parse("t", "a")


def test_tags_and_codes_are_not_looked_at() -> None:
    """They may be texts, or anything."""
    text = b'{"subscriptionData":{"topic":"t","subString":"a","codeSet":"x","tagsSet":5}}'
    check = bodies.decode_request(ClientCheck, text)
    assert check.subscription == Subscription.parse("t", "a")


def test_a_subscription_of_a_consumer_says_its_topic() -> None:
    """As RocketMQ demands it of heartbeats, and of nothing else."""
    text = b'{"groupName":"g","subscriptionDataSet":[{"subString":"a"}]}'
    with pytest.raises(WireError, match="a subscription without topic"):
        bodies.decode(ConsumerData, text)
