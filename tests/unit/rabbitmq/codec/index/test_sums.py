"""Checksums of an index file: each byte of it, and any bytes in their own file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rabbit_folders import published, segment

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec import index, message_term

SEGMENT = segment([0, 1]) + segment([2], marks=2) + index.segment_mark(1)
JOURNAL = published(7) + index.deliver(7) + published(8, is_embedded=False) + index.ack(3)


@pytest.mark.parametrize("is_segment", [True, False])
def test_whichever_byte_is_changed_all_else_is_as_it_was(is_segment: bool) -> None:
    """Records are repaired, and of a message it is known that it is not what was stored."""
    data = SEGMENT if is_segment else JOURNAL
    half = index.index_sum(data, 0, is_segment=is_segment)
    before = b"\xff" * 5  # unknown to the checksums
    sums = index.decode_sums(index.index_sum(data, 5, is_segment=is_segment).encode())
    whole = index.check_index(before + data, sums, is_segment=is_segment)
    assert whole == index.CheckedIndex(before + data, summed=5 + len(data))
    assert half.end == len(data)
    for at in range(len(data)):
        changed = bytearray(before + data)
        changed[5 + at] ^= 1 << at % 8
        found = index.check_index(bytes(changed), sums, is_segment=is_segment)
        assert len(found.findings) + len(found.damaged) == 1
        if found.damaged:
            assert found.repaired is None
            (start,) = found.damaged
            with pytest.raises(CorruptRecord, match="another checksum"):
                message_term.decode(found.data[start:])
            assert found.data[:start] == (before + data)[:start]
        else:
            assert found.repaired == found.data == before + data


def test_later_entries_take_the_place_of_earlier_ones() -> None:
    """The file was cut where they begin; up to where there is no gap is told."""
    one, two = segment([0, 1]), segment([2, 3])
    sums = index.decode_sums(
        b"".join(
            index.index_sum(data, position, is_segment=True).encode()
            for data, position in ((one, 0), (one, len(one)), (two, len(one)))
        )
    )
    assert [(found.position, found.end) for found in sums] == [
        (0, len(one)),
        (len(one), len(one) + len(two)),
    ]
    assert index.check_index(one + two, sums, is_segment=True).covered == len(one + two)
    assert index.check_index(one + two[:-1], sums, is_segment=True).covered == len(one)
    assert index.check_index(one + two, sums[1:], is_segment=True).covered == 0


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_whatever_is_beside_an_entry_does_not_hide_it(before: bytes, behind: bytes) -> None:
    """As a crash may have torn the one before."""
    entry = index.index_sum(SEGMENT, 9, is_segment=True)
    assert index.decode_sums(before + entry.encode() + behind) == [entry]


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_a_skeleton_of_other_bytes_changes_nothing(skeleton: bytes, data: bytes) -> None:
    """Or something of the same size, and never raises."""
    one = index.IndexSum(0, len(data), 1, skeleton)
    found = index.check_index(data, [one], is_segment=True)
    assert len(found.data) == len(data)
