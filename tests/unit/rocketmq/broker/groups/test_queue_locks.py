"""A queue has one owner, until it gives the lock up or stops renewing it."""

import pytest

from sprocket.rocketmq.broker.groups import QueueLocks
from sprocket.rocketmq.broker.groups.queue_locks import LOCK_SECONDS
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.testing.clock import FakeClock

Q0 = MessageQueue("t", "b", 0)
Q1 = MessageQueue("t", "b", 1)


def test_free_and_own_locks_are_given_others_not() -> None:
    """The second client gets only what the first does not hold; the first may ask again."""
    locks = QueueLocks(FakeClock())
    assert locks.lock("g", "a", [Q0]) == [Q0]
    assert locks.lock("g", "b", [Q0, Q1]) == [Q1]
    assert locks.lock("g", "a", [Q0, Q1]) == [Q0]
    assert locks.lock("other", "b", [Q0]) == [Q0]


def test_a_lock_lasts_60_seconds_from_its_last_renewal() -> None:
    """Renewing moves the end; after it anyone may have the queue."""
    clock = FakeClock()
    locks = QueueLocks(clock)
    locks.lock("g", "a", [Q0])
    clock.advance(int(LOCK_SECONDS * 1000) - 1)
    assert locks.lock("g", "b", [Q0]) == []
    assert locks.lock("g", "a", [Q0]) == [Q0]
    clock.advance(int(LOCK_SECONDS * 1000) - 1)
    assert locks.is_held("g")
    assert locks.lock("g", "b", [Q0]) == []
    clock.advance(1)
    assert not locks.is_held("g")
    assert locks.lock("g", "b", [Q0]) == [Q0]


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_ends_no_lock_and_keeps_none(step_ms: int) -> None:
    """Its 60 seconds pass on the monotonic clock."""
    clock = FakeClock()
    locks = QueueLocks(clock)
    locks.lock("g", "a", [Q0])
    clock.step_wall(step_ms)
    clock.advance(int(LOCK_SECONDS * 1000) - 1)
    locks.expire()
    assert locks.lock("g", "b", [Q0]) == []
    clock.advance(1)
    assert locks.lock("g", "b", [Q0]) == [Q0]


def test_only_the_owner_can_unlock() -> None:
    """Somebody else's unlock changes nothing."""
    locks = QueueLocks(FakeClock())
    locks.lock("g", "a", [Q0])
    locks.unlock("g", "b", [Q0, Q1])
    assert locks.lock("g", "b", [Q0]) == []
    locks.unlock("g", "a", [Q0])
    assert not locks.is_held("g")
    assert locks.lock("g", "b", [Q0]) == [Q0]
    locks.unlock("unknown", "a", [Q0])


def test_expired_locks_are_forgotten() -> None:
    """What has run out leaves the table, what has not stays."""
    clock = FakeClock()
    locks = QueueLocks(clock)
    locks.lock("g", "a", [Q0])
    locks.lock("gone", "a", [Q0])
    clock.advance(30_000)
    locks.lock("g", "a", [Q1])
    clock.advance(30_000)
    locks.expire()
    assert locks.is_held("g")
    assert not locks.is_held("gone")
    assert locks.lock("g", "b", [Q0, Q1]) == [Q0]
