"""A finding can be written as JSON, its rule by name."""

import msgspec

from sprocket.rocketmq.store.consistency import Finding, Rule


def test_a_rule_says_what_must_hold() -> None:
    """Each in words of its own."""
    said = [rule.value for rule in Rule]
    assert len(said) == len(set(said))
    assert all(said)


def test_a_finding_may_be_of_no_record() -> None:
    """Then it names none."""
    finding = Finding(Rule.CONFIG, "/x", 0, "a table", "none")
    assert finding.record == -1
    assert msgspec.json.encode(finding)
