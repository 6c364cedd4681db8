"""Writing stored messages: sizes, limits, what is dropped, and batches as their records are."""

from itertools import pairwise

import pytest
from msgspec import structs
from tests.unit.rocketmq.codec.given import new_record, stored

from sprocket.base.checksum import crc32
from sprocket.base.errors import MessageTooLarge, WireError
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.errors import PropertiesTooLarge
from sprocket.rocketmq.model.message import NewBatch


def test_sizes_grow_with_ipv6_and_long_topics() -> None:
    """An IPv6 host adds 12 bytes, version 2 adds one."""
    six = ids.host_bytes("::1", 1)
    assert len(stored(new_record(born_host=six))) == 180
    assert len(stored(new_record(born_host=six, store_host=six))) == 192
    long = stored(new_record(topic="T" * 130, properties=b""))
    assert (len(long), long[:8].hex()) == (227, "000000e3daa320ab")
    for new in (new_record(born_host=six), new_record(topic="T" * 130)):
        for tail in (False, True):
            assert len(stored(new, crc_tail=tail)) == record.encoded_size(new, tail)


def test_a_crc_property_of_the_producer_is_dropped() -> None:
    """With a tail and without, so that a tail is never a forged one."""
    forged = properties.encode({"a": "1", "__CRC32#": "1234567890", "b": "2"})
    plain = properties.encode({"a": "1", "b": "2"})
    for tail in (False, True):
        new = new_record(properties=forged)
        assert stored(new_record(properties=plain), crc_tail=tail) == stored(new, crc_tail=tail)
        assert record.encoded_size(new, tail) == len(stored(new, crc_tail=tail))


@pytest.mark.parametrize(
    "checksum",
    [0, 7, 999, 1000, 999_999, 1_000_000, 999_999_999, 1_000_000_000, (1 << 31) - 1, (1 << 32) - 1],
)
def test_a_crc_tail_has_ten_digits_that_begin_with_the_last(
    checksum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a record by itself, and of each record of a batch."""
    monkeypatch.setattr(record, "crc32", lambda *_: checksum)
    digits = f"{checksum & 0x7FFFFFFF:010}"[::-1]
    expected = f"__CRC32#\x01{digits}\x02".encode()
    assert stored(new_record(), crc_tail=True)[-20:] == expected
    texts = [b"a\x011\x02", b"a\x0122\x02"]
    batch = NewBatch(
        new_record(body=b"", properties=b""), [0, 0], [b"1", b"2"], texts, b"k\x01v\x02"
    )
    encoded, places = record.encode_batch(batch, 0, 0, 0, True)
    whole = b"".join(record.finish(encoded))
    assert [whole[end - 20 : end] for end in places[1:]] == [expected] * 2


def test_records_of_one_turn_keep_their_hosts() -> None:
    """IPv4 and IPv6 on either side, in any order, as each by itself; no wrong one among them."""
    four, six = ids.host_bytes("10.0.0.1", 1), ids.host_bytes("::1", 1)
    other = ids.host_bytes("10.0.0.2", 2)
    pairs = [(four, four), (other, four), (six, four), (six, six), (four, six), (four, four)]
    records = [new_record(born_host=born, store_host=store) for born, store in pairs]
    encoded, places = record.encode_all(records, range(6), 0, 5, True)
    for number, (new, (place, end)) in enumerate(zip(records, pairwise(places), strict=True)):
        assert encoded[place:end] == record.encode(
            new, queue_offset=number, physical_offset=place, stored_at_ms=5, crc_tail=True
        )
    with pytest.raises(WireError, match="not 8 or 20"):
        record.encode_all([*records, new_record(born_host=b"1234567")], range(7), 0, 5, True)


def test_limits_are_errors_of_their_own() -> None:
    """Properties, topic, numbers and hosts that the layout cannot hold."""
    longest = b"a\x01" + b"x" * (32767 - 3) + b"\x02"
    stored(new_record(properties=longest))
    stored(new_record(properties=longest[:-21] + b"\x02"), crc_tail=True)
    for new, tail, message in [
        (new_record(properties=longest + b"x"), False, "32768 bytes of properties"),
        (new_record(properties=longest[:-20] + b"\x02"), True, "32768 bytes of properties"),
        (new_record(topic="x" * 32768), False, "a topic of 32768 bytes"),
        (new_record(flag=1 << 31), False, "does not fit"),
        (new_record(queue_id=-(1 << 31) - 1), False, "does not fit"),
    ]:
        with pytest.raises(MessageTooLarge, match=message):
            stored(new, crc_tail=tail)
    for bad in (
        new_record(born_host=b"1234567"),
        new_record(store_host=bytes(16)),
        new_record(born_host=b"", store_host=b""),
    ):
        with pytest.raises(WireError, match="not 8 or 20"):
            stored(bad)
    with pytest.raises(WireError, match="Unicode"):
        stored(new_record(topic="\ud800"))


@pytest.mark.parametrize("crc_tail", [False, True])
def test_a_batch_has_the_limits_of_its_records(crc_tail: bool) -> None:
    """What is added to the properties of each counts, too."""
    added = b"k\x01v\x02"
    most = 32767 - len(added) - (record_layout.CRC_TAIL_BYTES if crc_tail else 0)
    text = b"a\x01" + b"x" * (most - 3) + b"\x02"
    one = new_record()
    for longer in (0, 1):
        new = NewBatch(one, [0, 1], [b"", b"x"], [b"", b"x" * longer + text], added)
        if longer:
            with pytest.raises(PropertiesTooLarge, match="32768 bytes"):
                record.encode_batch(new, 0, 0, 0, crc_tail)
        else:
            data, places = record.encode_batch(new, 0, 100, 0, crc_tail)
            expected = record.encode_all(new.records(), [0, 1], 100, 0, crc_tail)
            assert (b"".join(record.finish(data)), places) == expected
            assert places[2] - places[0] == len(expected[0])
    with pytest.raises(MessageTooLarge, match="does not fit"):
        record.encode_batch(
            structs.replace(new, flags=[1 << 31], bodies=[b""], properties=[b""]), 0, 0, 0, crc_tail
        )
    odd = structs.replace(new, shared=structs.replace(one, born_host=b"1234567"))
    with pytest.raises(WireError, match="not 8 or 20"):
        record.encode_batch(odd, 0, 0, 0, crc_tail)


@pytest.mark.parametrize("crc_tail", [False, True])
@pytest.mark.parametrize("added", [b"k\x01v\x02", b"k\x01v", b"", b"\0"])
@pytest.mark.parametrize("host", [bytes(8), bytes(20)])
def test_a_batch_is_what_its_records_are(crc_tail: bool, added: bytes, host: bytes) -> None:
    """Of any sizes; the sums of some of these bodies have 32 bits, of which 31 are stored."""
    bodies = [b"%d" % number * number for number in range(9)]
    assert {crc32(body) >> 31 for body in bodies} == {0, 1}
    texts = [b"a\x01" + b"x" * (number % 3) + b"\x02" for number in range(9)]
    shared = new_record(topic="T" * 200, born_host=host, sys_flag=1)
    for one in (texts, [*texts[1:], b"__CRC32#\x01c\x02a\x01b\x02"]):
        new = NewBatch(shared, range(-4, 5), bodies, one, added)
        data, places = record.encode_batch(new, 7, 1000, 5, crc_tail)
        expected = record.encode_all(new.records(), range(7, 16), 1000, 5, crc_tail)
        assert (b"".join(record.finish(data)), places) == expected
        assert len(data) == 1


def test_long_topics_take_version_2_by_bytes() -> None:
    """127 bytes are version 1; 64 characters of two bytes are more."""
    for topic, magic in [("T" * 127, record_layout.MAGIC_V1), ("T" * 128, record_layout.MAGIC_V2)]:
        assert record.decode(stored(new_record(topic=topic))).magic == magic
    message = record.decode(stored(new_record(topic="é" * 64)))
    assert (message.magic, message.topic) == (record_layout.MAGIC_V2, "é" * 64)


def test_a_blank_has_room_for_itself() -> None:
    """Eight bytes are the least that is left at the end of a file."""
    assert record.blank(8).hex() == "00000008cbd43194"
    with pytest.raises(AssertionError):
        record.blank(7)
