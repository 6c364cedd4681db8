"""Sends that are read without protobuf say what protobuf reads."""

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.codec.grpc import message_in, plain_send
from sprocket.rocketmq.codec.grpc.checks import MessageLimits, check_body
from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.codec.grpc.messages import (
    Message,
    Resource,
    SendMessageRequest,
    SystemProperties,
)
from sprocket.rocketmq.codec.grpc.plain_send import PlainSend
from sprocket.rocketmq.codec.grpc.resource_names import full_name
from sprocket.rocketmq.codec.grpc.status import Declined
from sprocket.rocketmq.codec.grpc.times import duration, ms_of, timestamp

HERE = "10.0.0.1:1234"
LIMITS = MessageLimits(4 << 20, lambda: 0)
BORN = timestamp(1_780_000_000_123)


def request(topic: str = "T", body: bytes = b"body", **said: object) -> SendMessageRequest:
    """Return a request as SDKs send it, but for what is said."""
    usual = {"message_id": "01ABCDEF", "body_encoding": 1, "message_type": 1, "born_host": "here"}
    properties = SystemProperties(**usual | {"born_timestamp": BORN} | said)  # type: ignore[arg-type]
    one = Message(topic=Resource(name=topic), system_properties=properties, body=body)
    return SendMessageRequest(messages=[one])


def check(data: bytes) -> bool:
    """Compare how bytes are read; tell whether that was done without protobuf."""
    try:
        expected = SendMessageRequest.FromString(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            plain_send.read(data)
        return False
    found = plain_send.read(data)
    if not isinstance(found, PlainSend):
        assert found == expected
        return False
    (one,) = expected.messages
    said = one.system_properties
    assert (found.message_id, found.body) == (said.message_id, one.body)
    assert full_name(found.topic, "ns") == full_name(one.topic, "ns")
    assert found.topic.name == one.topic.name
    assert (found.born_at_ms, found.born_host) == (ms_of(said.born_timestamp), said.born_host)
    kinds = [outcome(found, one), outcome(one, one)]
    assert kinds[0] == kinds[1]
    for name in ("body_encoding", "message_type", "queue_id"):
        said.ClearField(name)
    left = SystemProperties(message_id=found.message_id, born_host=found.born_host)
    left.born_timestamp.CopyFrom(said.born_timestamp)
    rest = Message(topic=one.topic, system_properties=left, body=found.body)
    assert expected == SendMessageRequest(messages=[rest])
    return True


def outcome(given: PlainSend | Message, one: Message) -> object:
    """Return what is to be stored, or why nothing is."""
    try:
        if isinstance(given, PlainSend):
            check_body(len(given.body), LIMITS)
            return given.body, message_in.produced_plain(given, one.topic.name, 3, HERE)
        checked = message_in.checked(given, one.topic.name, HERE, LIMITS)
        assert (checked.type, checked.group) == (MessageType.NORMAL, "")
        return checked.body, checked.produced(3)
    except Declined as declined:
        return declined.code, declined.why


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 300_000, 2_097_152])
def test_what_sdks_send_is_plain(size: int) -> None:
    """With or without what needs not be there, bodies of any size."""
    body = b'"' * size
    assert check(request(body=body).SerializeToString()) == bool(size)
    for said in (
        {"queue_id": 7},
        {"message_type": 2},
        {"body_encoding": 0},
        {"born_host": "h" * 40},
    ):
        assert check(request(body=body, **said).SerializeToString()) == bool(size)


UNUSUAL: dict[str, Any] = {
    "tag": "a",
    "keys": ["k"],
    "message_id": "é",
    "body_encoding": 2,
    "message_type": 4,
    "born_timestamp": timestamp(0),
    "born_host": "ö",
    "store_timestamp": BORN,
    "store_host": "s",
    "delivery_timestamp": BORN,
    "receipt_handle": "r",
    "queue_id": 300,
    "queue_offset": 1,
    "invisible_duration": duration(1),
    "delivery_attempt": 2,
    "message_group": "g",
    "trace_context": "t",
    "orphaned_transaction_recovery_duration": duration(1),
    "lite_topic": "l",
    "priority": 1,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_left_to_protobuf(name: str) -> None:
    """Any field that is not expected, or whose value is not."""
    assert not check(request(**{name: UNUSUAL[name]}).SerializeToString())


def test_other_requests_are_left_to_protobuf() -> None:
    """Several messages, none, properties of users, something after the last field."""
    one = request()
    assert not check(SendMessageRequest().SerializeToString())
    assert not check(SendMessageRequest(messages=[*one.messages] * 2).SerializeToString())
    assert not check(one.SerializeToString() + b"\x50\x01")
    one.messages[0].user_properties["a"] = "b"
    assert not check(one.SerializeToString())


def test_each_byte_counts() -> None:
    """A plain request of which any byte is any other, is missing, or is there twice."""
    data = request("T", b"b" * 3, queue_id=5, message_id="0").SerializeToString()
    for at in range(len(data)):
        for byte in range(256):
            check(data[:at] + bytes([byte]) + data[at + 1 :])
        check(data[:at] + data[at + 1 :])
        check(data[:at] + data[at : at + 1] + data[at:])
        check(data[:at])


@pytest.mark.parametrize("topic", [1, 125, 126, 127])
@pytest.mark.parametrize("host", [1, 100, 101, 102, 103, 104, 127])
def test_sizes_of_more_than_a_byte(topic: int, host: int) -> None:
    """As they are, and as if they were of one byte."""
    sent = request("T" * topic, born_host="h" * host)
    check(sent.SerializeToString())
    (one,) = sent.messages
    parts = (one.topic, b"\x0a"), (one.system_properties, b"\x1a")
    found = b"".join(
        tag + bytes([part.ByteSize()]) + part.SerializeToString() for part, tag in parts
    )
    found += b"\x22\x04body"
    check(b"\x0a" + bytes([len(found) & 127 | 128, len(found) >> 7]) + found)


@given(st.text(max_size=20), st.text(max_size=50), st.text(max_size=50), st.binary(max_size=200))
def test_any_texts_are_read_as_protobuf_does(topic: str, name: str, host: str, body: bytes) -> None:
    """Topic, id and host may hold what the pattern looks for."""
    check(request(topic, body, message_id=name, born_host=host).SerializeToString())


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(-(2**31), 2**31 - 1))
def test_any_time_is_read_as_protobuf_does(seconds: int, nanos: int) -> None:
    """Also one that is none."""
    sent = request()
    born = sent.messages[0].system_properties.born_timestamp
    born.seconds, born.nanos = seconds, nanos
    check(sent.SerializeToString())
