"""The decoder of many records at a time gives what the plain decoder gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spark.samples import encoded, found, logs, plain, row_of, rows

from sprocket.rocketmq.codec import record
from sprocket.spark.decode import Stop, walk

SHOWN_MS = 253_402_300_799_999


def assert_same(data: bytes) -> None:
    """Compare both decoders on any bytes."""
    kept = found(data)
    messages = plain(data)
    assert len(messages) == len(kept)
    wanted = [row_of(message) for message in messages]
    for row in wanted:
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = row[name] if abs(row[name]) <= SHOWN_MS else None
    if messages:
        assert wanted == rows(kept)


@given(logs())
@settings(max_examples=80, deadline=None)
def test_equals_the_plain_decoder(data: bytes) -> None:
    """Every column of every record is what `codec.record.decode` says."""
    assert_same(data)


@given(logs(), st.data())
@settings(max_examples=120, deadline=None)
def test_equals_the_plain_decoder_on_damaged_bytes(data: bytes, draw: st.DataObject) -> None:
    """With bytes changed and the end cut off, both stop at the same record, without any error."""
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(data) - 1) | st.integers(0, min(99, len(data) - 1)))
        damaged[at] = draw.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    end = draw.draw(st.integers(0, len(data)) | st.just(len(data)))
    assert_same(bytes(damaged[:end]))


@given(st.binary(max_size=300))
def test_any_bytes_give_records_or_none(data: bytes) -> None:
    """Bytes that are no log give no records and no error."""
    assert_same(data)


def test_walk_says_why_it_stopped() -> None:
    """The end, a record that goes on, padding, zeros and rubbish are told apart."""
    data = encoded(3)
    size = len(data) // 3
    assert (walk(data, 0, len(data)).stop, len(walk(data, 0, len(data)).positions)) == (Stop.END, 3)
    partial = walk(data, 0, len(data) - 1)
    assert (partial.stop, partial.stopped_at, partial.size) == (Stop.PARTIAL, 2 * size, size)
    assert walk(data, 0, 2 * size + 7).size == 0
    assert walk(data + record.blank(20), 0, len(data) + 8).stop is Stop.BLANK
    assert walk(data + bytes(8), 0, len(data) + 8).stop is Stop.BROKEN
    assert walk(data, 1, len(data)).stop is Stop.BROKEN


def test_records_stop_at_one_that_names_another_place() -> None:
    """A whole record, with a right checksum, that belongs elsewhere is not taken."""
    data = encoded(2) + encoded(1, base=7)
    kept = found(data, base=0)
    assert len(kept) == 2
    assert kept.defect == "the record says that it lies at 7"
    assert len(found(data)) == 3


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, True], [False, False, False]])
def test_keep_and_part_choose_records(mask: list[bool]) -> None:
    """What is kept is what the mask names; parts are slices."""
    kept = found(encoded(3))
    wanted = [row for row, keep in zip(rows(kept), mask, strict=True) if keep]
    assert wanted == rows(kept.keep(np.array(mask)))
    assert rows(kept)[1:] == rows(kept.part(1, 3))


def test_bad_bodies_are_found() -> None:
    """One changed bit of a body shows in its checksum."""
    data = bytearray(encoded(3))
    data[int(found(bytes(data)).body_start[1])] ^= 0x40
    assert found(bytes(data)).bad_bodies().tolist() == [False, True, False]
