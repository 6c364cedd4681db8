"""Pressure begins at half of the limit and ends below it."""

import structlog

from sprocket.runtime.pressure import Pressure


class Reader:
    """Counts how often it was told to read on."""

    def __init__(self) -> None:
        self.count = 0

    def read_on(self) -> None:
        """Count."""
        self.count += 1


def test_each_step_of_the_pressure_is_told_once() -> None:
    """0, below half, half, the limit, and down again; what is full and over is said once."""
    pressure = Pressure(100, 10)
    seen = []
    with structlog.testing.capture_logs() as logs:
        for weight in (0, 49, 50, 99, 100, 101, 99, 49):
            pressure.weigh(weight)
            seen.append((pressure.is_high, pressure.is_full))
    low, high, full = (False, False), (True, False), (True, True)
    assert seen == [low, low, high, high, full, full, high, low]
    assert [entry["event"] for entry in logs] == [
        "the disk is behind: sends are refused",
        "the disk has caught up: sends are taken again",
    ]


def test_who_was_kept_reads_on_once() -> None:
    """When the pressure is over, unless it is gone."""
    pressure = Pressure(100, 10)
    kept, gone = Reader(), Reader()
    pressure.weigh(60)
    pressure.keep(kept.read_on)
    pressure.keep(gone.read_on)
    pressure.forget(gone.read_on)
    pressure.weigh(55)
    assert kept.count == 0
    pressure.weigh(0)
    pressure.weigh(0)
    assert (kept.count, gone.count) == (1, 0)


def test_shares_are_weighed_together() -> None:
    """One that has nothing waiting does not hide what waits for another."""
    whole = Pressure(100, 10)
    one, other = whole.share(), whole.share()
    one.weigh(60)
    other.weigh(0)
    assert one.is_high
    assert other.is_high
    other.weigh(40)
    assert whole.is_full
    one.weigh(0)
    assert not whole.is_high


def test_arrivals_are_looked_at_once_for_each_allowance() -> None:
    """Before more than was allowed is taken; without an allowance never."""
    pressure = Pressure(100, 10)
    looks: list[int] = []
    pressure.arrivals_left_bytes -= 1 << 40
    assert pressure.arrivals_left_bytes > 0
    pressure.allow(10, lambda: looks.append(pressure.arrivals_left_bytes))
    for expected in (0, 1, 1):
        pressure.arrivals_left_bytes -= 10
        if pressure.arrivals_left_bytes < 0:
            pressure.look()
        assert len(looks) == expected
