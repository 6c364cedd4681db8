"""The quick way to write the answer to a send gives what the declared header gives."""

import pytest

from sprocket.rocketmq.codec import command, send_answer
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import SendMessageAnswer


@pytest.mark.parametrize("key", ["7F00000100002A9F", 'with "quotes" and \\', "延迟", ""])
def test_it_equals_the_declared_header(key: str) -> None:
    """To the byte, whatever the producer's key is."""
    declared = SendMessageAnswer(
        msg_id=f"7F00000100002A9F{0xABCDEF:016X}",
        queue_id=3,
        queue_offset=1 << 40,
        transaction_id=key,
    )
    expected = command.response(Command(code=310, opaque=-7), 0, declared)
    found = send_answer.encode(-7, b"7F00000100002A9F", 0xABCDEF, 3, 1 << 40, key)
    assert b"".join(expected) == found
