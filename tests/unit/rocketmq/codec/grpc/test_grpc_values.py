"""What the protocol's messages are here, and back: names, handles, times, settings, messages."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.grpc_client import consumer_settings, message, producer_settings

from sprocket.rocketmq.codec.grpc import (
    client_settings,
    message_in,
    message_out,
    messages,
    quick_answers,
    receipt_handle,
    transaction_id,
)
from sprocket.rocketmq.codec.grpc.checks import MessageLimits
from sprocket.rocketmq.codec.grpc.client_settings import ConsumerTerms
from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.codec.grpc.messages import Message, Resource
from sprocket.rocketmq.codec.grpc.receipt_handle import Receipt
from sprocket.rocketmq.codec.grpc.resource_names import full_name, resource
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.codec.grpc.times import duration, ms_of, timestamp
from sprocket.rocketmq.codec.grpc.transaction_id import TransactionId
from sprocket.rocketmq.codec.record import parse_host, record
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.hashes import hash32, jump_hash
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.model.pop import PopHandle, PopTopic

NUMBERS = st.integers(0, (1 << 63) - 1)
NAMES = st.text("abcXYZ019_-", min_size=1, max_size=20)
HERE = "10.0.0.1:5"
LIMITS = MessageLimits(1_000_000, lambda: 1_700_000_000_000)


def stored(sent: Message, topic: str = "T", **changes: object) -> StoredMessage:
    """Return a message as the broker stores what a client sent."""
    request = message_in.checked(sent, topic, HERE, LIMITS)
    said = request.produced(3)
    host = parse_host(HERE)
    made = NewRecord(
        topic,
        said.queue_id,
        request.body,
        said.properties.encode(),
        host,
        host,
        sys_flag=said.sys_flag & 0x701,
        born_at_ms=said.born_timestamp,
    )
    data = record.encode(
        made, queue_offset=7, physical_offset=99, stored_at_ms=1_700_000_000_500, crc_tail=False
    )
    return structs.replace(record.decode(data), **changes)


@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from(PopTopic), NAMES, NUMBERS, NUMBERS)
def test_a_receipt_reads_as_it_was_written(
    start: int,
    popped_at_ms: int,
    invisible_ms: int,
    topic: PopTopic,
    broker: str,
    offset: int,
    place: int,
) -> None:
    """All nine fields."""
    handle = PopHandle(start, popped_at_ms, invisible_ms, 3, topic, broker, 2, offset)
    receipt = Receipt(handle, offset, place)
    assert receipt_handle.decode(receipt_handle.encode(receipt)) == receipt


@given(st.text(max_size=60) | st.from_regex(r"(-?[0-9]{1,25} ?){0,10}", fullmatch=True))
def test_any_text_is_a_receipt_or_none(text: str) -> None:
    """And nothing else is raised."""
    try:
        found = receipt_handle.decode(text)
    except Declined as declined:
        assert declined.code is Code.INVALID_RECEIPT_HANDLE  # noqa: PT017 - others are raised
    else:
        assert receipt_handle.decode(receipt_handle.encode(found)) == found


@given(st.text(max_size=40))
def test_any_text_is_a_transaction_or_none(text: str) -> None:
    """And one that was given out is what it was."""
    known = TransactionId(text, 5, 1 << 40)
    assert transaction_id.decode(transaction_id.encode(text, 5, 1 << 40)) == known
    try:
        found = transaction_id.decode(text)
    except Declined as declined:
        assert declined.code is Code.INVALID_TRANSACTION_ID  # noqa: PT017 - others are raised
    else:
        assert found.half_offset >= 0


@given(NAMES, NAMES, st.sampled_from(["", "%RETRY%", "%DLQ%"]))
def test_names_with_a_namespace(namespace: str, name: str, prefix: str) -> None:
    """Are one name at the broker, and two for clients."""
    given_name = Resource(resource_namespace=namespace, name=prefix + name)
    whole = full_name(given_name)
    assert whole == f"{prefix}{namespace}%{name}"
    assert resource(whole) == given_name
    assert full_name(Resource(name=prefix + name), namespace) == whole
    assert resource(full_name(Resource(name=prefix + name))).name == prefix + name


@given(st.integers(0, 10**14))
def test_times_are_kept_to_the_millisecond(ms: int) -> None:
    """Points in time and durations."""
    assert ms_of(timestamp(ms)) == ms_of(duration(ms)) == ms


@pytest.mark.parametrize(
    ("value", "buckets", "bucket"),
    [
        (2, 100_001, 80_343),
        (2_201, 100_001, 22_152),
        (10_863_919_174_838_991, 11, 6),
        (hash32("order-1002"), 16, 15),
        (hash32("g1"), 8, 6),
    ],
)
def test_groups_of_messages_belong_to_queues(value: int, buckets: int, bucket: int) -> None:
    """As Guava says."""
    assert jump_hash(value, buckets) == bucket


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1, 64))
def test_a_further_queue_takes_messages_from_all(value: int, buckets: int) -> None:
    """And none moves between the others."""
    before, after = jump_hash(value, buckets), jump_hash(value, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


def test_a_message_comes_out_as_it_went_in() -> None:
    """With all that its sender said."""
    sent = message(
        "T",
        b"body",
        "K",
        tag="A",
        keys=["k1", "k2"],
        message_group="g",
        trace_context="t",
        user_properties={"n": "1"},
    )
    sent.system_properties.delivery_timestamp.FromMilliseconds(1_700_000_099_000)
    data = message_out.received(stored(sent), sent.topic, "handle", 30_000)
    got = messages.ReceiveMessageResponse.FromString(data).message
    said = got.system_properties
    assert (got.topic, got.body, got.user_properties) == (
        sent.topic,
        sent.body,
        sent.user_properties,
    )
    for name in ("message_id", "tag", "message_group", "trace_context", "born_host"):
        assert getattr(said, name) == getattr(sent.system_properties, name)
    assert [*said.keys] == ["k1", "k2"]
    assert said.delivery_timestamp == sent.system_properties.delivery_timestamp
    assert said.born_timestamp == sent.system_properties.born_timestamp
    assert (said.queue_id, said.queue_offset, said.receipt_handle) == (3, 7, "handle")
    assert ms_of(said.invisible_duration) == 30_000
    assert said.message_type == MessageType.DELAY


TEXTS = st.text(max_size=300) | st.sampled_from(("x" * 127, "x" * 128, "é" * 9_000))


@given(TEXTS, NUMBERS | st.sampled_from((0, 127, 128, 16_384)))
def test_the_answer_to_a_send_is_what_protobuf_makes_of_it(message_id: str, offset: int) -> None:
    """Byte by byte, whatever the id and the place."""
    said = messages.Status(code=Code.OK, message="OK")
    entry = messages.SendResultEntry(status=said, message_id=message_id, offset=offset)
    expected = messages.SendMessageResponse(status=said, entries=[entry])
    assert quick_answers.sent(message_id, offset) == expected.SerializeToString()


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_the_answer_to_an_acknowledgement_is_what_protobuf_makes_of_it(
    pairs: list[tuple[str, str]],
) -> None:
    """Byte by byte, for any number of messages."""
    said = messages.Status(code=Code.OK, message="OK")
    entries = [
        messages.AckMessageResultEntry(message_id=one, receipt_handle=handle, status=said)
        for one, handle in pairs
    ]
    expected = messages.AckMessageResponse(status=said, entries=entries)
    assert quick_answers.acknowledged(pairs) == expected.SerializeToString()


def test_a_packed_body_is_stored_so_that_all_can_read_it() -> None:
    """And comes out unpacked."""
    sent = message("T", gzip.compress(b"long text"))
    sent.system_properties.body_encoding = 2
    found = stored(sent)
    assert zlib.decompress(found.stored_body) == b"long text"
    got = message_out.message(found, "T")
    assert (got.body, got.system_properties.body_encoding) == (b"long text", 1)
    for body, code in (
        (b"no gzip", Code.MESSAGE_CORRUPTED),
        (gzip.compress(b"x" * 50)[:-9], Code.MESSAGE_CORRUPTED),
        (gzip.compress(bytes(1_000_001)), Code.MESSAGE_BODY_TOO_LARGE),
    ):
        with pytest.raises(Declined) as declined:
            message_in.repacked(body, 1_000_000)
        assert declined.value.code is code


def test_a_body_that_cannot_be_unpacked_is_given_as_it_is() -> None:
    """Better than nothing."""
    broken = stored(message("T", b"plain"), sys_flag=1)
    assert message_out.message(broken, "T").body == b"plain"


def test_kinds_of_stored_messages() -> None:
    """By their properties, a transaction before all else."""
    for found, kind in (
        ({}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "g"}, MessageType.FIFO),
        ({"__SHARDINGKEY": "g", "DELAY": "1"}, MessageType.DELAY),
        ({"TRAN_MSG": "true", "DELAY": "1"}, MessageType.TRANSACTION),
    ):
        assert message_in.type_of(found) is kind


def test_consumers_are_told_how_long_to_wait_after_a_failure() -> None:
    """By the list of their group, or by a rule; the SDK for Node knows no list."""
    said = consumer_settings("g", "T")
    group = SubscriptionGroup(name="g")
    listed = client_settings.of_consumer(said, group, ConsumerTerms(20_000, "JAVA"))
    waits = [ms_of(one) for one in listed.backoff_policy.customized_backoff.next]
    assert (waits[:3], waits[-1], len(waits)) == ([1_000, 5_000, 10_000], 7_200_000, 18)
    assert listed.backoff_policy.max_attempts == 17
    assert ms_of(listed.subscription.long_polling_timeout) == 20_000
    assert listed.subscription.subscriptions == said.subscription.subscriptions
    node = client_settings.of_consumer(said, group, ConsumerTerms(20_000, "HTTP"))
    assert ms_of(node.backoff_policy.exponential_backoff.initial) == 5_000
    rule = {"initial": 100, "max": 1_000, "multiplier": 3}
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": rule}
    ruled = structs.replace(group, retry_policy=policy)
    told = client_settings.of_consumer(said, ruled, ConsumerTerms(20_000, "JAVA"))
    assert told.backoff_policy.exponential_backoff.multiplier == 3
    waited = [client_settings.retry_ms(ruled, attempt) for attempt in (1, 2, 3, 4, 100)]
    assert waited == [100, 300, 900, 1_000, 1_000]
    assert [client_settings.retry_ms(group, attempt) for attempt in (1, 2, 99)] == [
        1_000,
        5_000,
        7_200_000,
    ]
    own = structs.replace(
        group, retry_policy={"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [7]}}
    )
    assert client_settings.retry_ms(own, 3) == 7


def test_a_producer_is_told_its_limits() -> None:
    """Beside what it has said."""
    told = client_settings.of_producer(producer_settings("T"), 100)
    assert (told.publishing.max_body_size, told.publishing.topics[0].name) == (100, "T")
    assert ms_of(told.backoff_policy.exponential_backoff.max) == 1_000
