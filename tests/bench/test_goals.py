"""Figures are held against the right limits, the right way round."""

from bench.goals import ASYNC, LONG_PULL, OURS, PULL, SYNC, THEIRS, Figures, Key

from bench import goals

THEIR_FIGURES = Figures(messages_per_s=1000.0, cpu_us_per_message=100.0, p50_ms=1.0, p99_ms=10.0)


def figures(*, rate: float = 3000.0, cpu: float = 10.0, p99: float = 5.0) -> Figures:
    """Return figures of ours that meet every goal but for what is given."""
    return Figures(messages_per_s=rate, cpu_us_per_message=cpu, p50_ms=1.0, p99_ms=p99)


def missed(row: str, flush: str, ours: Figures) -> list[str]:
    """Return which goals one row misses."""
    medians = {
        Key(row=row, flush=flush, broker=OURS): ours,
        Key(row=row, flush=flush, broker=THEIRS): THEIR_FIGURES,
    }
    return [goal.what for goal in goals.compare(medians) if not goal.is_met]


def test_each_row_has_three_goals_in_each_mode() -> None:
    """CPU at most, rate at least, p99 no worse; sends in both modes, pulls in one."""
    names = [row.name for row in goals.SENDS]
    assert names == ["1 × 1", "16 × 1", "64 × 1", "4 × 32", "4 × 4 × 32"]
    for row in names:
        for flush in (SYNC, ASYNC):
            assert missed(row, flush, figures()) == []
            worse = missed(row, flush, figures(rate=900.0, cpu=80.0, p99=10.1))
            assert worse == [f"{row} {flush}: {what}" for what in ("CPU", "messages/s", "p99")]
    assert missed(PULL, ASYNC, figures(rate=1000.0, cpu=50.0, p99=10.0)) == []


def test_our_sync_is_held_against_their_async() -> None:
    """Only in the rows where that is promised."""
    for row, count in (("64 × 1", 1), ("1 × 1", 0)):
        medians = {
            Key(row=row, flush=SYNC, broker=OURS): figures(rate=999.0),
            Key(row=row, flush=ASYNC, broker=THEIRS): THEIR_FIGURES,
        }
        assert [goal.is_met for goal in goals.compare(medians)] == [False] * count


def test_a_commit_is_held_against_a_plain_send() -> None:
    """Of the same broker in the same mode; only ours has a limit."""
    medians = {
        Key(row=row, flush=SYNC, broker=broker): figures(cpu=cpu)
        for broker, plain, committed in ((OURS, 10.0, 23.0), (THEIRS, 10.0, 40.0))
        for row, cpu in (("16 × 1", plain), ("16 × 1 committed", committed))
    }
    medians[Key(row="4 × 32 committed", flush=SYNC, broker=OURS)] = figures()
    ratios = goals.commit_ratios(medians)
    assert {key.broker: ratio for key, ratio in ratios.items()} == {OURS: 2.3, THEIRS: 4.0}
    assert [goal.is_met for goal in goals.commits(medians)] == [False]


def test_memory_and_ready_have_limits() -> None:
    """At most; a goal says its figure, its limit and the outcome."""
    assert goals.anonymous_memory(SYNC, 150.0).is_met
    assert not goals.anonymous_memory(SYNC, 150.1).is_met
    empty, killed = goals.ready(empty_seconds=0.5, killed_seconds=3.5)
    assert (empty.is_met, killed.is_met) == (True, False)
    assert str(killed).split()[-4:] == ["3.50", "≤", "3.00", "MISSED"]


def test_long_answers_are_not_held_to_the_latency_of_short_ones() -> None:
    """Ours bring up to 26 times as many messages; CPU and messages/s are compared."""
    late = figures(p99=100.0)
    assert missed(LONG_PULL, ASYNC, late) == []
    assert missed(PULL, ASYNC, late) == ["pull async: p99"]
    assert len(missed(LONG_PULL, ASYNC, figures(cpu=99.0, rate=1.0))) == 2
