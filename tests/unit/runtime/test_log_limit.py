"""What strangers can cause is told once a kind and interval, with a count."""

import structlog

from sprocket.base import log
from sprocket.runtime.log_limit import INTERVAL_SECONDS, EventLimit, limiting
from sprocket.testing.clock import FakeClock

INTERVAL_MS = int(1000 * INTERVAL_SECONDS)
LIMITED = log.get_limited_logger("a.port")


def test_a_flood_is_its_first_line_and_its_last_with_a_count() -> None:
    """In each interval one; other kinds, and what strangers do not cause, are told as before."""
    clock = FakeClock()
    limit = EventLimit(clock)
    with structlog.testing.capture_logs() as logs, limiting(limit):
        for number in range(2100):
            LIMITED.warning("login refused", user=number)
        LIMITED.warning("cut off", peer="x")
        log.get_logger("a.port").warning("started")
        limit.tell_due()
        assert [one["event"] for one in logs] == ["login refused", "cut off", "started"]
        assert logs[0]["user"] == 0
        logs.clear()
        clock.advance(INTERVAL_MS)
        limit.tell_due()
        (line,) = logs
        assert (line["user"], line["suppressed"]) == (2099, 2098)
        LIMITED.warning("login refused", user=-1)
        assert len(logs) == 1
    assert [one.get("user") for one in logs] == [2099, -1]
    assert "suppressed" not in logs[1]


def test_two_are_both_told() -> None:
    """The second one late, and not as one that stands for others."""
    clock = FakeClock()
    limit = EventLimit(clock)
    with structlog.testing.capture_logs() as logs, limiting(limit):
        LIMITED.info("refused", user="a")
        LIMITED.info("refused", user="b")
        clock.advance(INTERVAL_MS)
        limit.tell_due()
        assert [one["user"] for one in logs] == ["a", "b"]
        assert "suppressed" not in logs[1]


def test_after_a_quiet_interval_the_next_is_told_at_once() -> None:
    """Nothing is kept of a kind that does not come any more."""
    clock = FakeClock()
    limit = EventLimit(clock)
    with structlog.testing.capture_logs() as logs, limiting(limit):
        for _ in range(3):
            LIMITED.info("refused")
            clock.advance(INTERVAL_MS)
            limit.tell_due()
        assert len(logs) == 3


def test_an_exception_keeps_its_trace() -> None:
    """Though it is not handled any more when it is told."""
    limit = EventLimit(FakeClock())
    with structlog.testing.capture_logs() as logs, limiting(limit):
        for number in range(2):
            try:
                raise ValueError(number)
            except ValueError:
                LIMITED.exception("a handler failed")
    assert logs[1]["exc_info"].args == (1,)


def test_without_a_limit_everything_is_told() -> None:
    """In the programs of others, who limit their logs by themselves."""
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            LIMITED.info("refused")
    assert len(logs) == 3
