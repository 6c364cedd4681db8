"""What bodies have in common."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.bodies import body_parts
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue

QUEUE = MessageQueue("t", "b", 3)


def test_a_body_must_be_an_object() -> None:
    """The error names what was to be read."""
    assert body_parts.read_object(b'{"a":1}', "x") == {"a": 1}
    with pytest.raises(WireError, match="the body of a route is no JSON object"):
        body_parts.read_object(b"[]", "a route")


def test_keys_that_json_does_not_have() -> None:
    """Entries go out as they are."""
    raw = body_parts.raw_object([b"1:2", b'{"a":1}:3'])
    assert body_parts.encode({"table": raw}) == b'{"table":{1:2,{"a":1}:3}}'


def test_pieces_are_read_back() -> None:
    """Texts, queues, subscriptions."""
    assert body_parts.texts(["a", 1], "names") == ["a", "1"]
    assert body_parts.message_queue(body_parts.message_queue_json(QUEUE)) == QUEUE
    assert body_parts.message_queues([{}], "mqSet") == [MessageQueue("", "", 0)]
    subscription = Subscription.parse("t", "a || b", version=7)
    assert body_parts.subscription(body_parts.subscription_json(subscription)) == subscription


def test_tables_by_queue_are_read_back() -> None:
    """Their keys are objects, which strict JSON has not."""
    data = body_parts.encode({"t": body_parts.queue_table_json({QUEUE: {"n": 1}})})
    assert data == b'{"t":{{"brokerName":"b","queueId":3,"topic":"t"}:{"n":1}}}'
    body = body_parts.read_answer(data, "x")
    assert body_parts.queue_table(body["t"], "t") == {QUEUE: {"n": 1}}
    with pytest.raises(WireError, match="the body of x is no JSON object"):
        body_parts.read_answer(b"1", "x")
