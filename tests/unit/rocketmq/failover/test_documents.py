"""What is written for a decider is read back, and anything else is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import WireError
from sprocket.rocketmq.failover import (
    Incarnation,
    Leader,
    Member,
    MemberAddresses,
    MemberId,
    MemberReport,
    SetState,
    member_of,
)
from sprocket.rocketmq.failover.documents import (
    decode_leader,
    decode_report,
    decode_state,
    encode_leader,
    encode_report,
    encode_state,
)

numbers = st.integers(0, 2**40)
members = st.builds(
    Member,
    st.integers(1, 2**31 - 1).map(MemberId),
    st.from_regex(r"[0-9a-f]{32}", fullmatch=True).map(Incarnation),
)
addresses = st.builds(MemberAddresses, broker=st.text(max_size=9), slaves=st.text(max_size=9))


@given(st.builds(Leader, member=members, addresses=addresses, epoch=numbers, attempt=st.text()))
def test_a_leader(leader: Leader) -> None:
    """With all that is known of it."""
    assert decode_leader(encode_leader(leader)) == leader


@given(
    st.builds(
        SetState,
        epoch=numbers,
        master=st.none() | members,
        in_sync=st.frozensets(members, max_size=3),
        in_sync_min=numbers,
    )
)
def test_a_state(state: SetState) -> None:
    """Always in the same bytes."""
    assert decode_state(encode_state(state)) == state
    assert encode_state(decode_state(encode_state(state))) == encode_state(state)


@given(st.builds(MemberReport, member=members, addresses=addresses, epoch=numbers, end=numbers))
def test_a_report(report: MemberReport) -> None:
    """Of a member."""
    assert decode_report(encode_report(report)) == report


def test_they_are_written_for_people_as_well() -> None:
    """In few words."""
    members = frozenset({member_of("2/cd"), member_of("1/ab")})
    state = SetState(epoch=7, master=member_of("1/ab"), in_sync=members, in_sync_min=1)
    expected = b'{"epoch":7,"master":"1/ab","isr":["1/ab","2/cd"],"min":1}'
    assert encode_state(state) == expected


@given(st.binary())
def test_any_bytes_are_an_error(data: bytes) -> None:
    """Of its kind."""
    for decode in (decode_leader, decode_report, decode_state):
        with pytest.raises(WireError):
            decode(data)


@pytest.mark.parametrize("text", ["", "1", "0/ab", "-1/ab", "1/", "1/A b", "1/ab/c", "x/ab"])
def test_what_is_not_a_member(text: str) -> None:
    """A number from 1, a stroke, letters and digits."""
    with pytest.raises(WireError):
        member_of(text)
