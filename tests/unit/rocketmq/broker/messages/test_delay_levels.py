"""Where a message waits that is sent with a level."""

import pytest

from sprocket.base.errors import SettingsError
from sprocket.rocketmq.broker.messages import DelayLevels
from sprocket.rocketmq.errors import Refusal, Refused


def test_a_message_is_diverted_to_the_queue_of_its_level() -> None:
    """It says where it wants to go; times that it carries are dropped, also in a retry."""
    levels = DelayLevels("1s 5s 2m")
    found = {"DELAY": "2", "TAGS": "a", "TIMER_DELAY_SEC": "5", "REAL_QID": "9"}
    assert levels.divert(2, "T", 3, found) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert found == {"DELAY": "2", "TAGS": "a", "REAL_TOPIC": "T", "REAL_QID": "3"}


def test_a_level_beyond_the_last_is_the_last() -> None:
    """In the queue, in the property and in the wait."""
    levels = DelayLevels("1s 5s 2m")
    found: dict[str, str] = {}
    assert levels.divert(99, "T", 0, found) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert found["DELAY"] == "3"
    assert [levels.delay_ms(level) for level in (1, 2, 3, 4)] == [1000, 5000, 120_000, 120_000]
    assert levels.count == 3


@pytest.mark.parametrize("topic", ["%RETRY%" + "g" * 249, "%RETRY%../g", "t" * 128])
def test_what_could_never_be_delivered_is_refused(topic: str) -> None:
    """Before it is acknowledged, not when its time has come."""
    with pytest.raises(Refused) as refused:
        DelayLevels("1s").divert(1, topic, 0, {})
    assert refused.value.why is Refusal.ILLEGAL_MESSAGE


def test_levels_that_are_none_are_refused() -> None:
    """When the broker starts, by name."""
    with pytest.raises(SettingsError, match="expected words such as"):
        DelayLevels("1s soon")
