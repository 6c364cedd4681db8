"""Handles and texts of popped messages, as RocketMQ 5.3.3 writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import pop_info
from sprocket.rocketmq.model import pop
from sprocket.rocketmq.model.pop import PopHandle, PopTopic

AT_MS = 1_700_000_000_123
WHOLE = PopHandle(9, AT_MS, 60_000, 3, PopTopic.NORMAL, "broker-a", 2)
NUMBERS = st.integers(0, (1 << 63) - 1)
HANDLES = st.builds(
    PopHandle,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.integers(0, 999),
    st.sampled_from(PopTopic),
    st.text("abc-_%", min_size=1),
    st.integers(0, 99),
    st.none() | NUMBERS,
)


def test_handles_are_written_as_rocketmq_does() -> None:
    """Recorded from `ExtraInfoUtil`."""
    assert pop_info.handle_text(WHOLE) == "9 1700000000123 60000 3 0 broker-a 2"
    one = PopHandle(9, AT_MS, 60_000, 3, PopTopic.RETRY_V2, "broker-a", 2, 77)
    assert pop_info.handle_text(one) == "9 1700000000123 60000 3 2 broker-a 2 77"


@given(HANDLES)
def test_any_handle_comes_back(handle: PopHandle) -> None:
    """As it was written."""
    assert pop_info.read_handle(pop_info.handle_text(handle)) == handle


@pytest.mark.parametrize(
    "text",
    ["", "1 2 3", "1 2 3 4 0 b", "x 2 3 4 0 b 6 7", "1 2 3 4 5 b 6", f"1 2 {'9' * 25} 4 0 b 6"],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    """With what is wrong."""
    with pytest.raises(WireError, match="handle"):
        pop_info.read_handle(text)


def test_texts_of_an_answer() -> None:
    """Recorded from `ExtraInfoUtil`."""
    normal, retry = PopTopic.NORMAL, PopTopic.RETRY_V2
    assert pop_info.starts_text([(normal, 2, 17), (retry, 0, 3)]) == "0 2 17;2 0 3"
    assert pop_info.offsets_text([(normal, 2, [17, 18]), (normal, 3, [1])]) == "0 2 17,18;0 3 1"
    assert pop_info.counts_text([(normal, 2, [17, 18], {17: 3})]) == "0 qo2%17 3;0 2 0"
    assert pop_info.counts_text([(normal, 2, [17], {17: 3}), (normal, 3, [1], {})]) == (
        "0 qo2%17 3;0 2 3;0 3 0"
    )


def test_names_of_topics() -> None:
    """Recorded from `KeyBuilder`."""
    assert pop.retry_topic_v1("orders", "g") == "%RETRY%g_orders"
    assert pop.retry_topic_v2("orders", "g") == "%RETRY%g+orders"
