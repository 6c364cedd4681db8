"""Shares as RocketMQ's averaging strategy cuts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.client.rebalance import allocate
from sprocket.rocketmq.model.route import MessageQueue


def queues(count: int) -> list[MessageQueue]:
    """Return the queues 0 to count − 1 of one topic."""
    return [MessageQueue("t", "b", number) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "shares"),
    [
        (8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (10, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (4, [[0], [1], [2], [3], [], []]),
        (1, [[0], []]),
    ],
)
def test_worked_examples(count: int, shares: list[list[int]]) -> None:
    """The table of examples computed from `AllocateMessageQueueAveragely`."""
    members = [f"c{number}" for number in range(len(shares))]
    for number, share in enumerate(shares):
        got = allocate(queues(count)[::-1], members[::-1], f"c{number}")
        assert share == [queue.queue_id for queue in got]


@given(st.integers(0, 64), st.sets(st.sampled_from("abcdefgh😀￿"), min_size=1))
def test_every_queue_has_exactly_one_reader(count: int, members: set[str]) -> None:
    """The shares of all members are a partition, and differ by one queue at most."""
    shares = [allocate(queues(count), members, member) for member in members]
    assert queues(count) == sorted(queue for share in shares for queue in share)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_ids_are_ordered_as_java_orders_them() -> None:
    """By UTF-16 units: a character beyond the first plane comes before U+FFFF."""
    members = ["\U0001f600", "￿"]
    assert queues(2)[:1] == allocate(queues(2), members, "\U0001f600")


def test_a_client_that_is_named_twice_counts_once() -> None:
    """A ghost of a lost connection takes no queues away from anybody."""
    assert allocate(queues(4), ["a", "a"], "a") == queues(4)
    assert allocate(queues(4), ["b", "a", "a"], "b") == queues(4)[2:]


def test_a_stranger_gets_nothing() -> None:
    """Somebody who is not in the list of members reads no queue."""
    assert allocate(queues(4), ["a"], "b") == []
    assert allocate([], ["a"], "a") == []
