"""Requests that take messages back, which wait for their time: 370.

Source: RocketMQ `RecallMessageProcessor`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import DurableAppender, Recalls, Release
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import RecallMessage, RecallMessageAnswer
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, busy, encoded, row, sending
from sprocket.rocketmq.store.log import AppendedBatch


@dataclass(frozen=True, slots=True)
class RecallHandlers:
    """What producers take back."""

    _recalls: Recalls
    _durable: DurableAppender

    def rows(self) -> list[Row]:
        """Return the table."""
        return [row(RequestCode.RECALL_MESSAGE, RecallMessage, self.recall)]

    def recall(self, request: Request, header: RecallMessage) -> None:
        """Store what takes a message back."""
        if self._durable.pressure.is_full:
            raise busy()
        record = self._recalls.record(header, request.peer.address)
        self._durable.append([record], _stored, [(request, record.unique_key)])


def _stored(
    asked: Sequence[tuple[Request, str]], stored: AppendedBatch | None, error: StoreError | None
) -> Release | None:
    ((request, message_id),) = asked
    answer = Answer(0, RecallMessageAnswer(msg_id=message_id))
    if stored is None or error is not None:
        remark = f"recall failed, execute error: {error}"
        answer = Answer(ResponseCode.SYSTEM_ERROR, RecallMessageAnswer(), remark)
    return sending(request.peer, encoded(request.command, answer))
