"""Shares as RocketMQ's strategies cut them."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.consumer import Strategy, averagely, rebalance
from sprocket.rocketmq.client.consumer.rebalance import allocate, by_circle
from sprocket.rocketmq.model.route import MessageQueue


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    """Return the queues 0 to count − 1 of one topic."""
    return [MessageQueue("t", broker, number) for number in range(count)]


def shares(strategy: Strategy, count: int, members: int, broker: str = "b") -> list[list[int]]:
    """Return what each of so many members gets, lists given in reverse."""
    names = [f"c{number}" for number in range(members)]
    return [
        [one.queue_id for one in allocate(strategy, queues(count, broker)[::-1], names[::-1], me)]
        for me in names
    ]


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (8, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (10, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (4, [[0], [1], [2], [3], [], []]),
        (1, [[0], []]),
    ],
)
def test_queues_are_shared_averagely_as_rocketmq_does(count: int, wanted: list[list[int]]) -> None:
    """The table of examples computed from `AllocateMessageQueueAveragely`."""
    assert wanted == shares(averagely, count, len(wanted))


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (8, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (10, [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
        (4, [[0], [1], [2], [3], [], []]),
    ],
)
def test_queues_are_dealt_in_a_circle_as_rocketmq_does(count: int, wanted: list[list[int]]) -> None:
    """The table of examples computed from `AllocateMessageQueueAveragelyByCircle`."""
    assert wanted == shares(by_circle, count, len(wanted))


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (8, [[0, 1, 6], [2, 3, 7], [4, 5]]),
        (10, [[0, 1, 8], [2, 3, 9], [4, 5], [6, 7]]),
        (8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (4, [[0], [1], [2], [3], [], []]),
    ],
)
def test_by_machine_room(count: int, wanted: list[list[int]]) -> None:
    """The table of examples computed from `AllocateMessageQueueByMachineRoom`."""
    strategy = rebalance.by_machine_room({"here"})
    assert wanted == shares(strategy, count, len(wanted), "here@b")


def test_other_machine_rooms_are_left_alone() -> None:
    """Only names of the form `room@broker` count."""
    strategy = rebalance.by_machine_room({"here", "b"})
    several = queues(2, "here@b") + queues(2, "there@b") + queues(2, "b") + queues(2, "here@b@c")
    assert allocate(strategy, several, ["a"], "a") == queues(2, "here@b")


def test_the_named_queues_that_exist_are_taken() -> None:
    """The queues that were named and exist, whoever else there is."""
    strategy = rebalance.by_config([queues(9)[1], queues(9)[7]])
    assert allocate(strategy, queues(4), ["a", "b"], "b") == [queues(4)[1]]


def test_rooms_with_members_keep_their_queues() -> None:
    """Rooms with members keep their queues; those of room C go to everybody."""
    strategy = rebalance.nearby(lambda broker: broker[:1], lambda member: member[:1])
    several = queues(4, "a") + queues(2, "b") + queues(3, "c")
    members = {"a1": "a", "a2": "a", "b1": "b"}

    def got(me: str) -> list[str]:
        share = allocate(strategy, several, members, me)
        return [f"{one.broker_name}{one.queue_id}" for one in share]

    assert {me: got(me) for me in members} == {
        "a1": ["a0", "a1", "c0"],
        "a2": ["a2", "a3", "c1"],
        "b1": ["b0", "b1", "c2"],
    }
    with pytest.raises(InvalidMessage, match="no machine room is given for 'b'"):
        allocate(rebalance.nearby(lambda _: "", lambda _: "r"), queues(1), ["a"], "a")


def test_the_ring_gives_each_member_its_queues() -> None:
    """The worked example of the ring with three members."""
    members = [f"10.0.0.{number}@100{number}" for number in (1, 2, 3)]
    eight = [MessageQueue("TopicTest", "broker-a", number) for number in range(8)]
    got = [
        [one.queue_id for one in allocate(rebalance.consistent_hash(), eight, members, me)]
        for me in members
    ]
    assert got == [[0, 4], [2, 5], [1, 3, 6, 7]]


def test_a_strategy_of_ones_own() -> None:
    """Gets sorted lists; a queue that it makes up is an error."""
    seen = []

    def mine(queues: Sequence[MessageQueue], members: Sequence[str], me: str) -> list[MessageQueue]:
        seen.append((queues, members, me))
        return [MessageQueue("t", "b", 7)]

    with pytest.raises(InvalidMessage, match="t/b/7, which the topic does not have"):
        allocate(mine, queues(2)[::-1], ["b", "a"], "b")
    assert seen == [(queues(2), ["a", "b"], "b")]


_PARTITIONS: dict[str, Callable[[], Strategy]] = {
    "averagely": lambda: averagely,
    "by circle": lambda: by_circle,
    "by machine room": lambda: rebalance.by_machine_room(["here"]),
    "nearby": lambda: rebalance.nearby(lambda _: "here", lambda member: member[:1]),
    "consistent hash": rebalance.consistent_hash,
}


@given(
    st.sampled_from(sorted(_PARTITIONS)),
    st.integers(0, 64),
    st.sets(st.sampled_from("abcdefgh😀\uffff"), min_size=1),
)
def test_every_queue_has_exactly_one_reader(name: str, count: int, members: set[str]) -> None:
    """The shares of all members are a partition, and even ones differ by one queue at most."""
    every = queues(count, "here@b")
    got = [allocate(_PARTITIONS[name](), every, members, member) for member in members]
    assert every == sorted(queue for share in got for queue in share)
    if name != "consistent hash":
        assert max(map(len, got)) - min(map(len, got)) <= 1


def test_ids_are_ordered_as_java_orders_them() -> None:
    """By UTF-16 units: a character beyond the first plane comes before U+FFFF."""
    members = ["\U0001f600", "\uffff"]
    assert queues(2)[:1] == allocate(averagely, queues(2), members, "\U0001f600")


def test_a_client_that_is_named_twice_counts_once() -> None:
    """A ghost of a lost connection takes no queues away from anybody."""
    assert allocate(averagely, queues(4), ["a", "a"], "a") == queues(4)
    assert allocate(averagely, queues(4), ["b", "a", "a"], "b") == queues(4)[2:]


def test_a_stranger_gets_nothing() -> None:
    """Somebody who is not in the list of members reads no queue."""
    assert allocate(averagely, queues(4), ["a"], "b") == []
    assert allocate(averagely, [], ["a"], "a") == []


@pytest.mark.parametrize("error", [SystemExit(1), ValueError("no")], ids=repr)
def test_whatever_a_strategy_raises_is_said(error: BaseException) -> None:
    """As what is wrong with the strategy; it never ends who shares out."""

    def fails(*_: object) -> list[MessageQueue]:
        raise error

    with pytest.raises(InvalidMessage, match="the strategy failed with") as raised:
        allocate(fails, queues(2), ["me"], "me")
    assert raised.value.__cause__ is error
