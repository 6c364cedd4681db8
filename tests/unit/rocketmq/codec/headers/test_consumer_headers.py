"""Headers between broker and consumer have the names of RocketMQ's."""

import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import request
from sprocket.rocketmq.codec.headers import Header, consumer_headers
from sprocket.rocketmq.remoting import Connection


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (
            consumer_headers.ResetConsumerOffset(topic="t", group="g", timestamp=5, is_force=True),
            {"topic": "t", "group": "g", "timestamp": "5", "isForce": "true"},
        ),
        (
            consumer_headers.GetConsumerStatus(topic="t", group="g", client_addr="a"),
            {"topic": "t", "group": "g", "clientAddr": "a"},
        ),
        (
            consumer_headers.GetConsumerRunningInfo(consumer_group="g", client_id="c"),
            {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"},
        ),
        (
            consumer_headers.ConsumeMessageDirectly(consumer_group="g", msg_id="m", topic="t"),
            {"consumerGroup": "g", "msgId": "m", "topic": "t"},
        ),
    ],
)
def test_fields_have_rocketmqs_names(header: Header, names: dict[str, str]) -> None:
    """What is written is read again, under the names that Java's classes have."""
    frame = b"".join(request(RequestCode.GET_CONSUMER_RUNNING_INFO, 1, header))
    (command,) = Connection().receive(frame)
    for name, value in names.items():
        assert f'"{name}":"{value}"'.encode() in frame
    assert command.header(type(header)) == header


def test_a_missing_field_is_refused() -> None:
    """By name, as in every header."""
    frame = b"".join(request(RequestCode.GET_CONSUMER_RUNNING_INFO, 1))
    (command,) = Connection().receive(frame)
    with pytest.raises(RequestRefused, match="consumerGroup"):
        command.header(consumer_headers.GetConsumerRunningInfo)
