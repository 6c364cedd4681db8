"""From declared headers to ext fields and back."""

from typing import ClassVar

import pytest
from msgspec import field

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec import ext
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.ext import Header, Int32, Int64


class Sample(Header, frozen=True, kw_only=True, gc=False, rename="camel"):
    """One field of each kind."""

    topic_name: str
    queue_id: Int32
    born_at: Int64 = 0
    is_batch: bool = False
    short: str = field(name="s", default="")
    perhaps: Int32 | None = None
    note: str | None = None


class Lenient(Header, frozen=True, kw_only=True, gc=False):
    """A header whose unreadable numbers are absent."""

    unparsable_is_absent: ClassVar[bool] = True
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


@pytest.mark.parametrize("text", ["", "x", "1 ", "1.5", "0x1", "１", "9" * 30, "1_0", "--1"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    """SYSTEM_ERROR, also for a field that may be absent."""
    for texts in ({"queueId": text}, {"queueId": "1", "perhaps": text}):
        with pytest.raises(RequestRefused) as refused:
            ext.codec(Sample).read({"topicName": "t"} | texts)
        assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_a_number_with_a_plus_sign_is_one() -> None:
    """As Java's `Integer.parseInt` has it."""
    assert ext.codec(Sample).read({"topicName": "t", "queueId": "+7"}).queue_id == 7


@pytest.mark.parametrize(
    ("name", "text"),
    [("queueId", "2147483648"), ("queueId", "-2147483649"), ("bornAt", "9223372036854775808")],
)
def test_a_number_out_of_range_is_refused(name: str, text: str) -> None:
    """32 and 64 bits with sign."""
    with pytest.raises(RequestRefused):
        ext.codec(Sample).read({"topicName": "t", "queueId": "1"} | {name: text})


def test_a_missing_field_is_named() -> None:
    """By its name on the wire."""
    with pytest.raises(RequestRefused, match="topicName is missing"):
        ext.codec(Sample).read({"queueId": "1"})


def test_unreadable_numbers_of_some_headers_are_absent() -> None:
    """RocketMQ only logs them for some codes."""
    assert ext.codec(Lenient).read({"number": "x"}) == Lenient()
    assert ext.codec(Lenient).read({"number": "5"}) == Lenient(number=5)


def test_a_codec_is_made_once() -> None:
    """Its making costs a thousand times its use."""
    assert ext.codec(Sample) is ext.codec(Sample)


def test_a_header_of_another_type_is_our_own_mistake() -> None:
    """Only texts, booleans and integers can be on the wire."""

    class Wrong(Header, frozen=True, kw_only=True, gc=False):
        number: float = 0.0

    with pytest.raises(AssertionError):
        ext.codec(Wrong)
