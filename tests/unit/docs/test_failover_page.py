"""docs/formats/failover.md shows the table of states, and values as they are written."""

import re
from pathlib import Path

import pytest

from sprocket.rocketmq.failover import Happening, Phase, mastership
from sprocket.rocketmq.failover.documents import decode_leader, decode_report, decode_state
from sprocket.rocketmq.failover.operator import decode_notice

PAGE = (Path(__file__).resolve().parents[3] / "docs/formats/failover.md").read_text(
    encoding="utf-8"
)


def test_the_states_are_those_of_the_code() -> None:
    """Each row of the table, and no other."""
    rows = re.findall(r"^\| ([A-Z]+) \| ([A-Z_]+) \| ([A-Z]+) \|$", PAGE, re.MULTILINE)
    told = {(Phase[state], Happening[what]): Phase[after] for state, what, after in rows}
    assert told == dict(mastership.NEXT)


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        ("leader", decode_leader),
        ("state", decode_state),
        ("member", decode_report),
        ("word", lambda text: decode_notice(b'{"word": %b, "report": null}' % text)),
    ],
)
def test_the_values_are_read(name: str, decode: object) -> None:
    """As etcd, or another member, would give them."""
    found = re.search(rf"^```json {name}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    assert callable(decode)
    decode(found[1].encode())
