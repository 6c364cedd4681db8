"""The frames between master and slave, however they are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bulk_reads import received

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import replication
from sprocket.rocketmq.codec.replication import (
    PART_BYTES_MAX,
    PartReader,
    ReplicaPart,
    ReportReader,
)

PARTS = st.lists(
    st.builds(ReplicaPart, st.integers(0, 1 << 62), st.binary(max_size=40)), max_size=8
)
CUTS = st.lists(st.integers(0, 500), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return pieces of some bytes."""
    ends = [0, *sorted(place for place in places if place < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(ends)]


def framed(parts: list[ReplicaPart]) -> bytes:
    """Return parts as a master sends them."""
    return b"".join(replication.part_head(p.start, len(p.data)) + p.data for p in parts)


@given(PARTS, CUTS)
def test_parts_are_the_same_however_they_are_cut(
    parts: list[ReplicaPart], places: list[int]
) -> None:
    """Each once, in order."""
    reader = PartReader()
    found = received(reader, cut(framed(parts), places))
    assert found == parts


@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=8), CUTS)
def test_the_last_report_counts(ends: list[int], places: list[int]) -> None:
    """Of those that come together; half of one waits for its rest."""
    reader = ReportReader()
    data = b"".join(map(replication.report, ends))
    found = [end for piece in cut(data, places) for end in reader.receive(piece)]
    assert found[-1] == ends[-1]
    assert [end for end in ends if end in found][-len(found) :]
    assert ReportReader().receive(data) == ends[-1:]


@given(st.binary(max_size=64))
def test_any_bytes_give_parts_or_an_error(data: bytes) -> None:
    """And none asks for more memory than a part takes."""
    reader = PartReader()
    try:
        for part in reader.receive(data):
            assert len(part.data) <= PART_BYTES_MAX
    except WireError:
        pass


@pytest.mark.parametrize("head", [(-1, 1), (0, -1), (0, PART_BYTES_MAX + 1)])
def test_what_is_no_part_is_refused(head: tuple[int, int]) -> None:
    """A place before the log, a size that is none, and one that nobody sends."""
    with pytest.raises(WireError, match="a master sends"):
        PartReader().receive(replication.part_head(*head))


def test_a_log_does_not_end_before_its_begin() -> None:
    """Java's long has a sign."""
    with pytest.raises(WireError, match="ends at -1"):
        ReportReader().receive(replication.report(-1))


def test_what_a_real_master_and_slave_said() -> None:
    """The example of docs/formats/replication.md."""
    assert ReportReader().receive(bytes.fromhex("00000000 40000000")) == [1 << 30]
    (part,) = PartReader().receive(bytes.fromhex("0000000000000400 00000003 616263"))
    assert (part, part.end) == (ReplicaPart(1024, b"abc"), 1027)
    assert PartReader().receive(bytes.fromhex("0000000000000403 00000000")) == [
        ReplicaPart(1027, b"")
    ]
