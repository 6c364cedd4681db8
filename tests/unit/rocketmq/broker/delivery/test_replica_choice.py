"""Which broker a consumer is sent to, and what a slave says of offsets that it does not have."""

from typing import Any

import pytest

from sprocket.rocketmq.broker.delivery import Pulled, PullOutcome, ReplicaChoice
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.store.read import GetResult, GetStatus

GROUP = SubscriptionGroup(name="g", broker_id=3, slow_broker_id=7)


def result(status: GetStatus, next_offset: int = 5, *, far: bool = False) -> GetResult:
    """Return what a read gives of a queue with the offsets 2 to 9."""
    low, high = QueueOffset(2), QueueOffset(10)
    return GetResult(status, QueueOffset(next_offset), low, high, [], suggest_slave=far)


def choice(*, is_slave: bool, there: bool) -> ReplicaChoice:
    """Return what a broker goes by, whose master or slave is there or not."""
    return ReplicaChoice(is_slave=is_slave, other_is_there=lambda: there)


@pytest.mark.parametrize(
    ("is_slave", "there", "far", "expected"),
    [
        (False, True, False, 3),
        (False, True, True, 7),
        (False, False, True, 3),
        (True, True, False, 0),
        (True, True, True, 7),
        (True, False, False, 3),
        (True, False, True, 7),
    ],
)
def test_the_next_broker(is_slave: bool, there: bool, far: bool, expected: int) -> None:
    """Of the group's two, or the master; a master without a slave suggests none."""
    found = choice(is_slave=is_slave, there=there)
    assert found.next_broker(GROUP, result(GetStatus.FOUND, far=far)) == expected


NOTHING, AGAIN, MOVED = PullOutcome.NOTHING_NEW, PullOutcome.TRY_AGAIN, PullOutcome.MOVED


@pytest.mark.parametrize(
    ("status", "outcome", "next_offset", "there", "expected"),
    [
        (GetStatus.FOUND, PullOutcome.FOUND, 5, True, (PullOutcome.FOUND, 5)),
        (GetStatus.NO_MATCHED_MESSAGE, AGAIN, 5, True, (AGAIN, 5)),
        (GetStatus.NO_MATCHED_MESSAGE, AGAIN, 5, False, (AGAIN, 5)),
        (GetStatus.OFFSET_OVERFLOW_ONE, NOTHING, 10, True, (AGAIN, 20)),
        (GetStatus.OFFSET_OVERFLOW_ONE, NOTHING, 10, False, (NOTHING, 20)),
        (GetStatus.OFFSET_OVERFLOW_BADLY, MOVED, 10, True, (AGAIN, 20)),
        (GetStatus.OFFSET_OVERFLOW_BADLY, MOVED, 10, False, (NOTHING, 20)),
        (GetStatus.OFFSET_TOO_SMALL, MOVED, 2, True, (AGAIN, 20)),
        (GetStatus.NO_MATCHED_LOGIC_QUEUE, MOVED, 0, False, (NOTHING, 20)),
        (GetStatus.OFFSET_RESET, MOVED, 4, True, (MOVED, 4)),
    ],
)
def test_a_slave_moves_nobody(
    status: GetStatus,
    outcome: PullOutcome,
    next_offset: int,
    there: bool,
    expected: tuple[PullOutcome, int],
) -> None:
    """Its log may end before its master's. With a master nobody waits at it."""
    permit: Any = None
    pulled = Pulled(outcome, result(status, next_offset), permit)
    found = choice(is_slave=True, there=there).seen_here(pulled, 20)
    assert (found.outcome, found.result.next_offset) == expected


def test_who_is_far_behind_may_wait_at_a_slave() -> None:
    """It is not sent back to its master, as it was suggested."""
    permit: Any = None
    pulled = Pulled(NOTHING, result(GetStatus.OFFSET_FOUND_NULL, far=True), permit)
    assert choice(is_slave=True, there=True).seen_here(pulled, 20).outcome is NOTHING
