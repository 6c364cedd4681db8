"""Lists of epochs say up to where two logs are equal."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.model.epochs import NO_EPOCH, CommonPoint, Epoch, Epochs


def epochs(text: str) -> Epochs:
    """Return the list that prints itself as a text."""
    pairs = (one.split("@") for one in text.split())
    return Epochs.of([Epoch(int(number), int(start)) for number, start in pairs])


def test_a_list_prints_itself() -> None:
    """As in the docs, and its newest is known."""
    found = epochs("1@0 3@700 4@900")
    assert str(found) == "[1@0, 3@700, 4@900]"
    assert (found.last, found.last_start) == (4, 900)
    assert (Epochs().last, Epochs().last_start) == (NO_EPOCH, -1)


@pytest.mark.parametrize("text", ["1@0 1@5", "2@0 1@5", "1@5 2@5", "1@5 2@4", "-1@0", "1@-1"])
def test_numbers_and_starts_rise(text: str) -> None:
    """Anything else is not a list of epochs."""
    with pytest.raises(ValueError, match="cannot follow"):
        epochs(text)


def test_each_byte_has_an_epoch() -> None:
    """From its start to the next one's."""
    found = epochs("1@100 3@700")
    places = (99, 100, 699, 700, 10_000)
    assert [str(found.at(place)) for place in places] == [
        "None",
        "1@100",
        "1@100",
        "3@700",
        "3@700",
    ]
    assert [found.end_of(1, 900), found.end_of(3, 900)] == [700, 900]
    assert found.end_of(1, 650) == 650
    with pytest.raises(KeyError):
        found.end_of(2, 900)


def test_an_epoch_without_bytes_gives_way() -> None:
    """Its master has written nothing; RocketMQ's would not note the next one."""
    assert epochs("1@0 3@700").begun(Epoch(4, 700)) == epochs("1@0 4@700")
    assert epochs("1@0 3@700").begun(Epoch(4, 701)) == epochs("1@0 3@700 4@701")
    assert Epochs().begun(Epoch(7, 5)) == epochs("7@5")
    for wrong in (Epoch(3, 700), Epoch(3, 800), Epoch(2, 800), Epoch(4, 600)):
        with pytest.raises(ValueError, match="cannot follow"):
            epochs("1@0 3@700").begun(wrong)


def test_a_list_is_cut_at_both_ends() -> None:
    """At its end whoever has no byte left goes; at its front whoever had ended."""
    found = epochs("1@0 3@700 4@900")
    assert [str(found.cut(end)) for end in (0, 1, 700, 701, 901)] == [
        "[]",
        "[1@0]",
        "[1@0]",
        "[1@0, 3@700]",
        "[1@0, 3@700, 4@900]",
    ]
    assert [str(found.from_first(first)) for first in (0, 699, 700, 5000)] == [
        "[1@0, 3@700, 4@900]",
        "[1@0, 3@700, 4@900]",
        "[3@700, 4@900]",
        "[4@900]",
    ]


COMMON: list[tuple[str, int, str, int, CommonPoint | None]] = [
    ("1@0", 100, "1@0 2@70", 120, CommonPoint(70, 1)),
    ("1@0 2@70", 120, "1@0", 100, CommonPoint(70, 1)),
    ("1@0 2@70", 120, "1@0 2@70", 90, CommonPoint(90, 2)),
    ("1@0 2@70", 120, "1@0 2@80", 130, CommonPoint(70, 1)),
    ("1@0 2@70 5@90", 120, "1@0 3@70", 130, CommonPoint(70, 1)),
    ("1@0 5@120", 120, "1@0 5@120 6@150", 200, CommonPoint(120, 5)),
    ("4@500", 900, "1@0 4@500", 700, CommonPoint(700, 4)),
    ("1@0", 100, "2@0", 100, None),
    ("", 0, "1@0", 100, None),
]


@pytest.mark.parametrize(("own", "end", "other", "other_end", "common"), COMMON)
def test_the_newest_common_epoch_says_where_two_logs_part(
    own: str, end: int, other: str, other_end: int, common: CommonPoint | None
) -> None:
    """With the same start, not by its number alone; its end is that of the shorter one."""
    assert epochs(own).common(end, epochs(other), other_end) == common


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 6)), max_size=12))
def test_logs_are_equal_up_to_where_they_are_said_to_be(
    history: list[tuple[int, int, int]],
) -> None:
    """Three logs, of which one after the other becomes the master, and others follow or do not."""
    logs = [b""] * 3
    lists = [Epochs()] * 3
    written = count(1)
    for number, (master, follower, size) in enumerate(history, 1):
        lists[master] = lists[master].begun(Epoch(number, len(logs[master])))
        logs[master] += bytes(next(written) % 251 for _ in range(size))
        if follower not in (master, 3):
            point = lists[follower].common(
                len(logs[follower]), lists[master], len(logs[master])
            ) or CommonPoint(0, NO_EPOCH)
            assert logs[follower][: point.at] == logs[master][: point.at]
            logs[follower], lists[follower] = logs[master], lists[master]
    for one in range(3):
        for other in range(3):
            found = lists[one].common(len(logs[one]), lists[other], len(logs[other]))
            if found is not None:
                assert logs[one][: found.at] == logs[other][: found.at]


def by_number(own: Epochs, end: int, other: Epochs, other_end: int) -> CommonPoint | None:
    """Return what `Epochs.common` would if it did not look at starts."""
    theirs = {one.number for one in other.entries}
    for one in reversed(own.entries):
        if one.number in theirs:
            ends = own.end_of(one.number, end), other.end_of(one.number, other_end)
            return CommonPoint(min(ends), one.number)
    return None


def test_a_common_epoch_by_its_number_alone_is_found() -> None:
    """Numbers come twice if a set is begun again: the cases above tell the two apart."""
    found = [
        by_number(epochs(own), end, epochs(other), other_end)
        for own, end, other, other_end, _ in COMMON
    ]
    assert found != [common for *_, common in COMMON]
