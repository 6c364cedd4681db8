"""What a listener sees of a message."""

import zlib

from sprocket.rocketmq.client import ReceivedMessage
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.route import MessageQueue


def received(topic: str = "t", **properties: str) -> ReceivedMessage:
    """Return a message with a packed body."""
    body = zlib.compress(b"hello")
    stored = StoredMessage(
        topic, 1, 7, 0, 9, 0, 11, "", 22, "", 0x301, 0, 0, 2, 0, properties, body, "OFFSET"
    )
    return ReceivedMessage(stored, MessageQueue(topic, "b", 1), redeliveries=3)


def test_fields_are_those_of_the_record() -> None:
    """Body unpacked, tag and keys from the properties, deliveries of broker and client added."""
    one = received(TAGS="A", KEYS="k l", UNIQ_KEY="U")
    assert (one.body, one.tag, one.keys, one.message_id) == (b"hello", "A", ("k", "l"), "U")
    assert (
        one.queue_offset,
        one.born_at_ms,
        one.stored_at_ms,
        one.reconsume_times,
    ) == (7, 11, 22, 5)
    assert one.properties["TAGS"] == "A"


def test_a_retried_message_has_its_own_topic() -> None:
    """From the retry topic it looks as when it was sent; without the property, as it lies."""
    assert received("%RETRY%g", RETRY_TOPIC="orders").topic == "orders"
    assert received("%RETRY%g").topic == "%RETRY%g"
    assert received(RETRY_TOPIC="x").topic == "t"


def test_without_a_unique_key_the_place_is_the_id() -> None:
    """Messages of producers that make no ids are known by where they lie."""
    assert received().message_id == "OFFSET"
