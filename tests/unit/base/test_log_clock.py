"""Log time never goes down, and knows how long ago it was, whatever is done to the wall clock."""

from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.clock import NEAR_MS, PARTS_MAX, LogClock
from sprocket.testing.clock import FakeClock

HOUR = 3_600_000
START = 1_700_000_000_000


def test_without_a_step_it_is_the_wall_clock() -> None:
    """Also after an hour in which nobody asked."""
    clock = FakeClock(START)
    log_clock = LogClock(clock)
    for ms in (0, 1, 49, 1000, HOUR):
        clock.advance(ms)
        assert log_clock.now_ms() == clock.now_ms()
    assert log_clock.elapsed_ms(START) == HOUR + 1050


def test_a_step_forward_is_followed_and_counts_for_nothing() -> None:
    """Time stamps are right at once, and what waits does not come early."""
    clock = FakeClock(START)
    log_clock = LogClock(clock)
    before = log_clock.now_ms()
    clock.advance(10_000)
    clock.step_wall(HOUR)
    after = log_clock.now_ms()
    assert after == clock.now_ms()
    assert log_clock.elapsed_ms(before) == 10_000
    clock.advance(5_000)
    assert (log_clock.elapsed_ms(before), log_clock.elapsed_ms(after)) == (15_000, 5_000)


def test_a_step_back_is_made_up_for_at_half_speed() -> None:
    """Every moment keeps a time of its own, so that what waits does not come at once."""
    clock = FakeClock(START)
    log_clock = LogClock(clock)
    clock.step_wall(-HOUR)
    first = log_clock.now_ms()
    clock.advance(10_000)
    second = log_clock.now_ms()
    assert (first, second) == (START, START + 5_000)
    clock.advance(10_000)
    assert (log_clock.elapsed_ms(first), log_clock.elapsed_ms(second)) == (20_000, 10_000)
    clock.advance(2 * HOUR - 20_000)
    assert log_clock.now_ms() == clock.now_ms()
    clock.advance(1000)
    assert log_clock.now_ms() == clock.now_ms()
    assert log_clock.elapsed_ms(first) == 2 * HOUR + 1000


def test_it_goes_on_from_the_last_time_in_the_log() -> None:
    """A clock that was set back between two processes is one that was set back."""
    clock = FakeClock(START - HOUR)
    log_clock = LogClock(clock, START)
    assert (log_clock.now_ms(), log_clock.elapsed_ms(START)) == (START, 0)
    clock.advance(1000)
    assert (log_clock.now_ms(), log_clock.elapsed_ms(START - 1000)) == (START + 500, 2000)


steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 40, 999, 60_000, 2 * HOUR]),
        st.sampled_from([0, 0, NEAR_MS - 1, -NEAR_MS, HOUR, -HOUR, 7, -7]),
    ),
    max_size=2 * PARTS_MAX,
)


@given(steps)
def test_however_often_the_clock_is_set(moves: list[tuple[int, int]]) -> None:
    """It never goes down; what it says has passed is right but for what it takes for noise."""
    clock = FakeClock(START)
    log_clock = LogClock(clock)
    seen: list[tuple[int, float]] = []
    for passes, step in moves:
        clock.advance(passes)
        clock.step_wall(step)
        now = log_clock.now_ms()
        assert not seen or now >= seen[-1][0]
        seen.append((now, clock.monotonic()))
        for at, monotonic in seen[-PARTS_MAX:]:
            passed = 1000 * (clock.monotonic() - monotonic)
            unnoticed = sum(abs(one) for _, one in moves if abs(one) <= NEAR_MS)
            assert abs(log_clock.elapsed_ms(at) - passed) <= unnoticed + 2


def test_what_is_due_after_the_clock_was_set_back() -> None:
    """A wait that began before is over when the old time would have come."""
    clock = FakeClock(START)
    log_clock = LogClock(clock)
    clock.advance(1000)
    assert log_clock.furthest_ms() == log_clock.now_ms() == START + 1000
    clock.step_wall(-HOUR)
    log_clock.now_ms()
    clock.advance(10_000)
    assert log_clock.furthest_ms() == START + 11_000
    assert log_clock.now_ms() == START + 6_000
    clock.step_wall(3 * HOUR)
    assert log_clock.furthest_ms() == log_clock.now_ms()
