"""What most did not exceed, and how all are spread, is known to a quarter."""

from sprocket.base.durations import BOUNDS_MS, DurationHistogram


def test_durations_are_counted() -> None:
    """How many, all together, the longest, those that most do not exceed, how they are spread."""
    found = DurationHistogram()
    assert (found.ms(0.99), found.up_to((0, 10)), found.count) == (0.0, [0, 0, 0], 0)
    for _ in range(990):
        found.add(0.001)
    for _ in range(10):
        found.add(0.5)
    assert (found.count, found.ms_max, round(found.seconds, 6)) == (1000, 500, 5.99)
    assert 1 <= found.ms(0.99) < 1.3
    assert 400 < found.ms(0.999) <= 500
    assert found.up_to((0, 10, 1000)) == [0, 990, 10, 0]


def test_what_is_beyond_all_bounds_counts() -> None:
    """With its own length."""
    found = DurationHistogram()
    seconds = BOUNDS_MS[-1] / 1000 + 9
    found.add(seconds)
    assert found.ms(0.5) == found.ms_max == seconds * 1000
    assert found.up_to((1,)) == [0, 1]
