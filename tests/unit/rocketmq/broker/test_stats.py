"""Rates are counts over the time that passed, for each window."""

import pytest

from sprocket.rocketmq.broker.stats import Flow, Stats, Totals
from sprocket.rocketmq.model.stats import Rate, StatsData
from sprocket.rocketmq.store.reput import Put
from sprocket.testing.clock import FakeClock


def passed(clock: FakeClock, stats: Stats, seconds: int) -> None:
    """Let seconds pass, with a sample after each."""
    for _ in range(seconds):
        clock.advance(1000)
        stats.sample()


def put(topic: str, count: int) -> Put:
    """Return the arrival of messages of 100 bytes."""
    return Put(topic, count, 100 * count)


def test_rates_follow_the_windows() -> None:
    """A burst shows in the short window first and leaves it first."""
    clock = FakeClock()
    stats = Stats(clock)
    assert stats.rates() == [Flow(0.0, 0.0, 0.0, 0.0)] * 3
    for _ in range(120):
        stats.put += 10
        stats.pulled("t", "g", 0, 1, 1, 100)
        stats.pulled("t", "g", 0, 1, 0, 0)
        passed(clock, stats, 1)
    assert stats.rates() == [Flow(put=10.0, got=1.0, found=1.0, missed=1.0)] * 3
    passed(clock, stats, 30)
    assert [one.put for one in stats.rates()] == [0.0, 5.0, 8.0]


def test_samples_are_kept_for_ten_minutes() -> None:
    """Older counts do not matter any more."""
    clock = FakeClock()
    stats = Stats(clock)
    stats.put = 1000
    passed(clock, stats, 1300)
    assert stats.rates()[2].put == 0.0


def test_each_topic_and_group_has_its_own() -> None:
    """Sum, rate and average, under RocketMQ's names."""
    clock = FakeClock()
    stats = Stats(clock)
    stats.arrived(put("t", 5))
    stats.arrived(put("t", 1))
    stats.arrived(put("u", 4))
    stats.pulled("t", "g", 0, 6, 6, 600)
    stats.pulled("t", "g", 1, 2, 2, 200)
    stats.sent_back("t", "g")
    nothing = Rate(sum=0, tps=0.0, average=0.0)
    zeros = StatsData(minute=nothing, hour=nothing, day=nothing)
    assert zeros == stats.view("TOPIC_PUT_NUMS", "t", "C")
    assert stats.view("TOPIC_PUT_NUMS", "v", "C") is None
    passed(clock, stats, 20)
    for name, key, expected in (
        ("TOPIC_PUT_NUMS", "t", Rate(sum=6, tps=0.3, average=1)),
        ("TOPIC_PUT_SIZE", "t", Rate(sum=600, tps=30, average=100)),
        ("GROUP_GET_NUMS", "t@g", Rate(sum=8, tps=0.4, average=4)),
        ("GROUP_GET_SIZE", "t@g", Rate(sum=800, tps=40, average=400)),
        ("SNDBCK_PUT_NUMS", "t@g", Rate(sum=1, tps=0.05, average=1)),
        ("BROKER_PUT_NUMS", "C", Rate(sum=10, tps=0.5, average=1)),
        ("BROKER_GET_NUMS", "C", Rate(sum=8, tps=0.4, average=4)),
    ):
        found = stats.view(name, key, "C")
        assert found is not None, name
        assert (name, found.minute, found.day) == (name, expected, expected)
    for name, key in (("TOPIC_PUT_NUMS", "x"), ("NONE", "t"), ("BROKER_PUT_NUMS", "x")):
        assert stats.view(name, key, "C") is None
    assert stats.topic_put_tps("t") == pytest.approx(0.3)
    assert stats.group_get_tps("t", "g") == pytest.approx(0.4)
    assert stats.group_get_tps("t", "x") == 0.0
    assert stats.pull_offset("t", "g", 1) == 2


def test_what_was_deleted_is_forgotten() -> None:
    """A topic with its groups, and a group in all topics."""
    clock = FakeClock()
    stats = Stats(clock)
    for topic in "tu":
        stats.arrived(put(topic, 1))
        for group in "gh":
            stats.pulled(topic, group, 0, 1, 1, 1)
    passed(clock, stats, 10)
    stats.forget_topic("t")
    stats.forget_group("g")
    assert stats.view("TOPIC_PUT_NUMS", "t", "C") is None
    assert stats.view("TOPIC_PUT_NUMS", "u", "C") is not None
    left = [t + g for t in "tu" for g in "gh" if stats.view("GROUP_GET_NUMS", f"{t}@{g}", "C")]
    assert left == ["uh"]
    assert [stats.pull_offset(t, g, 0) for t in "tu" for g in "gh"] == [0, 0, 0, 1]


def test_days_begin_at_midnight() -> None:
    """What was stored until then stays beside what is stored now."""
    clock = FakeClock()
    stats = Stats(clock)
    stats.put = 3
    assert stats.put_totals == Totals(0, 0, 3)
    clock.advance(86_400_000)
    stats.sample()
    stats.put = 10
    assert stats.put_totals == Totals(0, 3, 10)
    clock.advance(86_400_000)
    stats.sample()
    assert stats.put_totals == Totals(3, 10, 10)
    assert stats.got_totals == Totals(0, 0, 0)


def test_pulls_that_waited_are_measured() -> None:
    """The longest."""
    clock = FakeClock()
    stats = Stats(clock)
    started = stats.monotonic()
    clock.advance(250)
    stats.waited(started)
    assert stats.pull_ms_max == pytest.approx(250)
