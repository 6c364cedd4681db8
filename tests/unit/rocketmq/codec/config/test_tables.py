"""Topics and groups as JSON, and registrations."""

import struct
import zlib

import pytest
from tests import registrations
from tests.registrations import sized

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.config import DataVersion, RegisterBrokerBody, declared, tables
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.topic import TopicConfig

TOPIC = TopicConfig(
    name="t",
    read_queues=4,
    write_queues=3,
    perm=7,
    order=True,
    filter_type="MULTI_TAG",
    sys_flag=1,
    attributes={"+k": "v w"},
)
BODY = RegisterBrokerBody(
    version=DataVersion(3, 1_700_000_000_000, 2),
    topics=[TOPIC, TopicConfig(name="u")],
    filter_servers=["h:1"],
)


def test_a_topic_has_the_members_of_topic_config() -> None:
    """Sorted by name, as fastjson writes a bean."""
    assert bodies.encode(TopicConfig(name="t", read_queues=4, write_queues=4)) == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":4,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4}'
    )


def test_a_topic_is_read_back() -> None:
    """With everything in it, and with nothing but the name it goes by."""
    assert bodies.decode(TopicConfig, bodies.encode(TOPIC)) == TOPIC
    assert tables.TOPICS.one("x", {}) == TopicConfig(name="x")


def test_a_group_is_read_back() -> None:
    """With everything in it, and with nothing but the name it goes by."""
    group = SubscriptionGroup(
        name="g",
        consume_enable=False,
        retry_queues=2,
        retry_times_max=3,
        retry_policy={"type": "EXPONENTIAL"},
        subscriptions=({"topic": "t"},),
        attributes={"a": "b"},
    )
    assert tables.GROUPS.one("other", declared.plain(group)) == group
    assert tables.GROUPS.one("x", {}) == SubscriptionGroup(name="x")
    assert "subscriptionDataSet" not in declared.plain(SubscriptionGroup(name="x"))


def test_versions_rise() -> None:
    """The counter by one; the term stays."""
    assert DataVersion.new(5) == DataVersion(0, 5, 0)
    assert DataVersion(1, 5, 2).next(9) == DataVersion(2, 9, 2)
    assert DataVersion.from_json(None, 7) == DataVersion(0, 7, 0)
    assert DataVersion.from_json({"counter": "4"}, 7) == DataVersion(4, 7, 0)


def test_a_registration_is_read_back() -> None:
    """Plain, as brokers send it by default."""
    assert tables.decode_register_broker(tables.encode_register_broker(BODY)) == BODY


def test_a_compressed_registration_is_read_back() -> None:
    """But for the two members that this form does not have."""
    data = registrations.compressed(BODY)
    found = tables.decode_register_broker(data, compressed=True)
    expected = TopicConfig(
        name="t",
        read_queues=4,
        write_queues=3,
        perm=7,
        filter_type="MULTI_TAG",
        attributes={"+k": "v w"},
    )
    assert (BODY.version, ["h:1"]) == (found.version, found.filter_servers)
    assert [expected, TopicConfig(name="u")] == found.topics


def test_an_old_broker_sends_neither_attributes_nor_mappings() -> None:
    """Before 5.0.0 a line has five fields, and nothing follows the filter servers."""
    parts = sized(b"{}") + struct.pack(">i", 1) + sized(b"t 4 4 6 SINGLE_TAG") + sized(b"[]")
    data = zlib.compress(parts)
    found = tables.decode_register_broker(data, compressed=True, version=401)
    assert found.topics == [TopicConfig(name="t", read_queues=4, write_queues=4)]
    with pytest.raises(WireError):
        tables.decode_register_broker(data, compressed=True, version=413)
    with_mapping = zlib.compress(parts + struct.pack(">i", 1) + sized(b"{}"))
    assert tables.decode_register_broker(with_mapping, compressed=True) == found


def test_an_empty_registration_has_no_topics() -> None:
    """A broker may send no body at all."""
    assert tables.decode_register_broker(b"").topics == []


PARTS = registrations.sections(BODY)


@pytest.mark.parametrize("size", range(0, len(PARTS), 3))
def test_a_compressed_registration_cut_short_is_a_wire_error(size: int) -> None:
    """Wherever the content ends."""
    with pytest.raises(WireError):
        tables.decode_register_broker(zlib.compress(PARTS[:size]), compressed=True)


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
        tables.decode_register_broker(zlib.compress(data), compressed=True)


@pytest.mark.parametrize("data", [b"[]", b"x", b'{"topicConfigSerializeWrapper":5}'])
def test_nonsense_in_a_plain_registration_is_a_wire_error(data: bytes) -> None:
    """As for every body."""
    with pytest.raises(WireError):
        tables.decode_register_broker(data)
