"""What members tell each other where nobody decides but an operator, and keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decider_contract import ADDRESSES, BEGUN, ME

from sprocket.base.errors import WireError
from sprocket.rocketmq.failover import Leader, MemberReport
from sprocket.rocketmq.failover.operator import Notice, Word, decode_notice, encode_notice

LEADER = Leader(member=ME, addresses=ADDRESSES, epoch=65, attempt="a1")
REPORT = MemberReport(member=ME, addresses=ADDRESSES, epoch=65, end=700)

words = st.builds(
    Word,
    change=st.integers(0, 2**31),
    tenure=st.integers(0, 2**63 - 1),
    leader=st.sampled_from([None, LEADER]),
    state=st.just(BEGUN),
)
notices = st.builds(Notice, word=st.none() | words, report=st.sampled_from([None, REPORT]))


@given(notices)
def test_a_notice(notice: Notice) -> None:
    """With or without a word, and a report."""
    assert decode_notice(encode_notice(notice)) == notice


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        '{"word": {}, "report": null}',
        '{"word": null, "report": {"member": "x"}}',
        '{"word": {"change": 0, "tenure": 0, "leader": {}, "state": {}}, "report": null}',
    ],
)
def test_anything_else_is_an_error(text: str) -> None:
    """None of it is taken for a word."""
    with pytest.raises(WireError):
        decode_notice(text)
