"""What a user gives wrong is said at once, with what to write instead."""

from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.producer.validation import check_message, check_place, check_timeout
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("a text", r"is not a message; write Message\("),
        (None, r"None \(NoneType\) is not a message"),
        (Message(7, b"x"), "topic is 7 .*expected text"),  # type: ignore[arg-type]
        (Message("t", "x"), r"body is 'x' \(str\); .* body=text.encode\(\)"),  # type: ignore[arg-type]
        (Message("t", {"a": 1}), r"body is .*\(dict\); .*json.dumps"),  # type: ignore[arg-type]
        (Message("t", None), r"body is None .*expected bytes"),  # type: ignore[arg-type]
        (Message("t", b"x", tag=None), "tag is None"),  # type: ignore[arg-type]
        (Message("t", b"x", keys="word"), "keys is 'word' .*a list of words"),
        (Message("t", b"x", keys=7), "keys is 7 .*a list of words"),  # type: ignore[arg-type]
        (Message("t", b"x", keys=[7]), "keys is 7 .*words without blanks"),  # type: ignore[list-item]
        (Message("t", b"x", keys=["a b"]), "keys is 'a b' .*words without blanks"),
        (Message("t", b"x", properties=[]), "properties is"),  # type: ignore[arg-type]
        (Message("t", b"x", properties={"n": 1}), r"properties\['n'\] is 1 "),  # type: ignore[dict-item]
        (Message("t", b"x", properties={1: "n"}), r"properties\[1\] is 'n' "),  # type: ignore[dict-item]
        (Message("t", b"x", flag=2**31), "flag is 2147483648 .*32 bits"),
        (Message("t", b"x", flag=-(2**31) - 1), "flag is -2147483649"),
        (Message("t", b"x", flag="1"), "flag is '1'"),  # type: ignore[arg-type]
        (Message("t", b"x", delay_level=19), "delay_level is 19 .*1 to 18"),
        (Message("t", b"x", delay_level=-1), "delay_level is -1"),
        (Message("t", b"x", delay_ms=-1), "delay_ms is -1"),
        (Message("t", b"x", delay_ms=1.5), "delay_ms is 1.5"),  # type: ignore[arg-type]
        (Message("t", b"x", deliver_at_ms=2**60), "deliver_at_ms is 1152921504606846976"),
        (Message("t", b"x", deliver_at_ms="now"), "deliver_at_ms is 'now'"),  # type: ignore[arg-type]
        (Message("t", b"x", delay_ms=1, deliver_at_ms=1), "one of delay_level, delay_ms and"),
        (Message("t", b"x", delay_ms=1, delay_level=1), "one of delay_level, delay_ms and"),
        (Message("t", b"x", delay_level=1.5), "delay_level is 1.5"),  # type: ignore[arg-type]
        (Message("t", "x" * 1000), "xxx… "),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_wrong_field_is_named(message: Any, complaint: str) -> None:
    """With what was found, cut to a line, and what was expected."""
    with pytest.raises(InvalidMessage, match=complaint) as raised:
        check_message(message, 18)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")], ids=type)
def test_every_kind_of_bytes_is_a_body(body: Any) -> None:
    """What can change is copied, so that the message stays what it was."""
    taken = check_message(Message("t", body, flag=-(2**31), delay_level=18, keys=("a",)), 18)
    assert type(taken) is bytes
    assert taken == b"x"


@pytest.mark.parametrize("wrong", [-5, 0, 2**31, 1.5, "10", None])
def test_a_wait_is_milliseconds(wrong: Any) -> None:
    """None that is over before it began, and none that is longer than a broker can hold."""
    with pytest.raises(InvalidMessage, match=r"timeout_ms is .*expected milliseconds"):
        check_timeout(wrong)
    assert (check_timeout(1), check_timeout(2**31 - 1)) == (1, 2**31 - 1)


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ((7, None, None), r"sharding_key is 7 \(int\); expected text, such as str\(key\)"),
        ((None, 3, None), "queue is 3 .*a MessageQueue"),
        ((None, None, "first"), "selector is 'first' .*a function"),
        (("k", MessageQueue("t", "b", 0), None), "give one of"),
    ],
)
def test_what_decides_the_queue_is_checked(place: Any, complaint: str) -> None:
    """One of three, each of its type."""
    with pytest.raises(InvalidMessage, match=complaint):
        check_place(*place)
