"""Comparisons go along with a scan; one that cannot read its files ends alone."""

from collections.abc import Callable, Iterator

import pytest

from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.store.consistency import Finding, Rule, compare


def told(text: str) -> Finding:
    """A finding that says only this."""
    return Finding(Rule.CONFIG, "/x", 0, "", text)


def fail() -> None:
    """Fail as a disk does that cannot read a file."""
    raise DiskFailed("no sector", "/bad")


class Told:
    """Tells of each call, and does something at one of them.

    Args:
        name: In what it tells.
        at: The call.
        happens: What it does there.
    """

    def __init__(self, name: str, at: str = "", happens: Callable[[], None] = fail) -> None:
        self._name = name
        self._at = at
        self._happens = happens

    def _tell(self, call: str) -> Iterator[Finding]:
        yield told(f"{self._name} {call}")
        if call == self._at:
            self._happens()

    def start(self) -> Iterator[Finding]:
        """See `Comparison`."""
        return self._tell("start")

    def take(self, found: int, /) -> Iterator[Finding]:
        """See `Comparison`."""
        return self._tell(str(found))

    def finish(self) -> Iterator[Finding]:
        """See `Comparison`."""
        return self._tell("finish")


def test_findings_come_in_the_order_of_the_scan() -> None:
    """Of all comparisons together."""
    found = [one.found for one in compare((1, 2), [Told("a"), Told("b")])]
    calls = ("start", "1", "2", "finish")
    assert found == [f"{name} {call}" for call in calls for name in "ab"]


@pytest.mark.parametrize("at", ["start", "1", "finish"])
def test_one_that_cannot_read_its_file_ends_alone(at: str) -> None:
    """With what the disk said as its last finding, which is also known by its number."""
    failed: dict[int, Finding] = {}
    found = [*compare((1, 2), [Told("a"), Told("b", at)], failed)]
    own = [one.found for one in found if not one.found.startswith("a")]
    assert own[-2:] == [f"b {at}", "no sector; no other file of its kind is looked at"]
    assert sum(one.found.startswith("a") for one in found) == 4
    assert {1: found[found.index(failed[1])]} == failed
    assert (failed[1].rule, failed[1].path) == (Rule.FILE_READ, "/bad")


def test_a_file_that_goes_meanwhile_is_told_to_who_asked() -> None:
    """A running broker cleans up; nothing is damage."""

    def gone() -> None:
        raise FileMissing("/x")

    with pytest.raises(FileMissing):
        list(compare((1,), [Told("a", "1", gone)]))
