"""Bodies between broker and consumer, with queues as keys as RocketMQ writes them."""

import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    DirectOutcome,
    QueueInfo,
    RunningInfo,
    TopicInfo,
)
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.route import MessageQueue

QUEUE = MessageQueue("t", "b", 3)
KEY = b'{"brokerName":"b","queueId":3,"topic":"t"}'


def test_new_offsets_may_be_a_list() -> None:
    """As brokers write them for clients in C++."""
    text = b'{"offsetTable":[{"brokerName":"b","offset":42,"queueId":3,"topic":"t"}]}'
    assert bodies.decode_offsets(text) == {QUEUE: 42}


def test_a_file_of_a_java_client_is_read() -> None:
    """Pretty-printed with tabs, keys without quotes of their own."""
    key = b'{\n\t\t"brokerName":"b",\n\t\t"queueId":3,\n\t\t"topic":"t"\n\t}'
    text = b'{\n\t"offsetTable":{' + key + b":42\n\t}\n}"
    assert bodies.decode_offsets(text) == {QUEUE: 42}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"offsetTable":{' + KEY + b':"x"}}', b'{"offsetTable":{"a":1}}']
)
def test_what_cannot_be_read_is_an_error(text: bytes) -> None:
    """Never anything else than WireError."""
    with pytest.raises(WireError):
        bodies.decode_offsets(text)


def test_what_a_consumer_tells_is_read() -> None:
    """What was written, and an answer that says nothing; the size of a cache is in MiB."""
    info = RunningInfo(
        properties={"PROP_CONSUMEORDERLY": "false"},
        subscriptions=[Subscription.parse("t", "A || B", version=7)],
        queues={QUEUE: QueueInfo(commit_offset=5, cached_bytes=3 << 20, is_locked=True)},
        topics={"t": TopicInfo(pull_ms=1.5, failures=2)},
        stacks="main\n  at work",
    )
    assert bodies.decode(RunningInfo, bodies.encode(info)) == info
    nothing = bodies.decode(RunningInfo, b"{}")
    assert nothing == RunningInfo(properties={})
    direct = bodies.encode(DirectOutcome(result="CR_LATER", orderly=True, spent_ms=7, remark="x"))
    outcome = bodies.decode(DirectOutcome, direct)
    assert (outcome.result, outcome.orderly) == ("CR_LATER", True)
    assert (outcome.spent_ms, outcome.remark) == (7, "x")
