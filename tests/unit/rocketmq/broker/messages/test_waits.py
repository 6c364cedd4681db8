"""What asks for a level or a time waits, and says where it wants to go and when."""

import pytest
from tests.timed import waits_of

from sprocket.base.clock import LogClock
from sprocket.rocketmq.broker.messages import DelayLevels
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.settings import TimerSettings
from sprocket.testing.clock import FakeClock

NOW = 1_700_000_000_000
WHEEL = "rmq_sys_wheel_timer", 0


def divert(
    found: dict[str, str], settings: TimerSettings | None = None, *, waiting: int = 0
) -> tuple[str, int]:
    """Return where a message goes that wants to go to queue 3 of T."""
    clock = FakeClock(NOW)
    waits = waits_of(
        DelayLevels("1s 5s"), LogClock(clock), clock, settings, waiting_count=lambda _: waiting
    )
    return waits.divert("T", 3, found)


@pytest.mark.parametrize(
    ("found", "out"),
    [
        ({"TIMER_DELAY_SEC": "5"}, NOW + 5000),
        ({"TIMER_DELAY_MS": "4321"}, NOW + 4321),
        ({"TIMER_DELIVER_MS": str(NOW + 1)}, NOW + 1),
        ({"TIMER_DELIVER_MS": str(NOW + 60_000)}, NOW + 60_000),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "7", "TIMER_DELAY_SEC": "1"}, NOW + 1000),
        ({"TIMER_DELAY_SEC": "259200"}, NOW + 259_200_000),
    ],
)
def test_a_message_waits_for_its_time(found: dict[str, str], out: int) -> None:
    """To the millisecond."""
    asked = dict(found)
    assert divert(found) == WHEEL
    assert found == {**asked, "TIMER_OUT_MS": str(out), "REAL_TOPIC": "T", "REAL_QID": "3"}


def test_a_level_wins_over_times() -> None:
    """Which are dropped."""
    found = {"DELAY": "2", "TIMER_DELAY_SEC": "5"}
    assert divert(found) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert found == {"DELAY": "2", "REAL_TOPIC": "T", "REAL_QID": "3"}


@pytest.mark.parametrize(
    "found",
    [
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELIVER_MS": str(NOW)},
        {"TIMER_DELIVER_MS": "-5"},
        {"DELAY": "0"},
        {"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": "1"},
        {},
    ],
)
def test_what_is_due_goes_its_way(found: dict[str, str]) -> None:
    """And what has waited already."""
    asked = dict(found)
    assert divert(found) == ("T", 3)
    assert found == asked


@pytest.mark.parametrize(
    ("found", "why", "text"),
    [
        ({"TIMER_DELAY_MS": "259200001"}, Refusal.ILLEGAL_MESSAGE, "max delay 259200000ms"),
        ({"TIMER_DELAY_MS": "soon"}, Refusal.ILLEGAL_MESSAGE, "TIMER_DELAY_MS is not a number"),
        ({"TIMER_DELAY_MS": "0", "TIMER_DEL_UNIQKEY": "T+a"}, Refusal.ILLEGAL_MESSAGE, "del msg"),
        (
            {"TIMER_DELAY_MS": "9", "TIMER_DEL_UNIQKEY": "U+a"},
            Refusal.ILLEGAL_MESSAGE,
            "none of another",
        ),
        ({"DELAY": "soon"}, Refusal.OTHER, "DELAY is not a number"),
        ({"INNER_NUM": "2"}, Refusal.ILLEGAL_MESSAGE, "inner batch"),
    ],
)
def test_what_cannot_wait_is_refused(found: dict[str, str], why: Refusal, text: str) -> None:
    """With RocketMQ's codes."""
    with pytest.raises(Refused, match=text) as refused:
        divert(found)
    assert refused.value.why is why


def test_timed_messages_may_be_refused() -> None:
    """All of them; levels are another thing."""
    off = TimerSettings(enabled=False)
    for found in ({"TIMER_DELAY_MS": "5"}, {"TIMER_DELIVER_MS": "1"}):
        with pytest.raises(Refused, match="timerWheelEnable is false"):
            divert(found, off)
    assert divert({"DELAY": "1"}, off) == ("SCHEDULE_TOPIC_XXXX", 0)


def test_a_slot_with_too_many_takes_no_more() -> None:
    """Always from twice as many on, never below the limit."""
    settings = TimerSettings(slot_messages_max=10)
    assert divert({"TIMER_DELAY_MS": "5"}, settings, waiting=10) == WHEEL
    with pytest.raises(Refused, match="flow control"):
        divert({"TIMER_DELAY_MS": "5"}, settings, waiting=20)


@pytest.mark.parametrize("step_ms", [-7_200_000, 7_200_000])
def test_a_time_is_the_wall_clocks_and_a_wait_is_not(step_ms: int) -> None:
    """After the clock was set, both are noted by the log's clock."""
    clock = FakeClock(NOW)
    log_clock = LogClock(clock)
    clock.step_wall(step_ms)
    waits = waits_of(DelayLevels("1s"), log_clock, clock)
    found = {"TIMER_DELIVER_MS": str(clock.now_ms() + 9000)}
    waits.divert("T", 0, found)
    assert found["TIMER_OUT_MS"] == str(log_clock.now_ms() + 9000)
    found = {"TIMER_DELAY_MS": "9000"}
    waits.divert("T", 0, found)
    assert found["TIMER_OUT_MS"] == str(log_clock.now_ms() + 9000)
