"""The set of ended halves is a set, whatever the order they end in."""

from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.broker.transactions.ended_halves import EndedHalves

OFFSETS = st.integers(0, 24)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add_all", "discard", "skip_to"]), st.lists(OFFSETS, min_size=1)
    ),
    max_size=40,
)


@given(floor=st.integers(0, 8), calls=CALLS, start=OFFSETS, end=OFFSETS)
def test_it_is_a_set(floor: int, calls: list[tuple[str, list[int]]], start: int, end: int) -> None:
    """It has what was added and was not discarded, and all below its floor; no ranges touch."""
    ended, expected = EndedHalves(floor), set(range(floor))
    for call, offsets in calls:
        offset = offsets[0]
        getattr(ended, call)(sorted(offsets) if call == "add_all" else offset)
        if call == "add_all":
            expected |= set(offsets)
        elif call == "add":
            expected.add(offset)
        elif call == "discard":
            expected.discard(offset)
        else:
            expected |= set(range(offset))
        assert {one for one in range(50) if one in ended} == expected
        edges = [edge for pair in ended.ranges for edge in pair]
        assert edges == sorted(set(edges))
        assert ended.floor == min(set(range(51)) - expected)
    assert list(ended.pending(start, end)) == [
        one for one in range(start, end) if one not in expected
    ]
    gaps = ended.gaps(end)
    assert [one for begin, stop in gaps for one in range(begin, stop)] == [
        one for one in range(end) if one not in expected
    ]


def test_what_ends_in_order_is_one_range() -> None:
    """However much that is, with one that has not ended before it."""
    ended = EndedHalves(0)
    for offset in range(1, 100_000):
        ended.add(offset)
    assert ended.ranges == [(1, 100_000)]
    assert ended.floor == 0
    ended.add(0)
    assert (ended.floor, ended.ranges) == (100_000, [])


def test_pending_follows_changes() -> None:
    """What ends while somebody goes through the pending ones is not given."""
    ended = EndedHalves(0)
    seen = []
    for offset in ended.pending(0, 6):
        seen.append(offset)
        ended.add(offset + 1)
        ended.add(offset)
    assert seen == [0, 2, 4]
