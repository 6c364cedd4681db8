"""Heartbeats: sent and missed, on a clock that is moved by hand."""

from tests.timers import FakeTimers

from sprocket.rabbitmq.server.heartbeats import Heartbeats
from sprocket.testing.clock import FakeClock


class Line:
    """A connection that notes what it is told."""

    def __init__(self) -> None:
        self.was_read = False
        self.was_written = False
        self.is_reading = True
        self.beats = 0
        self.dropped: str | None = None

    def beat(self) -> None:
        """Note it; it is something that was written."""
        self.beats += 1
        self.was_written = True

    def drop(self, reason: str) -> None:
        """Note why."""
        assert self.dropped is None
        self.dropped = reason


def begun() -> tuple[Heartbeats, FakeTimers]:
    """Return heartbeats of nobody yet."""
    timers = FakeTimers(FakeClock())
    return Heartbeats(timers.clock, timers), timers


def elapse(timers: FakeTimers, seconds: float) -> None:
    """Let time pass in small steps."""
    for _ in range(round(seconds * 10)):
        timers.advance(100)


def test_who_writes_nothing_is_sent_a_heartbeat_each_half() -> None:
    """The first one after half of the interval; none where something was written."""
    heartbeats, timers = begun()
    line = Line()
    heartbeats.watch(line, 10)
    elapse(timers, 4.9)
    assert line.beats == 0
    elapse(timers, 0.2)
    assert line.beats == 1
    line.was_read = line.was_written = True
    elapse(timers, 5)
    assert line.beats == 1
    line.was_read = True
    elapse(timers, 5)
    assert line.beats == 2


def test_who_sends_nothing_is_dropped() -> None:
    """After two whole intervals without a sign, not before."""
    heartbeats, timers = begun()
    line = Line()
    heartbeats.watch(line, 10)
    line.was_read = True
    elapse(timers, 10.1)
    elapse(timers, 10)
    elapse(timers, 9.8)
    assert line.dropped is None
    elapse(timers, 0.3)
    assert line.dropped == "nothing came for 20 s"
    assert timers.pending_count == 0


def test_a_sign_of_life_counts_between_two_looks() -> None:
    """However little came."""
    heartbeats, timers = begun()
    line = Line()
    heartbeats.watch(line, 2)
    for _ in range(50):
        elapse(timers, 1.9)
        line.was_read = True
        elapse(timers, 1.9)
    assert line.dropped is None


def test_who_is_not_read_is_not_missed() -> None:
    """Nothing can come as long as the server does not read."""
    heartbeats, timers = begun()
    line = Line()
    heartbeats.watch(line, 2)
    line.is_reading = False
    elapse(timers, 60)
    assert line.dropped is None
    line.is_reading = True
    elapse(timers, 1.9)
    assert line.dropped is None
    elapse(timers, 2.3)
    assert line.dropped is not None


def test_all_share_one_timer() -> None:
    """Whatever their intervals; each is looked at in its own time."""
    heartbeats, timers = begun()
    lines = [Line() for _ in range(100)]
    for number, line in enumerate(lines):
        heartbeats.watch(line, 10 - number % 5)
        assert timers.pending_count == 1
    for _ in range(31):
        for line in lines:
            line.was_read = True
        elapse(timers, 1)
    assert timers.pending_count == 1
    for number, line in enumerate(lines):
        half = (10 - number % 5) / 2
        assert abs(line.beats - 31 // half) <= 1
        assert line.dropped is None


def test_who_is_watched_no_longer_is_left_alone() -> None:
    """And forgotten, even if its interval is long."""
    heartbeats, timers = begun()
    kept = Line()
    heartbeats.watch(kept, 65535)
    for _ in range(5_000):
        line = Line()
        watch = heartbeats.watch(line, 65535)
        heartbeats.cancel(watch)
        heartbeats.cancel(watch)
    assert heartbeats.watch_count == 1
    assert heartbeats.entries_count < 1_500
    timers.advance(40_000_000)
    assert kept.beats == 1
    assert line.beats == 0


def test_after_a_stop_nobody_is_looked_at() -> None:
    """No timer is left."""
    heartbeats, timers = begun()
    line = Line()
    heartbeats.watch(line, 1)
    heartbeats.stop()
    assert timers.pending_count == 0
    elapse(timers, 10)
    assert line.beats == 0
