"""How long a slave has lacked what it lacks."""

from sprocket.rocketmq.replication.written_times import COUNT_MAX, STEP_SECONDS, WrittenTimes


def test_what_was_written_first_of_what_is_lacking_counts() -> None:
    """Wherever in it the slave is."""
    times = WrittenTimes(100, 10.0)
    for number in range(1, 5):
        times.note(100 + number * 50, 10.0 + number)
    assert times.lag_seconds(100, 20.0) == 9.0
    assert times.lag_seconds(149, 20.0) == 9.0
    assert times.lag_seconds(150, 20.0) == 8.0
    assert times.lag_seconds(299, 20.0) == 6.0


def test_what_is_written_in_one_step_has_one_time() -> None:
    """The last that was noted counts for what came after it."""
    times = WrittenTimes(0, 1.0)
    times.note(10, 1.0 + STEP_SECONDS / 2)
    assert times.lag_seconds(5, 2.0) == 1.0
    times.note(20, 1.0 + STEP_SECONDS)
    assert times.lag_seconds(5, 2.0) == 1.0 - STEP_SECONDS


def test_no_more_times_are_kept_than_a_limit() -> None:
    """Who lacks more lacks it for at least as long as the oldest."""
    times = WrittenTimes(0, 0.0)
    for number in range(1, COUNT_MAX + 100):
        times.note(number, float(number))
    assert times.lag_seconds(0, COUNT_MAX + 200.0) == COUNT_MAX + 200.0 - 100.0
