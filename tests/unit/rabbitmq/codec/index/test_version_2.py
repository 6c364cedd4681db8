"""Segments of version 2: those of a real RabbitMQ, and files that are none."""

import struct
from unittest.mock import ANY
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index, message_term
from sprocket.rabbitmq.codec.index import MessagePlace

HEADER = b"RCQI\2" + struct.pack(">QQ", 8, 12) + bytes(43)
NEAR = b"\1\1\0\2" + struct.pack(">QI4xIQ", 64, 30, 11, 5)
SHARED = b"\1\0\0\1" + bytes(range(16)) + struct.pack(">IQ", 9000, 0)


def test_every_message_of_a_recorded_queue_is_where_its_segment_says() -> None:
    """And has the checksum that its head says."""
    files = dict(RecordedVhosts("08-classic-v2").files())
    read = 0
    for path, data in files.items():
        if not path.endswith(".qi"):
            continue
        segment = index.read_segment_v2(data)
        assert segment.findings == ()
        for row in range(len(segment)):
            if segment.places[row] == MessagePlace.QUEUE_STORE:
                store = files[path.replace(".qi", ".qs")]
                assert index.bounds_v2(b"", store) == (*index.bounds_v2(data)[:2], ANY)
                start, size = int(segment.positions[row]), int(segment.sizes[row])
                term = index.stored_term(store[start:], size)
                assert message_term.decode(term).body_size == segment.body_sizes[row]
                read += 1
    assert read > 3500


def test_the_entries_of_a_segment() -> None:
    """One in each place, with an acknowledged one between them."""
    segment = index.read_segment_v2(HEADER + NEAR + bytes(32) + SHARED)
    assert segment.seq_ids.tolist() == [8, 10]
    assert segment.starts.tolist() == [64, 128]
    assert segment.is_persistent.tolist() == [True, False]
    assert segment.places.tolist() == [MessagePlace.QUEUE_STORE, MessagePlace.SHARED_STORE]
    assert (segment.positions[0], segment.sizes[0]) == (64, 30)
    assert segment.message_ids[1].tobytes() == bytes(range(16))
    assert segment.body_sizes.tolist() == [11, 9000]
    assert segment.expiry_us.tolist() == [5, 0]
    assert segment.end_seq_id == 12
    assert segment.findings == ()


def test_a_segment_without_entries() -> None:
    """It has none."""
    assert len(index.read_segment_v2(HEADER)) == 0


@pytest.mark.parametrize(
    ("data", "left", "position", "told"),
    [
        (HEADER + NEAR + SHARED[:31], [8], 96, "31 bytes of an entry"),
        (HEADER + NEAR * 5, [8, 9, 10, 11], 192, "entries behind the last id"),
        (HEADER + b"\2" + NEAR[1:], [8], 64, "the status of an entry is 2"),
        (HEADER + NEAR[:3] + b"\7" + NEAR[4:], [8], 64, "there is no place 7 for a message"),
    ],
)
def test_what_no_server_writes_is_told(
    data: bytes, left: list[int], position: int, told: str
) -> None:
    """With its place; the rest is read."""
    segment = index.read_segment_v2(data)
    assert segment.seq_ids.tolist() == left
    (finding,) = segment.findings
    assert finding.position == position
    assert told in finding.what


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "expected a header of 64 bytes, found 0"),
        (HEADER[:63], "expected a header of 64 bytes, found 63"),
        (b"RCQS" + HEADER[4:], "expected RCQI of version 2, found 5243515302"),
        (b"RCQI\1" + HEADER[5:], "expected RCQI of version 2, found 5243514901"),
        (b"RCQI\2" + bytes(59), "cannot have the ids from 0 to -1"),
        (b"RCQI\2" + b"\xff" * 59, "cannot have the ids from"),
        (HEADER[:12] + b"\7" + HEADER[13:], "cannot have the ids from 7 to 11"),
    ],
)
def test_what_is_no_segment_is_told(data: bytes, told: str) -> None:
    """By its header."""
    with pytest.raises(CorruptRecord, match=told):
        index.read_segment_v2(data)


def stored(term: bytes, flags: int = 1, crc: int | None = None) -> bytes:
    """Return a term behind its head."""
    found = crc32(term) & 0xFFFF if crc is None else crc
    return struct.pack(">IBHx", len(term), flags, found) + term


def test_a_message_is_read_behind_its_head() -> None:
    """With a checksum or without one."""
    assert index.stored_term(stored(b"term") + b"more", 4) == b"term"
    assert index.stored_term(stored(b"term", flags=0, crc=1), 4) == b"term"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"short", "the file ends before the message"),
        (stored(b"term")[:-1], "the file ends inside the message, after 3 bytes of 4"),
        (stored(b"other"), "expected a message of 4 bytes, found one of 5"),
        (stored(b"term", crc=crc32(b"term") + 1 & 0xFFFF), "does not fit its checksum"),
    ],
)
def test_a_message_that_is_not_whole_is_told(data: bytes, told: str) -> None:
    """And never given."""
    with pytest.raises(CorruptRecord, match=told):
        index.stored_term(data, 4)


def test_the_header_of_a_file_of_messages() -> None:
    """It stands in for that of the entries if this is damaged, which is told."""
    damaged = b"RCQJ" + HEADER[4:]
    segment = index.read_segment_v2(damaged + NEAR, b"RCQS" + HEADER[4:])
    assert segment.seq_ids.tolist() == [8]
    (finding,) = segment.findings
    assert finding.what.startswith("expected RCQI of version 2, found 5243514a02")
    with pytest.raises(CorruptRecord, match="expected RCQS of version 2, found 5243514902"):
        index.read_segment_v2(damaged + NEAR, HEADER)


@given(st.binary(max_size=150), st.integers(0, 64))
def test_any_bytes_give_messages_or_an_error_of_the_store(data: bytes, kept: int) -> None:
    """Behind any part of a header."""
    try:
        segment = index.read_segment_v2(HEADER[:kept] + data)
    except CorruptRecord:
        return
    assert len(segment) <= 1 << 20
