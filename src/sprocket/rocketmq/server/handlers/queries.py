"""Requests that find messages: 12 by key, 33 by id."""

from sprocket.rocketmq.broker.query import Queries
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import QueryMessage, QueryMessageAnswer, ViewMessage
from sprocket.rocketmq.server.dispatch import Answer, Handler
from sprocket.runtime.driver import Peer


class QueryHandlers:
    """Answers with stored records, unchanged."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_offset,
        }

    def by_key(self, _: Peer, request: Command) -> Answer:
        """Answer the newest messages with a key."""
        found = self._queries.by_key(request.header(QueryMessage))
        return Answer(
            header=QueryMessageAnswer(
                index_last_update_timestamp=found.index_updated_at_ms,
                index_last_update_phyoffset=found.index_end,
            ),
            body=found.records,
        )

    def by_offset(self, _: Peer, request: Command) -> Answer:
        """Answer the message at a physical offset."""
        record = self._queries.by_offset(request.header(ViewMessage).offset)
        return Answer(body=(record,))
