"""Delayed messages as bytes: read as written, and any bytes give values or CorruptRecord."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.checksum import crc32
from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import delayed
from sprocket.rabbitmq.codec.delayed import (
    Added,
    BlockHead,
    ClockSet,
    DelayedEntry,
    DelayedKey,
    Done,
    Dropped,
)

KEY = DelayedKey(1, 1)
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
ENTRIES = st.builds(DelayedEntry, U64, U64, NAMES, st.binary(max_size=50))
COUNTS = st.dictionaries(NAMES, st.integers(0, 2**32 - 1), max_size=3)
RECORDS = st.one_of(
    st.builds(lambda at, one: Added(one.number, at, one), U64, ENTRIES),
    st.builds(Done, U64, U64, st.builds(DelayedKey, U64, U64), COUNTS),
    st.builds(Dropped, U64, U64, NAMES),
    st.builds(ClockSet, U64, U64, st.integers(-(2**63), 2**63 - 1)),
)


@given(st.lists(RECORDS))
def test_records_are_read_as_they_were_written(given_records: list[delayed.DelayedRecord]) -> None:
    """One behind the other."""
    data = b"".join(map(delayed.encode_record, given_records))
    assert given_records == list(delayed.decode_records(data))


@given(st.lists(RECORDS, min_size=1), st.data())
def test_a_cut_record_ends_the_reading(
    given_records: list[delayed.DelayedRecord], chance: st.DataObject
) -> None:
    """Those before it were given."""
    data = b"".join(map(delayed.encode_record, given_records))
    whole = b"".join(map(delayed.encode_record, given_records[:-1]))
    cut = chance.draw(st.integers(len(whole), len(data) - 1))
    found: list[delayed.DelayedRecord] = []
    with contextlib.suppress(CorruptRecord):
        found += delayed.decode_records(data[:cut])
        assert cut == len(whole)
    assert found == given_records[:-1]


@given(st.lists(ENTRIES, min_size=1))
def test_a_block_is_read_as_it_was_written(entries: list[DelayedEntry]) -> None:
    """Its head says what it has."""
    head, payload = delayed.block(entries)
    found = delayed.decode_head(head)
    assert (found.first, found.last) == (entries[0].key, entries[-1].key)
    assert (found.size, found.entry_count) == (len(payload), len(entries))
    assert delayed.decode_block(found, payload) == (entries, "")


@given(st.lists(ENTRIES, min_size=1, unique_by=lambda one: one.number), st.data())
def test_a_wrong_bit_costs_one_entry_of_a_block(
    entries: list[DelayedEntry], chance: st.DataObject
) -> None:
    """Wherever it is: in the entry, in its length, or in its sum."""
    head, payload = delayed.block(entries)
    broken = bytearray(payload)
    at = chance.draw(st.integers(0, 8 * len(payload) - 1))
    broken[at // 8] ^= 1 << at % 8
    found = delayed.decode_block(delayed.decode_head(head), bytes(broken))
    assert len(found.entries) >= len(entries) - 1
    assert [one for one in entries if one in found.entries] == found.entries
    assert "another checksum" in found.fault


def test_a_block_without_sums_is_read_whole_or_not_at_all() -> None:
    """As earlier versions wrote them."""
    entry = DelayedEntry(5, 1, "x", b"term")
    payload = delayed.encode_entry(entry)
    head = BlockHead(False, crc32(payload), len(payload), 1, entry.key, entry.key)
    assert delayed.decode_block(head, payload) == ([entry], "")
    broken = payload[:-1] + b"?"
    assert delayed.decode_block(head, broken).entries == []


@given(st.binary(max_size=200))
def test_any_bytes_give_values_or_one_error(data: bytes) -> None:
    """Nothing else is raised."""
    for decode in (
        lambda: list(delayed.decode_records(data)),
        lambda: list(delayed.decode_entries(data)),
        lambda: delayed.decode_head(data),
        lambda: delayed.decode_block(BlockHead(True, 0, len(data), 3, KEY, KEY), data),
        lambda: delayed.decode_manifest(data),
    ):
        with contextlib.suppress(CorruptRecord):
            decode()
