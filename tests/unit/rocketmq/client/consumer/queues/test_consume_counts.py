"""Rates are those of the last minute, failures those of the last hour."""

import asyncio

from tests import virtual_time
from tests.virtual_time import LoopClock

from sprocket.rocketmq.client.consumer.queues.consume_counts import ConsumeCounts
from sprocket.testing.clock import FakeClock


def advance(clock: FakeClock, counts: ConsumeCounts, seconds: float) -> None:
    """Let time pass, with samples as a consumer takes them."""
    for _ in range(int(seconds / 10)):
        clock.advance(10_000)
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


def test_a_consumer_that_runs_forgets_what_is_old() -> None:
    """Nobody has to ask for samples; what was counted a minute ago is not a rate any more."""

    async def main() -> None:
        counts = ConsumeCounts(LoopClock())
        counts.of("t").consumed += 600
        running = asyncio.ensure_future(counts.run())
        await asyncio.sleep(59)
        assert counts.infos()["t"].consume_rate > 1
        await asyncio.sleep(62)
        assert counts.infos()["t"].consume_rate == 0
        running.cancel()

    virtual_time.run(main())


def test_a_topic_has_one_entry() -> None:
    """Whoever counts adds to the same sums."""
    counts = ConsumeCounts(FakeClock())
    assert counts.of("t") is counts.of("t")
    assert counts.infos()["t"].pull_ms == 0.0
