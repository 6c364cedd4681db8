"""Attributes are changed by RocketMQ's rules; what is not there cannot be asked for."""

import pytest

from sprocket.rocketmq.broker.topics import attributes
from sprocket.rocketmq.errors import Refusal, Refused


def test_a_text_names_changes() -> None:
    """Signs stay with the names."""
    assert attributes.parse("") == {}
    assert attributes.parse("+a=b=c,-d") == {"+a": "b=c", "-d": ""}


@pytest.mark.parametrize("text", [" ", "+", "a=b", "+a", "-a=b", "+a=b,+a=c", "+a=b,"])
def test_another_text_is_refused(text: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(Refused) as caught:
        attributes.parse(text)
    assert caught.value.why is Refusal.OTHER


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
    ("old", "changes", "why", "said"),
    [
        (None, {"+a": "b"}, Refusal.OTHER, "not supported"),
        (None, {"-message.type": ""}, Refusal.OTHER, "new"),
        ({}, {"-message.type": ""}, Refusal.OTHER, "not there"),
        ({}, {"+queue.type": "SimpleCQ"}, Refusal.OTHER, "cannot be changed"),
        (None, {"+queue.type": "Batch"}, Refusal.OTHER, "SimpleCQ, BatchCQ"),
        ({"queue.type": "BatchCQ"}, {"+queue.type": "BatchCQ"}, Refusal.OTHER, "cannot be changed"),
        (None, {"+cleanup.policy": "DROP"}, Refusal.OTHER, "DELETE, COMPACTION"),
        (None, {"+message.type": "normal"}, Refusal.OTHER, "NORMAL"),
        (None, {"+reserve.time": "-2"}, Refusal.OTHER, "hours"),
        (None, {"+reserve.time": "1.5"}, Refusal.OTHER, "hours"),
        (None, {"+reserve.time": ""}, Refusal.OTHER, "hours"),
        ({}, {"+reserve.time": "9223372036854775808"}, Refusal.OTHER, "hours"),
        (None, {"+message.type": "MIXED"}, Refusal.INVALID_ARGUMENT, "MIXED"),
        (None, {"message.type": "FIFO"}, Refusal.OTHER, "expected"),
        (
            {"message.type": "FIFO"},
            {"+message.type": "DELAY", "-message.type": ""},
            Refusal.OTHER,
            "both",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    old: dict[str, str] | None, changes: dict[str, str], why: Refusal, said: str
) -> None:
    """Each with its kind and a reason."""
    with pytest.raises(Refused, match=said) as caught:
        attributes.altered(old, changes)
    assert caught.value.why is why
