"""The declarations themselves."""

import base64
import hmac
import re

import msgspec
import pytest

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import command, ext, headers
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.remoting import Connection

KINDS = [
    kind
    for kind in vars(headers).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
]


VECTOR_4 = {
    "AccessKey": "RocketMQ",
    "a": "PG",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x01ABC\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}
"""Ext fields of the fourth vector of the protocol's description."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_header_can_be_written_and_read(kind: type[Header]) -> None:
    """Required fields and all others, from the same texts."""
    sample = {
        one.name: {str: "5", int: 5, bool: True}[ext.base_type(one.type)]
        for one in msgspec.structs.fields(kind)
    }
    header = kind(**sample)
    codec = ext.codec(kind)
    texts = codec.write(header)
    assert header == codec.read(texts)
    assert header == codec.decode(msgspec.Raw(msgspec.json.encode(texts)))


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_of_writing_agree(kind: type[Header]) -> None:
    """As a table and as a struct, with every field and with the required ones only."""
    fields = {
        one.name: {str: "ü", int: -5, bool: True}[ext.base_type(one.type)]
        for one in msgspec.structs.fields(kind)
    }
    required = {one.name: fields[one.name] for one in msgspec.structs.fields(kind) if one.required}
    codec = ext.codec(kind)
    for header in (kind(**fields), kind(**required)):
        written = msgspec.json.decode(msgspec.json.encode(codec.texts(header)))
        assert codec.write(header) == written


@pytest.mark.parametrize("kind", KINDS)
def test_headers_name_their_requests_as_the_table_of_codes_does(kind: type[Header]) -> None:
    """Each with its number; the fuzzer goes by these."""
    for name, number in re.findall(r"\b([A-Z][A-Z0-9_]+) (\d+)", kind.__doc__ or ""):
        assert (name, int(number)) in [(code.name, code.value) for code in RequestCode]


def test_v2_has_the_fields_of_send_message_under_letters() -> None:
    """A to n in the order of RocketMQ's declaration, and who signed it; nothing else differs."""
    long = {f.name: f for f in msgspec.structs.fields(headers.SendMessage)}
    short = {f.name: f for f in msgspec.structs.fields(headers.SendMessageV2)}
    assert {name: one.encode_name for name, one in short.items()} == {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "bname": "n",
        "access_key": "AccessKey",
        "signature": "Signature",
    }
    assert [(one.type, one.required, one.default) for one in long.values()] == [
        (short[name].type, short[name].required, short[name].default) for name in long
    ]


def test_vector_4_keeps_its_signature() -> None:
    """A V2 header of a Java client, signed: what arrives is, to the byte, what was signed."""
    texts = VECTOR_4 | {"Signature": "DU2Y0nXA0+24r/oJFUQRAVfIHGc="}
    (found,) = Connection().receive(b"".join(command.request(310, 0, body=b"hello", extra=texts)))
    fields = found.ext_map()
    signature = fields.pop("Signature")
    signed = "".join(fields[name] for name in sorted(fields)).encode() + found.body
    digest = hmac.digest(b"12345678", signed, "sha1")
    assert base64.b64encode(digest).decode() == signature


def test_the_fields_of_vector_4_are_read() -> None:
    """And who says to have signed it."""
    expected = headers.SendMessageV2(
        producer_group="PG",
        topic="TopicTest",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x01ABC\x02",
        access_key="RocketMQ",
    )
    assert expected == ext.codec(headers.SendMessageV2).read(VECTOR_4)
    raw = msgspec.Raw(msgspec.json.encode(VECTOR_4))
    assert expected == ext.codec(headers.SendMessageV2).decode(raw)


@pytest.mark.parametrize(
    ("text", "expected"), [(None, False), ("LOWER", False), ("UPPER", True), ("upper", True)]
)
def test_a_boundary_is_upper_in_any_case(text: str | None, expected: bool) -> None:
    """Everything else is lower."""
    header = headers.SearchOffset(topic="t", queue_id=0, timestamp=0, boundary_type=text)
    assert header.is_upper is expected


def test_names_that_are_not_camel_case() -> None:
    """Those that RocketMQ spells in its own way."""
    assert ext.codec(headers.HeartbeatAnswer).write(headers.HeartbeatAnswer()) == {
        "IS_SUPPORT_HEART_BEAT_V2": "true",
        "IS_SUB_CHANGE": "true",
    }
    unregister = headers.UnregisterClient(client_id="c")
    assert ext.codec(headers.UnregisterClient).write(unregister) == {"clientID": "c"}
    query = ext.codec(headers.QueryMessage).read(
        {"maxNum": "1", "beginTimestamp": "0", "endTimestamp": "0", "_UNIQUE_KEY_QUERY": "true"}
    )
    assert query.is_unique_key


def test_an_offset_commit_without_numbers_is_readable() -> None:
    """Code 15 is refused by its handler, with a code of its own."""
    texts = {"consumerGroup": "g", "topic": "t", "queueId": "x"}
    expected = headers.UpdateConsumerOffset(consumer_group="g", topic="t")
    assert expected == ext.codec(headers.UpdateConsumerOffset).read(texts)


def test_names_are_those_of_the_wire() -> None:
    """As mqadmin writes them."""
    read = ext.codec(headers.GetConsumeStats).read
    stats = read({"consumerGroup": "g", "topicList": "a;b", "topic": "t"})
    assert (stats.consumer_group, stats.topic_list, stats.topic) == ("g", "a;b", "t")
    deletion = ext.codec(headers.DeleteGroup).read({"groupName": "g", "cleanOffset": "true"})
    assert deletion.clean_offset
    with pytest.raises(WireError):
        ext.codec(headers.QueryConsumeQueue).read({"queueId": "1"})


def test_names_and_what_absent_fields_stand_for() -> None:
    """As mqadmin writes them; a reset without a time is one to the beginning."""
    reset = ext.codec(headers.ResetOffset).read({"topic": "T", "group": "g"})
    assert (reset.timestamp, reset.queue_id, reset.offset) == (0, -1, None)
    clone = ext.codec(headers.CloneOffsets).read({"srcGroup": "a", "destGroup": "b"})
    assert (clone.src_group, clone.dest_group, clone.topic, clone.offline) == (
        "a",
        "b",
        None,
        False,
    )
    forbidden = ext.codec(headers.GroupForbidden).read({"group": "g", "topic": "T"})
    assert forbidden.readable is None


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (
            headers.ResetOffset(topic="t", group="g", timestamp=5, is_force=True),
            {"topic": "t", "group": "g", "timestamp": "5", "isForce": "true"},
        ),
        (
            headers.GetConsumerStatus(topic="t", group="g", client_addr="a"),
            {"topic": "t", "group": "g", "clientAddr": "a"},
        ),
        (
            headers.GetConsumerRunningInfo(consumer_group="g", client_id="c"),
            {"consumerGroup": "g", "clientId": "c", "jstackEnable": "false"},
        ),
        (
            headers.ConsumeMessageDirectly(consumer_group="g", msg_id="m", topic="t"),
            {"consumerGroup": "g", "msgId": "m", "topic": "t"},
        ),
    ],
)
def test_fields_between_broker_and_consumer_have_rocketmqs_names(
    header: Header, names: dict[str, str]
) -> None:
    """What is written is read again, under the names that Java's classes have."""
    frame = b"".join(command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, 1, header))
    (received,) = Connection().receive(frame)
    for name, value in names.items():
        assert f'"{name}":"{value}"'.encode() in frame
    assert received.header(type(header)) == header


def test_a_missing_field_is_refused() -> None:
    """By name, as in every header."""
    frame = b"".join(command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, 1))
    (received,) = Connection().receive(frame)
    with pytest.raises(WireError, match="consumerGroup"):
        received.header(headers.GetConsumerRunningInfo)


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        (headers.KeyValue(namespace="n", key="k"), {"namespace": "n", "key": "k"}),
        (headers.ValueAnswer(value="v"), {"value": "v"}),
        (headers.QueryDataVersionAnswer(changed=True), {"changed": "true"}),
        (headers.WipeAnswer(wipe_topic_count=2), {"wipeTopicCount": "2"}),
        (headers.AddAnswer(add_topic_count=2), {"addTopicCount": "2"}),
        (headers.BrokerNameOnly(broker_name="b"), {"brokerName": "b"}),
        (
            headers.DeleteTopicInNames(topic="t", cluster_name="c"),
            {"topic": "t", "clusterName": "c"},
        ),
        (
            headers.QueryDataVersion(
                broker_name="b", broker_addr="a", cluster_name="c", broker_id=1
            ),
            {"brokerName": "b", "brokerAddr": "a", "clusterName": "c", "brokerId": "1"},
        ),
    ],
)
def test_the_nameservers_names_on_the_wire(header: Header, texts: dict[str, str]) -> None:
    """Both ways."""
    codec = ext.codec(type(header))
    assert codec.write(header) == texts
    assert codec.read(texts) == header


def test_a_pushed_reply_has_the_fields_of_a_send_and_three_more() -> None:
    """Under these names on the wire."""
    header = headers.PushReply(
        producer_group="g",
        topic="c_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=2,
        born_timestamp=3,
        flag=4,
        properties="a\x01b\x02",
        born_host="10.0.0.1:5",
        store_host="10.0.0.2:6",
        store_timestamp=7,
    )
    sent = b"".join(command.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 1, header))
    (received,) = Connection().receive(sent)
    assert received.ext_map() == {
        "producerGroup": "g",
        "topic": "c_REPLY_TOPIC",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "2",
        "bornTimestamp": "3",
        "flag": "4",
        "properties": "a\x01b\x02",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "bornHost": "10.0.0.1:5",
        "storeHost": "10.0.0.2:6",
        "storeTimestamp": "7",
    }
    assert received.header(headers.PushReply) == header
