"""A finding is the same for every product: JSON, and back from bytes with its rule."""

from enum import Enum

import msgspec

from sprocket.base.finding import Finding


class Rule(Enum):
    """Two rules of nothing."""

    ONE = "one"
    OTHER = "other"


def test_a_finding_is_told_by_the_name_of_its_rule() -> None:
    """With its place, what was expected and what is there."""
    found = Finding(Rule.ONE, "/x", 3, "a table", "none", 7)
    assert found.row() == {
        "rule": "ONE",
        "file": "/x",
        "position": 3,
        "expected": "a table",
        "found": "none",
    }


def test_a_finding_comes_back_from_a_worker() -> None:
    """With a rule of its own product."""
    found = Finding(Rule.OTHER, "/x", 3, "a table", "none")
    data = msgspec.msgpack.encode(found)
    assert msgspec.msgpack.decode(data, type=Finding[Rule]) == found
