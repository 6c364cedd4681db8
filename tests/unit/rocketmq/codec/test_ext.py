"""From declared headers to ext fields and back."""

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import ext
from sprocket.rocketmq.codec.ext import FieldUnreadable, Header
from sprocket.rocketmq.model.integers import Int32, Int64


class Sample(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One field of each kind."""

    topic_name: str
    queue_id: Int32
    born_at: Int64 = 0
    is_batch: bool = False
    short: str = field(name="s", default="")
    perhaps: Int32 | None = None
    note: str | None = None


class Strict(Header, frozen=True, kw_only=True, gc=False):
    """A header whose numbers must be readable, those too that may be absent."""

    numbers_are_strict: ClassVar[bool] = True
    number: Int32 | None = None


def test_texts_are_written_as_java_writes_them() -> None:
    """Decimals, true and false; fields that are None are absent."""
    sample = Sample(topic_name="t", queue_id=-1, born_at=1 << 40, is_batch=True)
    expected = {
        "topicName": "t",
        "queueId": "-1",
        "bornAt": "1099511627776",
        "isBatch": "true",
        "s": "",
    }
    assert expected == ext.codec(Sample).write(sample)


def test_what_is_written_is_read_back() -> None:
    """Every field, optional ones included; unknown fields are ignored."""
    sample = Sample(topic_name="t", queue_id=1, short="x", perhaps=5, note="n")
    texts = ext.codec(Sample).write(sample) | {"unknown": "1"}
    assert sample == ext.codec(Sample).read(texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("TRUE", True), ("false", False), ("yes", False), ("", False), ("0", False)],
)
def test_every_other_boolean_is_false(text: str, expected: bool) -> None:
    """Java's `Boolean.parseBoolean`."""
    texts = {"topicName": "t", "queueId": "1", "isBatch": text}
    assert ext.codec(Sample).read(texts).is_batch is expected


NO_NUMBERS = [
    "",
    "x",
    "1 ",
    "1.5",
    "1.0",
    "0x1",
    "9" * 30,
    "1_0",
    "--1",
    "2147483648",
    "-2147483649",
]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_number_that_is_none_is_absent(text: str) -> None:
    """SYSTEM_ERROR where it must be there, and for the codes that RocketMQ reads by hand."""
    with pytest.raises(FieldUnreadable, match="queueId is not a number"):
        ext.codec(Sample).read({"topicName": "t", "queueId": text})
    texts = {"topicName": "t", "queueId": "1", "perhaps": text}
    assert ext.codec(Sample).read(texts).perhaps is None
    with pytest.raises(FieldUnreadable, match="number is not a number"):
        ext.codec(Strict).read({"number": text})
    assert ext.codec(Strict).read({"number": "5"}) == Strict(number=5)


def test_a_number_with_a_plus_sign_is_one() -> None:
    """As Java's `Integer.parseInt` has it; and digits of any script."""
    assert ext.codec(Sample).read({"topicName": "t", "queueId": "+7"}).queue_id == 7
    assert ext.codec(Sample).read({"topicName": "t", "queueId": "１"}).queue_id == 1


def test_a_number_has_its_bits() -> None:
    """32 or 64 with sign; one more and it is none."""
    texts = {"topicName": "t", "queueId": "-2147483648", "bornAt": "9223372036854775807"}
    found = ext.codec(Sample).read(texts)
    assert (found.queue_id, found.born_at) == (-(1 << 31), (1 << 63) - 1)
    assert ext.codec(Sample).read(texts | {"bornAt": "9223372036854775808"}).born_at == 0


@pytest.mark.parametrize(
    ("names", "buckets"),
    [
        ("queueId transactionId msgId TRACE_ON MSG_REGION queueOffset", 256),
        ("IS_SUPPORT_HEART_BEAT_V2 IS_SUB_CHANGE", 256),
        ("suggestWhichBrokerId groupSysFlag nextBeginOffset maxOffset minOffset topicSysFlag", 16),
    ],
)
def test_fields_come_in_the_order_of_a_java_table(names: str, buckets: int) -> None:
    """As the real 5.3.3 wrote them."""
    assert names.split() == ext.java_order(sorted(names.split()), buckets)


@pytest.mark.parametrize(
    "changes", [{}, {"queueId": "-1"}, {"queueId": "+5"}, {"perhaps": "x"}, {"topicName": ""}]
)
def test_a_field_that_nobody_reads_changes_nothing(changes: dict[str, str]) -> None:
    """One with a dot keeps the texts from the fast way, which takes 1.0 for a whole number."""
    texts = {"topicName": "t", "queueId": "1", **changes}
    assert ext.codec(Sample).read(texts) == ext.codec(Sample).read({**texts, "unknown": "1.0"})


def test_a_missing_field_is_named() -> None:
    """By its name on the wire."""
    with pytest.raises(WireError, match="topicName is missing"):
        ext.codec(Sample).read({"queueId": "1"})


def test_a_codec_is_made_once() -> None:
    """Its making costs a thousand times its use."""
    assert ext.codec(Sample) is ext.codec(Sample)


def test_a_header_of_another_type_is_our_own_mistake() -> None:
    """Only texts, booleans and integers can be on the wire."""

    class Wrong(Header, frozen=True, kw_only=True, gc=False):
        number: float = 0.0

    with pytest.raises(AssertionError):
        ext.codec(Wrong)


def test_texts_are_joined_in_the_order_of_their_names() -> None:
    """What is absent is empty, but for numbers with a default, and one field is left out."""
    joined = ext.text_joiner(Sample, "note")
    whole = Sample(
        topic_name="t{x}'\"", queue_id=-1, born_at=7, is_batch=True, short="s", perhaps=2, note="n"
    )
    assert joined(whole) == "7true2-1st{x}'\""
    assert joined(Sample(topic_name="", queue_id=5)) == "0false5"


@given(
    st.builds(
        Sample,
        topic_name=st.text(max_size=9),
        queue_id=st.integers(-(1 << 31), (1 << 31) - 1),
        born_at=st.integers(-(1 << 63), (1 << 63) - 1),
        is_batch=st.booleans(),
        short=st.text(max_size=9),
        perhaps=st.none() | st.integers(0, 9),
        note=st.none() | st.text(max_size=9),
    )
)
def test_joined_texts_are_those_that_are_written(sample: Sample) -> None:
    """Of any header, so that what was signed can be said from what was read."""
    texts = ext.codec(Sample).write(sample)
    expected = "".join(texts[name] for name in sorted(texts) if name != "s")
    assert ext.text_joiner(Sample, "s")(sample) == expected
