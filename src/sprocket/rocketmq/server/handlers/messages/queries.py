"""Requests that find messages: 12 by key, 33 by id, 321 by queue offset."""

from dataclasses import dataclass

from sprocket.rocketmq.broker.delivery import Queries
from sprocket.rocketmq.broker.groups import ClientManager
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode
from sprocket.rocketmq.codec.headers import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageAnswer,
    ViewMessage,
)
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class QueryHandlers:
    """Answers with stored records, unchanged."""

    _queries: Queries
    _members: ClientManager

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.QUERY_MESSAGE, QueryMessage, self.by_key, reads),
            row(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage, self.by_offset, reads),
            row(RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueue, self.units, reads),
        ]

    def by_key(self, _: Request, header: QueryMessage) -> Answer:
        """Answer the newest messages with a key."""
        found = self._queries.by_key(header)
        return Answer(
            header=QueryMessageAnswer(
                index_last_update_timestamp=found.index_updated_at_ms,
                index_last_update_phyoffset=found.index_end,
            ),
            body=found.records,
        )

    def units(self, _: Request, header: QueryConsumeQueue) -> Answer:
        """Answer what a queue has for some messages, and which of them a group wants."""
        subscription = None
        if header.consumer_group:
            members = self._members.consumers(header.consumer_group)
            subscription = None if members is None else members.subscriptions.get(header.topic)
        found = self._queries.units(header, subscription)
        if found is None:
            remark = f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!"
            return Answer(remark=remark)
        return Answer(remark=NOT_SET, body=(bodies.encode(found),))

    def by_offset(self, _: Request, header: ViewMessage) -> Answer:
        """Answer the message at a physical offset."""
        return Answer(body=(self._queries.by_offset(header.offset),))
