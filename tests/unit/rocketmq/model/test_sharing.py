"""Queues are shared out as RocketMQ's clients share them."""

import pytest

from sprocket.rocketmq.model import sharing
from sprocket.rocketmq.model.route import MessageQueue

EXAMPLES = [
    (8, 3, ["0 1 2", "3 4 5", "6 7"], ["0 3 6", "1 4 7", "2 5"]),
    (10, 4, ["0 1 2", "3 4 5", "6 7", "8 9"], ["0 4 8", "1 5 9", "2 6", "3 7"]),
    (8, 4, ["0 1", "2 3", "4 5", "6 7"], ["0 4", "1 5", "2 6", "3 7"]),
    (4, 6, ["0", "1", "2", "3", "", ""], ["0", "1", "2", "3", "", ""]),
    (1, 2, ["0", ""], ["0", ""]),
]


def queues(count: int) -> list[MessageQueue]:
    """Return queues of one topic, not in order."""
    return [MessageQueue("T", "b", number) for number in reversed(range(count))]


@pytest.mark.parametrize(("count", "members", "averagely", "circle"), EXAMPLES)
def test_shares_are_those_of_the_worked_examples(
    count: int, members: int, averagely: list[str], circle: list[str]
) -> None:
    """For each strategy; every queue belongs to one member."""
    ids = [f"c{number}" for number in range(members)]
    for strategy, wanted in (("AVG", averagely), ("AVG_BY_CIRCLE", circle)):
        shares = [sharing.share_of(strategy, queues(count), ids[::-1], me) for me in ids]
        told = [" ".join(str(queue.queue_id) for queue in share or ()) for share in shares]
        assert told == wanted


def test_who_gets_nothing_and_who_is_told_nothing() -> None:
    """A stranger gets nothing; without a strategy, queues or members nothing can be said."""
    assert sharing.share_of("AVG", queues(2), ["a"], "b") == []
    assert sharing.share_of("AVG", queues(2), ["a", "a"], "a") == sorted(queues(2))
    assert sharing.share_of("CONSISTENT_HASH", queues(2), ["a"], "a") is None
    assert sharing.share_of("AVG", [], ["a"], "a") is None
    assert sharing.share_of("AVG", queues(2), [], "a") is None


def test_ids_are_sorted_as_java_sorts_them() -> None:
    """By UTF-16 units: a character beyond the first plane comes before U+FFFF."""
    ids = ["\uffff", "\U0001f600", "a"]
    assert sorted(ids, key=sharing.java_order) == ["a", "\U0001f600", "\uffff"]
