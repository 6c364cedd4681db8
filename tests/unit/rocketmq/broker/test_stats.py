"""Rates are counts over the time that passed, for each window."""

from sprocket.rocketmq.broker.stats import Stats
from sprocket.testing.clock import FakeClock


def test_rates_follow_the_windows() -> None:
    """A burst shows in the short window first and leaves it first."""
    clock = FakeClock()
    stats = Stats(clock)
    assert stats.put_rates() == [0.0, 0.0, 0.0]
    for _ in range(120):
        stats.put += 10
        stats.got += 1
        clock.advance(1000)
        stats.sample()
    assert stats.put_rates() == [10.0, 10.0, 10.0]
    assert stats.got_rates() == [1.0, 1.0, 1.0]
    for _ in range(30):
        clock.advance(1000)
        stats.sample()
    assert stats.put_rates() == [0.0, 5.0, 8.0]


def test_samples_are_kept_for_ten_minutes() -> None:
    """Older counts do not matter any more."""
    clock = FakeClock()
    stats = Stats(clock)
    stats.put = 1000
    for _ in range(1300):
        clock.advance(1000)
        stats.sample()
    assert stats.put_rates()[2] == 0.0
