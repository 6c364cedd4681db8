"""What takes a message back waits in the same slot; requests that cannot be are refused."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sprocket.base.clock import LogClock
from sprocket.rocketmq.broker.messages import Recalls, TimerRequests
from sprocket.rocketmq.codec.record import properties, recall_handle
from sprocket.rocketmq.codec.record.recall_handle import RecallHandle
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.recall import RecallRequest
from sprocket.rocketmq.settings import TimerSettings
from sprocket.testing.clock import FakeClock

NOW = 1_700_000_000_000
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
TOPICS = SimpleNamespace(get=lambda name: name if name in ("T", "U") else None)


def recalled(
    handle: RecallHandle | str, topic: str = "T", settings: TimerSettings | None = None
) -> NewRecord:
    """Return what takes a message back."""
    settings, clock = settings or TimerSettings(), FakeClock(NOW)
    log_clock = LogClock(clock)
    timers = TimerRequests(clock, log_clock, settings, lambda: None, lambda _: 10**9)
    recalls = Recalls(cast("Any", TOPICS), timers, settings, "a", HOST, clock.now_ms, log_clock)
    text = handle if isinstance(handle, str) else recall_handle.encode(handle)
    request = RecallRequest(topic=topic, recall_handle=text, producer_group="p")
    return recalls.record(request, "127.0.0.1:5")


def handle_of(wait_ms: int, topic: str = "T", broker: str = "a") -> RecallHandle:
    """Return the handle of a message that waits for so long."""
    return RecallHandle(topic, broker, NOW + wait_ms, "K1")


@pytest.mark.parametrize("wait_ms", [1, 999, 1000, 5000, 259_200_000])
def test_it_names_the_message_and_waits_in_its_slot(wait_ms: int) -> None:
    """Also where the time is that of the slot's beginning or end."""
    one = recalled(handle_of(wait_ms), settings=TimerSettings(slot_messages_max=1))
    assert (one.topic, one.queue_id, one.body, one.unique_key) == (
        *("rmq_sys_wheel_timer", 0),
        *(b"0", "K1"),
    )
    assert properties.decode(one.properties) == {
        "TAGS": "_RECALL_TAG_",
        "TIMER_DEL_UNIQKEY": "T+K1",
        "UNIQ_KEY": "K1",
        "TIMER_DELIVER_MS": str(NOW + wait_ms + 1),
        "BORN_TIMESTAMP": str(NOW),
        "PGROUP": "p",
        "TIMER_OUT_MS": str(NOW + wait_ms),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }


@pytest.mark.parametrize(
    ("handle", "topic", "why", "text"),
    [
        (handle_of(5000), "V", Refusal.NO_TOPIC, "recall failed, the topic[V] not exist"),
        ("?", "T", Refusal.WRONG_HANDLE, "recall handle is invalid"),
        (handle_of(5000), "U", Refusal.WRONG_HANDLE, "recall failed, topic not match"),
        (
            *(handle_of(5000, broker="b"), "T", Refusal.WRONG_HANDLE),
            "recall failed, broker service not available: the message is at broker b, this is a",
        ),
        (handle_of(0), "T", Refusal.TOO_LATE, "recall failed, timestamp invalid"),
        (handle_of(259_200_001), "T", Refusal.TOO_LATE, "recall failed, timestamp invalid"),
    ],
)
def test_what_cannot_be_taken_back_is_refused(
    handle: RecallHandle | str, topic: str, why: Refusal, text: str
) -> None:
    """In RocketMQ's order and words."""
    with pytest.raises(Refused) as refused:
        recalled(handle, topic)
    assert (refused.value.why, str(refused.value)) == (why, text)


def test_a_broker_may_take_nothing_back() -> None:
    """Before anything else is looked at."""
    with pytest.raises(Refused, match="operation is forbidden: recallMessageEnable") as refused:
        recalled("?", "V", TimerSettings(recall=False))
    assert refused.value.why is Refusal.NO_PERMISSION
