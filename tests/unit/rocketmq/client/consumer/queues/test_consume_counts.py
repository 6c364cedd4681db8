"""Rates are those of the last minute, failures those of the last hour."""

from sprocket.rocketmq.client.consumer.queues import SAMPLE_S
from sprocket.rocketmq.client.consumer.queues.consume_counts import ConsumeCounts
from sprocket.testing.clock import FakeClock


def advance(clock: FakeClock, counts: ConsumeCounts, seconds: float) -> None:
    """Let time pass, with samples as a consumer takes them."""
    for _ in range(int(seconds / SAMPLE_S)):
        clock.advance(int(1000 * SAMPLE_S))
        counts.sample()


def test_rates_of_the_last_minute() -> None:
    """What was counted before it does not matter."""
    clock = FakeClock()
    counts = ConsumeCounts(clock)
    sums = counts.of("t")
    sums.consumed += 1_000_000
    advance(clock, counts, 120)
    sums.pulls += 2
    sums.pulled += 60
    sums.pull_s += 0.5
    sums.calls += 4
    sums.consumed += 30
    sums.consume_s += 0.1
    sums.failed += 6
    info = counts.infos()["t"]
    assert (info.pull_ms, info.pull_rate) == (250.0, 1.0)
    assert (info.consume_ms, info.consume_rate, info.failure_rate) == (25.0, 0.5, 0.1)


def test_failures_of_the_last_hour() -> None:
    """And no longer."""
    clock = FakeClock()
    counts = ConsumeCounts(clock)
    counts.of("t").failed += 5
    assert counts.infos()["t"].failures == 5
    advance(clock, counts, 3_500)
    assert counts.infos()["t"].failures == 5
    advance(clock, counts, 120)
    assert counts.infos()["t"].failures == 0


def test_a_topic_has_one_entry() -> None:
    """Whoever counts adds to the same sums."""
    counts = ConsumeCounts(FakeClock())
    assert counts.of("t") is counts.of("t")
    assert counts.infos()["t"].pull_ms == 0.0
