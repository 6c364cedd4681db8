"""The quick ways to write answers give what the declared headers give."""

import pytest

from sprocket.rocketmq.codec import command, quick_answers
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import PullMessageAnswer, SendMessageAnswer


@pytest.mark.parametrize("key", ["7F00000100002A9F", 'with "quotes" and \\', "延迟", ""])
def test_a_stored_message(key: str) -> None:
    """To the byte, whatever the producer's key is."""
    declared = SendMessageAnswer(
        msg_id=f"7F00000100002A9F{0xABCDEF:016X}",
        queue_id=3,
        queue_offset=1 << 40,
        transaction_id=key or None,
    )
    expected = command.response(Command(code=310, opaque=-7), 0, declared)
    found = quick_answers.stored(-7, b"7F00000100002A9F", 0xABCDEF, 3, 1 << 40, key)
    assert b"".join(expected) == found


@pytest.mark.parametrize("opaque", [0, -7, (1 << 31) - 1])
def test_an_answer_with_messages_is_right_to_the_byte(opaque: int) -> None:
    """To the byte, and the messages are not copied."""
    declared = PullMessageAnswer(
        next_begin_offset=1 << 40, min_offset=0, max_offset=-1, topic_sys_flag=3, group_sys_flag=1
    )
    runs = [memoryview(b"one"), memoryview(b"and two")]
    request = Command(code=11, opaque=opaque)
    expected = command.response(request, 0, declared, "FOUND", runs)
    found = quick_answers.found(opaque, declared, runs, 10)
    assert b"".join(expected) == b"".join(found)
    assert found[1:] == runs
    assert all(one is other for one, other in zip(found[1:], runs, strict=True))


@pytest.mark.parametrize("opaque", [0, -7, (1 << 31) - 1])
def test_that_something_is_done(opaque: int) -> None:
    """To the byte."""
    expected = command.response(Command(code=37, opaque=opaque), 0)
    assert b"".join(expected) == quick_answers.done(opaque)


def test_no_frame_is_larger_than_a_client_takes() -> None:
    """Who asks for one is mistaken: the number of a batch's messages has a limit."""
    with pytest.raises(AssertionError, match="a header of"):
        quick_answers.stored(1, b"0" * (1 << 24), 0, 0, 0, "")
