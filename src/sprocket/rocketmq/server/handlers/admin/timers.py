"""Requests about messages that wait for their time: 60 and 61, which slaves ask."""

from dataclasses import dataclass

from sprocket.rocketmq.broker.timers import TimedMessages
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.config import declared
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.store.timer import timer_checkpoint


@dataclass(frozen=True, slots=True)
class TimerHandlers:
    """How far the delivery of timed messages is, and how many wait."""

    _timed: TimedMessages

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.GET_TIMER_CHECK_POINT, NoFields, self.checkpoint),
            row(RequestCode.GET_TIMER_METRICS, NoFields, self.counts),
        ]

    def checkpoint(self, _: Request, _header: NoFields) -> Answer:
        """Answer the bytes of the checkpoint that RocketMQ knows."""
        found = timer_checkpoint.encode(self._timed.checkpoint)
        return Answer(body=(found[: timer_checkpoint.SHARED_BYTES],))

    def counts(self, _: Request, _header: NoFields) -> Answer:
        """Answer how many messages wait, by topic."""
        return Answer(body=(declared.encode(self._timed.counts()),))
