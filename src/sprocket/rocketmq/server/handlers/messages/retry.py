"""Requests that give messages back: 36.

While the disk cannot keep up these are refused as sends are; in RocketMQ both share one pool and
its checks. A client keeps what was refused and sends it back later.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import DurableAppender, Ready, RetryService
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import SendMessageBack
from sprocket.rocketmq.remoting import Answer, Request, Row, busy, encoded, row
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class RetryHandlers:
    """Messages that consumers could not handle."""

    _send_back: RetryService
    _durable: DurableAppender
    _stats: Stats
    _topics: Topics

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [row(RequestCode.CONSUMER_SEND_MSG_BACK, SendMessageBack, self.send_back, reads)]

    def send_back(self, request: Request, header: SendMessageBack) -> Answer | None:
        """Store a message for another try, or among the dead letters."""
        if self._durable.pressure.is_full:
            raise busy()
        record = self._send_back.record(header, request.command.version)
        if record is None:
            return Answer()
        # A name that a client made up would stay in the table, and so would the next one.
        origin = self._topics.get(header.origin_topic or "")
        self._stats.sent_back(record.topic if origin is None else origin.name, header.group)
        self._durable.append([record], self._stored, [request])
        return None

    def _stored(
        self,
        asked: Sequence[Request],
        stored: AppendedBatch | None,
        error: StoreError | None,
        ready: Ready,
    ) -> None:
        """Make the answer: a success only when it is certain that the message comes again."""
        (request,) = asked
        answer = Answer()
        if stored is None or error is not None:
            answer = Answer(ResponseCode.SYSTEM_ERROR, None, str(error))
        ready[request.peer] += encoded(request.command, answer)
