"""A handle says which message is to be taken back, as RocketMQ's does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import recall_handle
from sprocket.rocketmq.codec.record.recall_handle import RecallHandle

ROCKETMQS = (
    "djEgVG9waWNUZXN0IGJyb2tlci1hIDE3MzU2ODk2MDAwMDAgMEEwMDAwMDEw"
    "MDAwMDAwMDAwMDAwMDAwMDAwMDAwQUJDRA=="
)
SAID = RecallHandle(
    "TopicTest", "broker-a", 1_735_689_599_999, "0A0000010000000000000000000000ABCD"
)


def test_a_handle_of_rocketmqs() -> None:
    """Its time is a millisecond after the one at which the message is due there."""
    assert recall_handle.decode(ROCKETMQS) == SAID
    assert recall_handle.encode(SAID) == ROCKETMQS


def test_padding_may_be_missing() -> None:
    """As in Java."""
    assert recall_handle.decode(ROCKETMQS.rstrip("=")) == SAID


WORDS = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)


@given(st.builds(RecallHandle, WORDS, WORDS, st.integers(0, 2**53), WORDS))
def test_what_is_encoded_is_decoded(said: RecallHandle) -> None:
    """Whatever the names."""
    assert recall_handle.decode(recall_handle.encode(said)) == said


@given(st.text() | st.text("dAEgWiNz05_-=", min_size=4))
def test_any_text_is_a_handle_or_an_error(text: str) -> None:
    """Nothing else comes of it."""
    try:
        said = recall_handle.decode(text)
    except WireError:
        return
    assert isinstance(said, RecallHandle)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "djE=",
        "djIgYSBiIDEgYw==",
        "djEgYSBiIDEg",
        "djEgVA==\n",
        "djEgVA+/",
        ROCKETMQS + "=",
    ],
)
def test_what_is_not_a_handle(text: str) -> None:
    """Nothing, other characters, too few fields, another version, a wrong end."""
    with pytest.raises(WireError, match=r"^recall handle is invalid$"):
        recall_handle.decode(text)


def test_a_time_that_is_not_a_number_is_over() -> None:
    """RocketMQ says so of it, too."""
    text = "djEgVCBiIHNvb24gYw=="  # v1 T b soon c
    assert recall_handle.decode(text) == RecallHandle("T", "b", -1, "c")
