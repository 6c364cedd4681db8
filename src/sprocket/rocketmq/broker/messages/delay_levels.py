"""Delay levels: how long each lasts, and where its messages wait.

A message with a level is stored in `SCHEDULE_TOPIC_XXXX`, in the queue of its level; `REAL_TOPIC`
and `REAL_QID` say where it is to go. When its time has come `broker.delay` stores a copy of it
there. The unit in the waiting queue has that time; see `store.units`.

Source: RocketMQ `ScheduleMessageService`, `HookUtils.transformDelayLevelMessage`.
"""

from collections.abc import Mapping

from sprocket.base.clock import Clock
from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages.diverters import InboundMessage
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import HALF_TOPIC, SCHEDULE_TOPIC
from sprocket.rocketmq.store.log import check_queue
from sprocket.rocketmq.store.queue import delays_ms

TIMER_NAMES = (
    properties.TIMER_DELIVER_MS,
    properties.TIMER_DELAY_SEC,
    properties.TIMER_DELAY_MS,
)
"""What asks for a time instead of a level; a level wins over all of them."""

EXAMINED = frozenset({properties.DELAY, properties.INNER_NUM, *TIMER_NAMES})
"""What may be refused, or wait first."""


class DelayLevels:
    """The levels, numbered from 1.

    Args:
        levels: Their waits, as the setting `store.delay_levels` has them.
        clock: For messages that name the time of their delivery.

    Raises:
        SettingsError: A wait cannot be read.
    """

    def __init__(self, levels: str, clock: Clock) -> None:
        self._clock = clock
        self._delays = delays_ms(levels)

    @property
    def count(self) -> int:
        """How many levels there are; a higher one counts as the highest."""
        return len(self._delays)

    def delay_ms(self, level: int) -> int:
        """Return how long a message of this level waits."""
        return self._delays[min(level, len(self._delays)) - 1]

    def asked_for(self, found: Mapping[str, str]) -> int:
        """Return the delay level of a message, 0 or less for none; refuse what is not supported.

        Raises:
            Refused: It is timed or an inner batch, of the kind of which RocketMQ's refusal is where
                the feature is switched off; or a number cannot be read.
        """
        if EXAMINED.isdisjoint(found):
            return 0
        if properties.INNER_NUM in found:
            raise Refused(
                Refusal.ILLEGAL_MESSAGE,
                "a single message is not an inner batch, though it says so (INNER_NUM)",
            )
        text = found.get(properties.DELAY)
        if text is not None:
            level = _number(text, Refusal.OTHER, properties.DELAY)
            if level > 0:
                return level
        for name in TIMER_NAMES:
            value = found.get(name)
            if value is None:
                continue
            due = _number(value, Refusal.ILLEGAL_MESSAGE, name)
            if name == properties.TIMER_DELIVER_MS:
                due -= self._clock.now_ms()
            if due > 0:
                raise Refused(Refusal.OTHER, "timed messages are not supported")
        return 0

    def divert_sent(self, message: InboundMessage) -> None:
        """Have a message wait that asks for it; a `Diverter`.

        One whose transaction has not ended waits when it has.
        """
        if message.topic == HALF_TOPIC:
            return
        level = self.asked_for(message.properties)
        if level > 0:
            message.topic, message.queue_id = self.divert(
                level, message.topic, message.queue_id, message.properties
            )

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


def _number(text: str, why: Refusal, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise Refused(why, f"property {name} is not a number: {text[:64]!r}") from error
