"""The stored message: golden vectors, round trips, damage."""

import pytest
from msgspec import structs
from tests.unit.rocketmq.codec.given import PAIRS, new_record, stored

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.model.message import NewRecord

RECORD_A = bytes.fromhex(
    "000000a8daa320a73610a68600000003000000000000000000000007000000000000040000000000"
    "0000018bcfe568007f000001000030390000018bcfe5687bc0a8000100002a9f0000000000000000"
    "000000000000000568656c6c6f09546f70696354657374003f554e49515f4b455901414331313030"
    "3031303030303138423441414332324636444443353030303030024b455953016b31206b32025441"
    "4753015461674102"
)


def test_record_a_is_what_the_reference_encoder_makes() -> None:
    """Record A comes out byte for byte."""
    assert stored(new_record()) == RECORD_A


def test_record_b_ends_in_the_crc_tail() -> None:
    """A separator is inserted before the tail, and the digits stand least significant first."""
    data = stored(new_record(properties=properties.encode(PAIRS)[:-1]), crc_tail=True)
    assert len(data) == 188
    assert data[:4] == bytes.fromhex("000000bc")
    assert data[-21:] == bytes.fromhex("025f5f435243333223013333363630343939313102")
    assert data[168 - 63 - 2 : 168 - 63] == bytes.fromhex("0053")


def test_decode_gives_back_what_was_encoded() -> None:
    """Every field of record A comes back."""
    message = record.decode(RECORD_A)
    assert message.topic == "TopicTest"
    assert message.properties == PAIRS
    assert (message.queue_id, message.queue_offset, message.physical_offset) == (3, 7, 1024)
    assert (message.born_host, message.store_host) == ("127.0.0.1:12345", "192.168.0.1:10911")
    assert message.body == b"hello"
    assert message.offset_message_id == "C0A8000100002A9F0000000000000400"
    assert message.keys == ("k1", "k2")


def test_numbers_are_signed() -> None:
    """Also the checksum of the body, whose top bit is set in damaged records only."""
    data = bytearray(stored(new_record()))
    data[record_layout.BODY_CRC_AT] = 0xFF
    assert -(1 << 24) <= record.decode(data, check_crc=False).body_crc < 0
    with pytest.raises(WireError, match="checksum"):
        record.decode(data)


def test_entry_names_what_dispatch_needs() -> None:
    """The entry of record A: tag code, unique key first, then the words of KEYS."""
    entry = record.entry(b"xx" + RECORD_A + b"yy", 2)
    assert entry.keys == ("AC110001000018B4AAC22F6DDC500000", "k1", "k2")
    assert entry.unique
    assert entry.tags_code == 2598919
    assert (entry.topic, entry.queue_id, entry.queue_offset) == ("TopicTest", 3, 7)
    assert (entry.physical_offset, entry.size, entry.stored_at_ms) == (1024, 168, 1700000000123)


def test_the_vector_of_the_wire() -> None:
    """The record that the protocol's description spells out."""
    expected = bytes.fromhex(
        "00000068daa320a73610a686000000000000000000000000000000050000000000000400"
        "000000000000018bcfe568007f0000010000c3500000018bcfe568017f00000100002a9f"
        "0000000000000000000000000000000568656c6c6f01540007544147530161 02".replace(" ", "")
    )
    new = NewRecord(
        "T",
        0,
        b"hello",
        properties.encode({"TAGS": "a"}),
        ids.host_bytes("127.0.0.1", 50000),
        ids.host_bytes("127.0.0.1", 10911),
        born_at_ms=1_700_000_000_000,
    )
    data = record.encode(
        new,
        queue_offset=5,
        physical_offset=1024,
        stored_at_ms=1_700_000_000_001,
        crc_tail=False,
    )
    assert expected == data
    assert record_layout.stored_at_ms(data) == 1_700_000_000_001
    assert record.decode(data).tags == "a"


def test_decode_all_gives_records_that_lie_together() -> None:
    """As a pull answers them; bytes left over are an error."""
    data = stored(new_record()) + stored(new_record(body=b"more"))
    assert [message.body for message in record.decode_all(data)] == [b"hello", b"more"]
    assert record.decode_all(b"") == []
    with pytest.raises(WireError):
        record.decode_all(data + b"\0")


def test_checksums_are_compared_if_asked_for() -> None:
    """A flipped bit in the body, and one in the head that only the tail covers."""
    data = bytearray(stored(new_record(), crc_tail=True))
    assert record.decode(data, check_tail=True).body == b"hello"
    head = data
    body_at = head.index(b"hello")
    head[body_at] ^= 1
    with pytest.raises(WireError, match="body"):
        record.decode(head)
    assert record.decode(head, check_crc=False).body == b"iello"
    head[body_at] ^= 1
    head[record_layout.QUEUE_ID_AT + 3] ^= 1
    assert record.decode(head).queue_id == 2
    with pytest.raises(WireError, match="checksum"):
        record.decode(head, check_tail=True)


def test_lengths_must_add_up_to_the_size() -> None:
    """A byte too many or too few between the parts and the size is not a record."""
    data = bytearray(stored(new_record()))
    assert data[104] == 63
    for length in (62, 64, 0, 255):
        data[104] = length
        for read in (record.decode, record.entry):
            with pytest.raises(WireError, match="as long as its parts"):
                read(data + bytes(300) if length > 63 else data)
    data[103:105] = b"\xff\xff"
    with pytest.raises(WireError):
        record.decode(data)


def test_an_entry_may_be_had_without_keys() -> None:
    """All else is the same."""
    data = stored(new_record())
    whole = record.entry(data)
    assert whole.keys == ("AC110001000018B4AAC22F6DDC500000", "k1", "k2")
    without = record.entry(data, with_keys=False)
    assert without == structs.replace(whole, keys=(), unique=False)
