"""Messages that wait before they are delivered: for a delay level, or for a time."""

from collections.abc import Mapping

from sprocket.rocketmq.broker.messages.delay_levels import DelayLevels
from sprocket.rocketmq.broker.messages.diverters import InboundMessage
from sprocket.rocketmq.broker.messages.timer_requests import TIMER_NAMES, TimerRequests
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import HALF_TOPIC

EXAMINED = frozenset({properties.DELAY, properties.INNER_NUM, *TIMER_NAMES})
"""What may be refused, or wait first."""


class Waits:
    """Has messages wait that ask for it; a level wins over a time."""

    def __init__(self, levels: DelayLevels, timers: TimerRequests) -> None:
        self._levels = levels
        self._timers = timers

    def asked_for(self, found: Mapping[str, str]) -> bool:
        """Tell whether a message is to wait.

        Raises:
            Refused: A number cannot be read, or it is an inner batch.
        """
        if EXAMINED.isdisjoint(found):
            return False
        return self._level(found) > 0 or (self._timers.wait_ms(found) or 0) > 0

    def divert(self, topic: str, queue_id: int, found: dict[str, str]) -> tuple[str, int]:
        """Return topic and queue of a message: where it waits, if it asks for that.

        Args:
            topic: Where the message wants to go.
            queue_id: Its queue there.
            found: The message's properties, which are changed.

        Raises:
            Refused: A number cannot be read; or it is an inner batch, of the kind of which
                RocketMQ's refusal is where the feature is switched off; or it cannot wait.
        """
        if EXAMINED.isdisjoint(found):
            return topic, queue_id
        level = self._level(found)
        if level > 0:
            return self._levels.divert(level, topic, queue_id, found)
        return self._timers.divert(topic, queue_id, found)

    def divert_sent(self, message: InboundMessage) -> None:
        """Have a message wait that asks for it; a `Diverter`.

        One whose transaction has not ended waits when it has.
        """
        if message.topic != HALF_TOPIC:
            message.topic, message.queue_id = self.divert(
                message.topic, message.queue_id, message.properties
            )

    def _level(self, found: Mapping[str, str]) -> int:
        if properties.INNER_NUM in found:
            raise Refused(
                Refusal.ILLEGAL_MESSAGE,
                "a single message is not an inner batch, though it says so (INNER_NUM)",
            )
        text = found.get(properties.DELAY, "0")
        try:
            return int(text)
        except ValueError as error:
            why = f"property {properties.DELAY} is not a number: {text[:64]!r}"
            raise Refused(Refusal.OTHER, why) from error
