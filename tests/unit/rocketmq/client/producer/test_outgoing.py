"""What is checked and made of a message before it is sent."""

import random
import sys
from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client import ProducerSettings
from sprocket.rocketmq.client.producer import check_group, check_topic, split_batch
from sprocket.rocketmq.client.producer.outgoing import Outgoing, prepare, prepare_batch
from sprocket.rocketmq.codec.record import UniqueIds, batch, properties
from sprocket.rocketmq.model.message import Message, unpacked
from sprocket.testing.clock import FakeClock

IDS = UniqueIds(FakeClock())


def ready(message: Message) -> Outgoing:
    """Prepare a message with the usual limits."""
    return prepare(message, IDS, 5, ProducerSettings())


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


@pytest.mark.parametrize(("method", "bits"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
@pytest.mark.parametrize("level", [1, 9])
def test_every_method_packs(method: Any, bits: int, level: int) -> None:
    """The flag says how, and the reader gets what was sent."""
    settings = ProducerSettings(compress_method=method, compress_level=level)
    one = prepare(Message("t", b"a" * 5000), IDS, 5, settings)
    assert one.sys_flag == bits
    assert unpacked(one.body, one.sys_flag) == b"a" * 5000


def test_a_delay_is_a_property() -> None:
    """As Java's clients write it."""
    one = ready(Message("t", b"x", delay_level=3))
    assert properties.find(one.properties, "DELAY") == "3"


@pytest.mark.parametrize(
    ("message", "name", "text"),
    [
        (Message("t", b"x", delay_ms=1500), "TIMER_DELAY_MS", "1500"),
        (Message("t", b"x", deliver_at_ms=1_700_000_000_000), "TIMER_DELIVER_MS", "1700000000000"),
    ],
)
def test_a_time_is_a_property(message: Message, name: str, text: str) -> None:
    """As Java's clients write it; such a message travels alone."""
    one = ready(message)
    assert properties.find(one.properties, name) == text
    assert one.is_alone


def test_packed_and_delayed_messages_travel_alone() -> None:
    """A batch can hold neither."""
    assert ready(Message("t", b"a" * 4096)).is_alone
    assert ready(Message("t", b"a", delay_level=3)).is_alone
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
        (Message("t", b"x", properties={"DELAY": "3"}), r"Message\(delay_level=…\)"),
        (Message("t", b"x", delay_level=-1), "a level from 1 to 18"),
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
        [Message("t", b"a", tag="A", flag=3), Message("t", b"b")],
        IDS,
        5,
        ProducerSettings(body_bytes_max=1000),
    )
    parts = batch.split(one.body)
    assert (parts.flags, parts.bodies) == ([3, 0], [b"a", b"b"])
    assert list(one.ids) == [properties.find(text, "UNIQ_KEY") for text in parts.properties]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "at least one"),
        ([Message("t", b"a"), Message("u", b"a")], "one topic"),
        ([Message("t", b"")], "empty body"),
        ([Message("t", b"a", delay_level=1)], "cannot be batched"),
        ([Message("%RETRY%g", b"a")], "cannot be batched"),
        ([Message("t", b"a" * 1000)], "split it"),
    ],
)
def test_a_batch_has_rules_of_its_own(messages: list[Message], complaint: str) -> None:
    """What RocketMQ refuses in a batch is refused here."""
    with pytest.raises(InvalidMessage, match=complaint):
        prepare_batch(messages, IDS, 5, ProducerSettings(body_bytes_max=1000))


def test_a_long_list_is_cut_into_batches() -> None:
    """In order, each within the limit; a new topic, or 1,024 messages, begin a new one."""
    noise = random.Random(5)
    messages = [
        Message(
            "tu"[number > 70],
            b"x" * noise.randrange(1, 900),
            tag="täg",
            keys=["k" * noise.randrange(1, 9)],
            properties={"päir": "välue" * noise.randrange(1, 9)},
        )
        for number in range(100)
    ]
    parts = list(split_batch([*messages, Message("u", b"x" * 9000)], bytes_max=4000))
    assert [one for part in parts for one in part][:-1] == messages
    assert all(len({one.topic for one in part}) == 1 for part in parts)
    sizes = [
        len(prepare_batch(part, IDS, 5, ProducerSettings(body_bytes_max=1 << 20)).body)
        for part in parts
    ]
    assert max(sizes[:-1]) <= 4000
    assert (len(parts[-1]), sizes[-1] > 9000) == (1, True)
    assert sum(sizes[:-1]) / len(sizes[:-1]) > 2000
    many = [Message("t", b"x")] * 2049
    assert [len(part) for part in split_batch(many, bytes_max=1 << 20)] == [1024, 1024, 1]
    assert list(split_batch([])) == []


def test_names_of_groups() -> None:
    """Up to 255 letters, digits and some signs."""
    assert check_group("g" * 255) == "g" * 255
    for wrong in ("", "g" * 256, "a b"):
        with pytest.raises(InvalidMessage):
            check_group(wrong)
    assert check_topic("%RETRY%g|x_y-z") == "%RETRY%g|x_y-z"


def test_packing_by_a_method_that_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the send that would need it, with the command that installs it."""
    monkeypatch.setitem(sys.modules, "lz4", None)
    settings = ProducerSettings(compress_method="lz4")
    with pytest.raises(InvalidMessage, match=r"compress_method = 'lz4'.*sprocketmq\[lz4\]"):
        prepare(Message("t", b"x" * 5000), IDS, 5, settings)
    prepare(Message("t", b"x"), IDS, 5, settings)
