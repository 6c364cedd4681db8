"""The stored message: any record comes back, any bytes give a value or a WireError."""

import contextlib
import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies

from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import ScanStop, batch, properties, record, record_scan
from sprocket.rocketmq.codec.record.batch import Part
from sprocket.rocketmq.model.hashes import hash32
from sprocket.rocketmq.model.message import NewBatch, NewRecord, StoredMessage

pytestmark = pytest.mark.slow


def encoded(new: NewRecord, *, at: int = 0, crc_tail: bool = False) -> bytes:
    """Return a record's bytes at a place of the log."""
    return record.encode(
        new,
        queue_offset=5,
        physical_offset=at,
        stored_at_ms=1_700_000_000_000,
        crc_tail=crc_tail,
    )


@given(strategies.new_batches(), strategies.INT64, st.booleans())
def test_a_batch_is_stored_as_its_records_are(new: NewBatch, at: int, crc_tail: bool) -> None:
    """Byte for byte, or refused for the same reason."""
    offsets = range(7, 7 + len(new.bodies))
    try:
        expected = record.encode_all(new.records(), offsets, at, 5, crc_tail)
    except StoreError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            record.encode_batch(new, 7, at, 5, crc_tail)
    else:
        data, places = record.encode_batch(new, 7, at, 5, crc_tail)
        assert (b"".join(record.finish(data)), places) == expected


@given(strategies.new_records(), strategies.INT64, st.booleans())
def test_any_record_comes_back(new: NewRecord, at: int, crc_tail: bool) -> None:
    """Every field, and nothing else but the tail."""
    data = encoded(new, at=at, crc_tail=crc_tail)
    assert record.encoded_size(new, crc_tail) == len(data)
    message = record.decode(b"xyz" + data + b"behind", 3, check_tail=crc_tail)
    pairs = dict(message.properties)
    assert crc_tail == (pairs.pop(properties.CRC32, None) is not None)
    assert properties.decode(new.properties) == pairs
    hosts = (len(new.born_host) == 20) << 4 | (len(new.store_host) == 20) << 5
    expected = (new.topic, new.queue_id, new.flag, new.born_at_ms, new.reconsume_times)
    assert expected == (
        message.topic,
        message.queue_id,
        message.flag,
        message.born_at_ms,
        message.reconsume_times,
    )
    assert new.sys_flag & ~0x30 | hosts == message.sys_flag
    assert (new.body, at, len(data)) == (
        message.stored_body,
        message.physical_offset,
        message.store_size,
    )
    assert new.prepared_transaction_offset == message.prepared_transaction_offset


@given(strategies.new_records(), st.booleans())
def test_an_entry_says_what_the_message_says(new: NewRecord, crc_tail: bool) -> None:
    """Dispatch reads less of a record than a consumer, but the same."""
    data = encoded(new, crc_tail=crc_tail)
    message = record.decode(data)
    for given_as in (data, bytearray(data), memoryview(data)):
        entry = record.entry(given_as)
        assert (message.topic, message.queue_id) == (entry.topic, entry.queue_id)
        assert (hash32(message.tags) if message.tags else 0) == entry.tags_code
        unique = message.properties.get("UNIQ_KEY")
        assert ((unique, *message.keys) if unique else message.keys) == entry.keys
        assert (unique is not None) == entry.unique
        assert new.queueable == entry.queueable
        assert (entry.size, entry.stored_at_ms) == (len(data), record_layout.stored_at_ms(data))


@given(st.data())
def test_damaged_bytes_give_a_message_or_a_wire_error(data: st.DataObject) -> None:
    """Cuts, flipped bits and overwritten fields; what comes out has the stated size."""
    whole = encoded(data.draw(strategies.new_records()), crc_tail=data.draw(st.booleans()))
    damaged = data.draw(strategies.damages(whole))
    for check in (True, False):
        with contextlib.suppress(WireError):
            message = record.decode(damaged, check_crc=check, check_tail=check)
            assert isinstance(message, StoredMessage)
            assert message.store_size <= len(damaged)
            with contextlib.suppress(WireError):
                assert isinstance(message.body, bytes)
        with contextlib.suppress(WireError):
            assert record.entry(damaged).size <= len(damaged)


@given(st.binary(max_size=200), st.integers(-3, 210))
def test_any_bytes_give_a_message_or_a_wire_error(data: bytes, position: int) -> None:
    """Nothing else leaves the decoder, wherever it is told to begin."""
    head = struct.pack(">iI", len(data), record_layout.MAGIC_V1)
    for given_bytes in (data, head + data):
        with contextlib.suppress(WireError):
            record.decode(given_bytes, position)
        with contextlib.suppress(WireError):
            record.entry(given_bytes, position)
        with contextlib.suppress(WireError):
            record.decode_all(given_bytes)


@given(strategies.new_records(), st.booleans())
def test_every_cut_of_a_record_is_a_wire_error(new: NewRecord, crc_tail: bool) -> None:
    """No beginning of a record passes for one."""
    data = encoded(new, crc_tail=crc_tail)
    for cut in {0, 1, 7, 8, 90, 91, len(data) // 2, len(data) - 21, len(data) - 1}:
        if 0 <= cut < len(data):
            with contextlib.suppress(WireError):
                record.decode(data[:cut])
                raise AssertionError(cut)


@given(st.lists(strategies.new_records(), min_size=1, max_size=4), st.data())
def test_a_damaged_log_is_read_up_to_the_damage(new: list[NewRecord], data: st.DataObject) -> None:
    """With tails, no changed byte of a record goes unnoticed but those of the tail's own name."""
    log, ends = b"", []
    for one in new:
        log += encoded(one, at=1000 + len(log), crc_tail=True)
        ends.append(len(log))
    damaged = bytearray(log + bytes(16))
    at = data.draw(st.integers(0, len(log) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    scan = record_scan.Scan(memoryview(damaged), 1000, 0, len(damaged), check_tail=True)
    found = [position + size for position, size in scan]
    in_tail = any(end - record_layout.CRC_TAIL_BYTES <= at < end for end in ends)
    expected = [end for end in ends if end <= at]
    assert expected == found or (in_tail and ends == found)


@given(st.binary(max_size=300), st.integers(0, 100))
def test_any_bytes_can_be_scanned(data: bytes, start: int) -> None:
    """A scan always ends, with a reason."""
    start = min(start, len(data))
    scan = record_scan.Scan(memoryview(data), 0, start, len(data), check_tail=True)
    assert len(list(scan)) <= len(data) // record_layout.RECORD_BYTES_MIN
    assert isinstance(scan.stop, ScanStop)


@given(strategies.property_maps(), strategies.property_maps())
def test_properties_come_back(pairs: dict[str, str], more: dict[str, str]) -> None:
    """Encoded, joined with or without the last separator, found one by one."""
    data = properties.encode(pairs)
    assert properties.decode(data) == pairs
    assert properties.decode(data[:-1]) == pairs
    joined = properties.join(data[:-1], properties.encode(more))
    assert properties.decode(joined) == {**pairs, **more}
    for name, value in {**pairs, **more}.items():
        assert properties.find(joined, name) == value
        assert name not in properties.decode(properties.remove(joined, name))


@given(st.binary(max_size=60) | st.text(alphabet="ab\x01\x02", max_size=30).map(str.encode))
def test_any_bytes_are_properties(data: bytes) -> None:
    """Decoding never fails, and finding one agrees with decoding all."""
    pairs = properties.decode(data)
    for name in [*pairs, "a", "KEYS"]:
        if name.isascii():
            assert pairs.get(name) == properties.find(data, name)


@given(strategies.batch_parts)
def test_batches_come_back(parts: list[Part]) -> None:
    """Split is the inverse of join."""
    assert parts == list(zip(*batch.split(batch.join(parts)), strict=True))


@given(strategies.batch_parts.filter(bool), st.data())
def test_damaged_batches_give_parts_or_a_wire_error(parts: list[Part], data: st.DataObject) -> None:
    """Nothing else leaves the splitter."""
    with contextlib.suppress(WireError):
        batch.split(data.draw(strategies.damages(batch.join(parts))))
