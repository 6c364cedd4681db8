"""Requests that give messages back: 36.

While the disk cannot keep up these are refused as sends are; in RocketMQ both share one pool and
its checks. A client keeps what was refused and sends it back later.
"""

from collections.abc import Sequence

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import GroupCommit, RetryService
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import SendMessageBack
from sprocket.rocketmq.remoting import Answer, Handler, busy, encoded
from sprocket.rocketmq.store.log import Appended
from sprocket.runtime.driver import Peer


class RetryHandlers:
    """Messages that consumers could not handle."""

    def __init__(
        self, send_back: RetryService, durable: GroupCommit, stats: Stats, topics: Topics
    ) -> None:
        self._send_back = send_back
        self._durable = durable
        self._stats = stats
        self._topics = topics

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, peer: Peer, request: Command) -> Answer | None:
        """Store a message for another try, or among the dead letters."""
        if self._durable.pressure.is_full:
            raise busy()
        header = request.header(SendMessageBack)
        record = self._send_back.record(header, request.version)
        if record is None:
            return Answer()
        # A name that a client made up would stay in the table, and so would the next one.
        origin = self._topics.get(header.origin_topic or "")
        self._stats.sent_back(record.topic if origin is None else origin.name, header.group)
        self._durable.append(record, self._stored, peer, request)
        return None

    def _stored(
        self, _peer: Peer, request: Command, stored: Appended | None, error: StoreError | None
    ) -> Sequence[Buffer]:
        """Make the answer: a success only when it is certain that the message comes again."""
        if stored is not None and error is None:
            return encoded(request, Answer())
        return encoded(request, Answer(ResponseCode.SYSTEM_ERROR, None, str(error)))
