"""Delay levels: how long each lasts, and where its messages wait.

A message with a level is stored in `SCHEDULE_TOPIC_XXXX`, in the queue of its level; `REAL_TOPIC`
and `REAL_QID` say where it is to go. When its time has come `broker.delay` stores a copy of it
there. The unit in the waiting queue has that time; see `store.units`.

Source: RocketMQ `ScheduleMessageService`, `HookUtils.transformDelayLevelMessage`.
"""

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages.timer_requests import TIMER_NAMES
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.store.log import check_queue
from sprocket.rocketmq.store.queue import delays_ms


class DelayLevels:
    """The levels, numbered from 1.

    Args:
        levels: Their waits, as the setting `store.delay_levels` has them.

    Raises:
        SettingsError: A wait cannot be read.
    """

    def __init__(self, levels: str) -> None:
        self._delays = delays_ms(levels)

    @property
    def count(self) -> int:
        """How many levels there are; a higher one counts as the highest."""
        return len(self._delays)

    def delay_ms(self, level: int) -> int:
        """Return how long a message of this level waits."""
        return self._delays[min(level, len(self._delays)) - 1]

    def divert(
        self, level: int, topic: str, queue_id: int, found: dict[str, str]
    ) -> tuple[str, int]:
        """Return topic and queue in which a message waits, and note in it where it wants to go.

        Args:
            level: At least 1.
            topic: Where the message wants to go.
            queue_id: Its queue there.
            found: The message's properties, which are changed.

        Raises:
            Refused: ILLEGAL_MESSAGE; no message can ever be there, so that this one would be
                lost when its time has come.
        """
        try:
            check_queue(topic, queue_id)
        except StoreError as error:
            raise Refused(Refusal.ILLEGAL_MESSAGE, str(error)) from error
        level = min(level, len(self._delays))
        for name in TIMER_NAMES:
            found.pop(name, None)
        found[properties.DELAY] = str(level)
        found[properties.REAL_TOPIC] = topic
        found[properties.REAL_QID] = str(queue_id)
        return SCHEDULE_TOPIC, level - 1
