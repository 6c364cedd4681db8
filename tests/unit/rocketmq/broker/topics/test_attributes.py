"""Attributes are changed by RocketMQ's rules; what is not there cannot be asked for."""

import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.topics import attributes


def test_a_text_names_changes() -> None:
    """Signs stay with the names."""
    assert attributes.parse("") == {}
    assert attributes.parse("+a=b=c,-d") == {"+a": "b=c", "-d": ""}


@pytest.mark.parametrize("text", [" ", "+", "a=b", "+a", "-a=b", "+a=b,+a=c", "+a=b,"])
def test_another_text_is_refused(text: str) -> None:
    """With code 1."""
    with pytest.raises(RequestRefused) as caught:
        attributes.parse(text)
    assert caught.value.code == 1


def test_changes_are_made() -> None:
    """Added, replaced, removed."""
    one = attributes.altered(None, {"+message.type": "FIFO", "+queue.type": "SimpleCQ"})
    assert one == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert attributes.altered(one, {"+message.type": "DELAY"})["message.type"] == "DELAY"
    assert attributes.altered(one, {"-message.type": ""}) == {"queue.type": "SimpleCQ"}
    assert attributes.altered(one, {}) == one
    for hours in ("-1", "0", "72", "+5", "9223372036854775807"):
        assert attributes.altered(one, {"+reserve.time": hours})["reserve.time"] == hours


@pytest.mark.parametrize(
    ("old", "changes", "code", "said"),
    [
        (None, {"+a": "b"}, 1, "not supported"),
        (None, {"-message.type": ""}, 1, "new"),
        ({}, {"-message.type": ""}, 1, "not there"),
        ({}, {"+queue.type": "SimpleCQ"}, 1, "cannot be changed"),
        (None, {"+queue.type": "Batch"}, 1, "SimpleCQ, BatchCQ"),
        ({"queue.type": "BatchCQ"}, {"+queue.type": "BatchCQ"}, 1, "cannot be changed"),
        (None, {"+cleanup.policy": "COMPACTION"}, 1, "DELETE"),
        (None, {"+message.type": "normal"}, 1, "NORMAL"),
        (None, {"+reserve.time": "-2"}, 1, "hours"),
        (None, {"+reserve.time": "1.5"}, 1, "hours"),
        (None, {"+reserve.time": ""}, 1, "hours"),
        ({}, {"+reserve.time": "9223372036854775808"}, 1, "hours"),
        (None, {"+message.type": "MIXED"}, 29, "MIXED"),
        (None, {"message.type": "FIFO"}, 1, "expected"),
        ({"message.type": "FIFO"}, {"+message.type": "DELAY", "-message.type": ""}, 1, "both"),
    ],
)
def test_what_cannot_be_is_refused(
    old: dict[str, str] | None, changes: dict[str, str], code: int, said: str
) -> None:
    """Each with its code and a reason."""
    with pytest.raises(RequestRefused, match=said) as caught:
        attributes.altered(old, changes)
    assert caught.value.code == code
