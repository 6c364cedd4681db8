"""What is checked and made of a message before it is sent."""

import random

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.outgoing import (
    Outgoing,
    check_group,
    check_topic,
    prepare,
    prepare_batch,
)
from sprocket.rocketmq.codec import batch, properties
from sprocket.rocketmq.codec.ids import UniqueIds
from sprocket.rocketmq.model.message import Message
from sprocket.testing.clock import FakeClock

IDS = UniqueIds(FakeClock())


def ready(message: Message) -> Outgoing:
    """Prepare a message with the usual limits."""
    return prepare(message, IDS, 5, body_bytes_max=1 << 22, compress_bytes_min=4096)


def test_properties_carry_id_tag_keys_and_the_users_own() -> None:
    """Keys are joined by blanks; the unique key is new for each message."""
    one = ready(Message("t", b"x", tag="A", keys=["k", "l"], properties={"p": "q"}))
    assert {"UNIQ_KEY": one.ids[0], "TAGS": "A", "KEYS": "k l", "p": "q"} == properties.decode(
        one.properties
    )
    assert ready(Message("t", b"x")).ids != one.ids


def test_a_unique_key_of_the_users_own_is_kept() -> None:
    """Whoever sends a message again after a crash can give it the same id."""
    assert ready(Message("t", b"x", properties={"UNIQ_KEY": "mine"})).ids == ("mine",)


def test_bodies_that_do_not_shrink_stay_as_they_are() -> None:
    """Packing is for what becomes smaller."""
    noise = random.Random(7).randbytes(5000)
    assert (noise, 0) == (ready(Message("t", noise)).body, ready(Message("t", noise)).sys_flag)
    assert ready(Message("t", b"a" * 4096)).sys_flag == 0x301
    assert ready(Message("t", b"a" * 4095)).sys_flag == 0


def test_packed_and_delayed_messages_travel_alone() -> None:
    """A batch can hold neither."""
    assert ready(Message("t", b"a" * 4096)).is_alone
    assert ready(Message("t", b"a", properties={"DELAY": "3"})).is_alone
    assert ready(Message("%RETRY%g", b"a")).is_alone
    assert not ready(Message("t", b"a")).is_alone


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (Message("", b"x"), "topic ''"),
        (Message("a b", b"x"), "topic 'a b'"),
        (Message("t" * 128, b"x"), "1 to 127"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "belongs to the broker"),
        (Message("t", b""), "body of 0 bytes"),
        (Message("t", b"x" * ((1 << 22) + 1)), "body_bytes_max"),
        (Message("t", b"x", keys="word"), "list of words"),
        (Message("t", b"x", keys=["a b"]), "without blanks"),
        (Message("t", b"x", keys=[""]), "without blanks"),
        (Message("t", b"x", properties={"TAGS": "A"}), r"Message\(tag=…\)"),
        (Message("t", b"x", properties={"KEYS": "A"}), r"Message\(keys=…\)"),
        (Message("t", b"x", properties={"a\x01": "A"}), "0x01"),
        (Message("t", b"x", properties={"a": "A" * 33_000}), "32767"),
    ],
)
def test_a_broken_rule_is_named(message: Message, complaint: str) -> None:
    """The error says what was expected."""
    with pytest.raises(InvalidMessage, match=complaint):
        ready(message)


def test_limits_themselves_are_allowed() -> None:
    """127 characters of topic, 4 MiB of body."""
    assert ready(Message("t" * 127, b"x" * (1 << 22)))


def test_a_batch_holds_its_messages_in_order() -> None:
    """Each part has its own properties and id."""
    one = prepare_batch(
        [Message("t", b"a", tag="A", flag=3), Message("t", b"b")], IDS, 5, body_bytes_max=1000
    )
    parts = batch.split(one.body)
    assert [(part.flag, bytes(part.body)) for part in parts] == [(3, b"a"), (0, b"b")]
    assert list(one.ids) == [properties.find(part.properties, "UNIQ_KEY") for part in parts]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "at least one"),
        ([Message("t", b"a"), Message("u", b"a")], "one topic"),
        ([Message("t", b"")], "empty body"),
        ([Message("t", b"a", properties={"DELAY": "1"})], "cannot be batched"),
        ([Message("%RETRY%g", b"a")], "cannot be batched"),
        ([Message("t", b"a" * 1000)], "split it"),
    ],
)
def test_a_batch_has_rules_of_its_own(messages: list[Message], complaint: str) -> None:
    """What RocketMQ refuses in a batch is refused here."""
    with pytest.raises(InvalidMessage, match=complaint):
        prepare_batch(messages, IDS, 5, body_bytes_max=1000)


def test_names_of_groups() -> None:
    """Up to 255 letters, digits and some signs."""
    assert check_group("g" * 255) == "g" * 255
    for wrong in ("", "g" * 256, "a b"):
        with pytest.raises(InvalidMessage):
            check_group(wrong)
    assert check_topic("%RETRY%g|x_y-z") == "%RETRY%g|x_y-z"
