"""Registrations of brokers, plain and compressed."""

import struct
import zlib

import pytest
from msgspec import structs
from tests import registrations
from tests.registrations import sized
from tests.unit.rocketmq.codec.given import TOPIC

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import registration_body
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.codec.registration_body import RegisterBrokerBody
from sprocket.rocketmq.model.topic import TopicConfig

BODY = RegisterBrokerBody(
    version=DataVersion(3, 1_700_000_000_000, 2),
    topics=[TOPIC, TopicConfig(name="u")],
    filter_servers=["h:1"],
)


def test_a_registration_is_read_back() -> None:
    """Plain, as brokers send it by default."""
    assert registration_body.decode(registration_body.encode(BODY)) == BODY


def test_a_compressed_registration_is_read_back() -> None:
    """But for the two members that this form does not have."""
    data = registrations.compressed(BODY)
    found = registration_body.decode(data, compressed=True)
    expected = structs.replace(TOPIC, order=False, sys_flag=0)
    assert (BODY.version, ["h:1"]) == (found.version, found.filter_servers)
    assert [expected, TopicConfig(name="u")] == found.topics


def test_an_old_broker_sends_neither_attributes_nor_mappings() -> None:
    """Before 5.0.0 a line has five fields, and nothing follows the filter servers."""
    parts = sized(b"{}") + struct.pack(">i", 1) + sized(b"t 4 4 6 SINGLE_TAG") + sized(b"[]")
    data = zlib.compress(parts)
    found = registration_body.decode(data, compressed=True, version=401)
    assert found.topics == [TopicConfig(name="t", read_queues=4, write_queues=4)]
    with pytest.raises(WireError):
        registration_body.decode(data, compressed=True, version=413)
    with_mapping = zlib.compress(parts + struct.pack(">i", 1) + sized(b"{}"))
    assert registration_body.decode(with_mapping, compressed=True) == found


def test_an_empty_registration_has_no_topics() -> None:
    """A broker may send no body at all."""
    assert registration_body.decode(b"").topics == []


PARTS = registrations.sections(BODY)


@pytest.mark.parametrize("size", range(0, len(PARTS), 3))
def test_a_compressed_registration_cut_short_is_a_wire_error(size: int) -> None:
    """Wherever the content ends."""
    with pytest.raises(WireError):
        registration_body.decode(zlib.compress(PARTS[:size]), compressed=True)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\2{}\0\0\0\1\0\0\0\3a b",
        b"\0\0\0\2{}\0\0\0\1\0\0\0\x0aa x 4 6 S_",
        b"\0\0\0\2{}\x7f\xff\xff\xff",
    ],
)
def test_nonsense_in_a_compressed_registration_is_a_wire_error(data: bytes) -> None:
    """A negative size, a line with too few fields, no number, a count beyond the data."""
    with pytest.raises(WireError):
        registration_body.decode(zlib.compress(data), compressed=True)


@pytest.mark.parametrize("data", [b"[]", b"x", b'{"topicConfigSerializeWrapper":5}'])
def test_nonsense_in_a_plain_registration_is_a_wire_error(data: bytes) -> None:
    """As for every body."""
    with pytest.raises(WireError):
        registration_body.decode(data)
