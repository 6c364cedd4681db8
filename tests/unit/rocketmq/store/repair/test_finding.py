"""A finding can be written as JSON, its rule by name."""

import msgspec

from sprocket.rocketmq.store.repair import Finding
from sprocket.rocketmq.store.repair.finding import Rule


def test_a_rule_says_what_must_hold() -> None:
    """Each in words of its own."""
    said = [rule.value for rule in Rule]
    assert len(said) == len(set(said))
    assert all(said)


def test_a_finding_has_a_place() -> None:
    """Without one it is the start of the file, and no record."""
    finding = Finding(rule=Rule.CONFIG, path="/x", expected="a table", found="none")
    assert (finding.position, finding.record) == (0, -1)
    assert msgspec.json.encode(finding)
