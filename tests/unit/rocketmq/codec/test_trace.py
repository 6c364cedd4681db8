"""Trace records come back as they were, and those of other clients are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    ConsumeOutcome,
    MessageKind,
    Produced,
    Recalled,
    TraceRecord,
    TransactionEnded,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02")).filter(
    lambda text: text != "null"
)
NUMBER = st.integers(0, 1 << 62)
COMMON = {"at_ms": NUMBER, "region": TEXT, "group": TEXT, "topic": TEXT, "message_id": TEXT}
RECORDS = st.one_of(
    st.builds(
        Produced,
        **COMMON,
        tags=TEXT,
        keys=TEXT,
        store_host=TEXT,
        body_bytes=NUMBER,
        cost_ms=NUMBER,
        kind=st.sampled_from(MessageKind),
        offset_message_id=TEXT,
        is_success=st.booleans(),
    ),
    st.builds(
        ConsumeBegan,
        at_ms=NUMBER,
        region=TEXT,
        group=TEXT,
        request_id=TEXT,
        message_id=TEXT,
        retries=st.integers(0, 99),
        keys=TEXT,
    ),
    st.builds(
        ConsumeEnded,
        request_id=TEXT,
        message_id=TEXT,
        cost_ms=NUMBER,
        is_success=st.booleans(),
        keys=TEXT,
        outcome=st.sampled_from(ConsumeOutcome),
        at_ms=NUMBER,
        group=TEXT,
    ),
    st.builds(
        TransactionEnded,
        **COMMON,
        tags=TEXT,
        keys=TEXT,
        store_host=TEXT,
        kind=st.sampled_from(MessageKind),
        transaction_id=TEXT,
        state=TEXT,
        was_asked=st.booleans(),
    ),
    st.builds(Recalled, **COMMON, is_success=st.booleans()),
)


@given(st.lists(RECORDS, max_size=5))
def test_what_is_written_is_read(records: list[TraceRecord]) -> None:
    """Whatever its texts are."""
    assert trace.decode(trace.encode(records)) == records


def test_a_field_holds_nothing_that_ends_it() -> None:
    """It is left out, so that the record stays one."""
    one = Recalled(
        at_ms=1, region="r\x01", group="g\x02", topic="t", message_id="m", is_success=True
    )
    assert trace.decode(trace.encode([one])) == [structs.replace(one, region="r", group="g")]


@pytest.mark.parametrize(
    ("text", "offset_message_id", "client_host"),
    [
        ("Pub|5|r|g|t|m|null|k|h|1024|3|0|true", "", ""),
        ("Pub|5|r|g|t|m|null|k|h|1024|3|0|OFF|true", "OFF", ""),
        ("Pub|5|r|g|t|m|null|k|h|1024|3|0|OFF|true|10.0.0.1", "OFF", "10.0.0.1"),
        ("Pub|5|r|g|t|m|null|k|h|1024|3|0|OFF|true|10.0.0.1|more", "OFF", "10.0.0.1"),
    ],
)
def test_sends_of_all_clients(text: str, offset_message_id: str, client_host: str) -> None:
    """With fewer fields from old ones, with more from new ones."""
    (found,) = trace.decode(f"{text}\x02".replace("|", "\x01").encode())
    assert found == Produced(
        at_ms=5,
        region="r",
        group="g",
        topic="t",
        message_id="m",
        keys="k",
        store_host="h",
        body_bytes=1024,
        cost_ms=3,
        offset_message_id=offset_message_id,
        is_success=True,
        client_host=client_host,
    )


@pytest.mark.parametrize(
    ("text", "outcome", "at_ms"),
    [
        ("SubAfter|q|m|3|true|k", None, None),
        ("SubAfter|q|m|3|true|k|0", ConsumeOutcome.SUCCESS, None),
        ("SubAfter|q|m|3|true|k|2|9|g", ConsumeOutcome.RAISED, 9),
    ],
)
def test_ends_of_all_clients(text: str, outcome: ConsumeOutcome | None, at_ms: int | None) -> None:
    """The last three fields came one after the other."""
    (found,) = trace.decode(f"{text}\x02".replace("|", "\x01").encode())
    assert isinstance(found, ConsumeEnded)
    assert (found.outcome, found.at_ms, found.cost_ms) == (outcome, at_ms, 3)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(body: bytes) -> None:
    """What is not a record is left out."""
    trace.decode(body)


@pytest.mark.parametrize(
    "text", ["Pub|x", "SubBefore|1", "Recall|1|r|g|t", "Pub|5|r|g|t|m||k|h|1|3|77|true", ""]
)
def test_what_cannot_be_read_keeps_nothing_else_from_being_read(text: str) -> None:
    """The records beside it are there."""
    one = Recalled(at_ms=1, region="r", group="g", topic="t", message_id="m", is_success=False)
    body = trace.encode([one]) + f"{text}\x02".replace("|", "\x01").encode() + trace.encode([one])
    assert trace.decode(body) == [one, one]
