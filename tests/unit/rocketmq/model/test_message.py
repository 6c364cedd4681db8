"""Messages as values."""

import zlib

import pytest

from sprocket.base.compression import Method
from sprocket.base.errors import WireError
from sprocket.rocketmq.model import message
from sprocket.rocketmq.model.message import Message, NewRecord, StoredMessage


def stored(properties: dict[str, str], body: bytes = b"x", sys_flag: int = 0) -> StoredMessage:
    """Return a stored message."""
    return StoredMessage(
        topic="T",
        queue_id=0,
        queue_offset=1,
        physical_offset=2,
        store_size=100,
        magic=0xDAA320A7,
        born_at_ms=0,
        born_host="127.0.0.1:1",
        stored_at_ms=0,
        store_host="127.0.0.1:2",
        sys_flag=sys_flag,
        flag=0,
        body_crc=0,
        reconsume_times=0,
        prepared_transaction_offset=0,
        properties=properties,
        stored_body=body,
        offset_message_id="0F",
    )


def test_a_message_is_known_by_its_unique_key() -> None:
    """Or, without one, by where it lies."""
    assert stored({"UNIQ_KEY": "U"}).message_id == "U"
    assert stored({}).message_id == "0F"
    assert stored({}).unique_key is None


def test_tag_and_keys_come_from_the_properties() -> None:
    """Words are split at blanks."""
    one = stored({"TAGS": "A", "KEYS": " a b  c"})
    assert (one.tags, one.keys) == ("A", ("a", "b", "c"))
    assert (stored({}).tags, stored({}).keys) == ("", ())


def test_the_body_is_unpacked_when_it_is_asked_for() -> None:
    """A damaged body harms only whoever reads it."""
    packed = zlib.compress(b"hello")
    assert stored({}, packed, 0x301).body == b"hello"
    assert stored({}, packed, 0x300).body == packed
    damaged = stored({}, packed[:-1], 0x301)
    with pytest.raises(WireError):
        damaged.body  # noqa: B018 - reading it is what fails


def test_transaction_types_decide_who_sees_a_record() -> None:
    """Prepared and rolled back ones get no unit, rolled back ones no index entry."""
    expected = {0: (True, True), 4: (False, True), 8: (True, True), 12: (False, False)}
    for flag, (queueable, indexable) in expected.items():
        assert message.is_queueable(flag | 0x2F3 & ~0xC) is queueable
        assert message.is_indexable(flag | 0x2F3 & ~0xC) is indexable
        record = NewRecord("T", 0, b"", b"", bytes(8), bytes(8), sys_flag=flag)
        assert record.queueable is queueable


def test_flags_of_methods_come_back() -> None:
    """The bits that compress sets are those that decompress understands."""
    for method in Method:
        assert message.compression_method(message.compression_flag(method)) is method
    assert message.compression_method(0x300) is None


def test_messages_do_not_share_their_properties() -> None:
    """Each has a dictionary of its own."""
    Message("T", b"").properties["a"] = "1"
    assert Message("T", b"").properties == {}


def test_a_column_is_a_sequence_of_its_texts() -> None:
    """Cut out of the buffer at equal distances; one that would reach beyond it is our mistake."""
    column = message.Column(b".ab-cd-ef", start=1, width=2, stride=3, count=3)
    assert (len(column), list(column), column.joined) == (3, [b"ab", b"cd", b"ef"], b"abcdef")
    assert (column[0], column[-1], column[1:]) == (b"ab", b"ef", [b"cd", b"ef"])
    assert b"cd" in column
    with pytest.raises(IndexError):
        column[3]
    with pytest.raises(AssertionError):
        message.Column(b".ab-cd-e", start=1, width=2, stride=3, count=3)
