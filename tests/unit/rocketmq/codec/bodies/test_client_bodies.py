"""What clients say of themselves."""

from collections.abc import Callable
from typing import Any

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ClientCheck,
    ConsumerData,
)
from sprocket.rocketmq.model.group import Subscription


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
    """Missing members have RocketMQ's defaults, and so have names that nobody knows."""
    little = b'{"consumerDataSet":[{"groupName":"","subscriptionDataSet":[]}]}'
    (consumer,) = bodies.decode_heartbeat(little).consumers
    assert consumer == ConsumerData(group="", subscriptions=[])
    odd = little.replace(b'"groupName"', b'"consumeType":"X","messageModel":"X","groupName"')
    assert bodies.decode_heartbeat(odd).consumers == [consumer]


@pytest.mark.parametrize(
    "body",
    [
        '{"producerDataSet":[{"groupName":"g"}]}',
        '{"clientID":"c","producerDataSet":[{}]}',
        '{"clientID":"c","consumerDataSet":[{"subscriptionDataSet":[]}]}',
        '{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}',
        '{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
    ],
)
def test_a_heartbeat_that_does_not_say_who_it_is_of_is_refused(body: str) -> None:
    """Client, group, subscriptions and their topics must be there, as RocketMQ has it."""
    with pytest.raises(WireError, match="without"):
        bodies.decode_heartbeat(body.encode())


@pytest.mark.parametrize(
    ("body", "is_locked", "is_unlocked"),
    [
        ("{}", True, False),
        ('{"clientId":"c","consumerGroup":"g"}', True, True),
        ('{"clientId":"c","mqSet":[{"topic":"t"}]}', False, False),
        ('{"clientId":"c","consumerGroup":"g","mqSet":null}', False, False),
        ('{"consumerGroup":"g","mqSet":[{"topic":"t"}]}', True, True),
    ],
)
def test_what_a_lock_request_may_leave_out(body: str, is_locked: bool, is_unlocked: bool) -> None:
    """RocketMQ stumbles over the others, a little sooner where it unlocks."""
    for is_group_needed, is_read in ((False, is_locked), (True, is_unlocked)):
        try:
            bodies.decode_lock(body.encode(), is_group_needed=is_group_needed)
        except WireError:
            assert not is_read
        else:
            assert is_read


def test_a_client_check_is_read() -> None:
    """With and without a type."""
    data = (
        b'{"clientId":"c","group":"g",'
        b'"subscriptionData":{"expressionType":"SQL92","subString":"a > 1","topic":"t"}}'
    )
    check = bodies.decode_request(ClientCheck, data)
    assert (check.client_id, check.group) == ("c", "g")
    assert check.subscription == Subscription.parse("t", "a > 1", type="SQL92")
    assert bodies.decode_request(ClientCheck, b"{}").subscription.type == "TAG"


@pytest.mark.parametrize(
    ("decode", "data"),
    [
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
