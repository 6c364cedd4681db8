"""Requests that find messages: 12 by key, 33 by id, 321 by queue offset."""

from dataclasses import dataclass

from sprocket.rocketmq.broker.delivery import Queries
from sprocket.rocketmq.broker.filters import FilterRules
from sprocket.rocketmq.broker.groups import ClientManager
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import QueueUnits
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode
from sprocket.rocketmq.codec.headers import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageAnswer,
    ViewMessage,
)
from sprocket.rocketmq.model.filters import TagFilter
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class QueryHandlers:
    """Answers with stored records, unchanged."""

    _queries: Queries
    _members: ClientManager
    _rules: FilterRules

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
        topic, queue_id, group = header.topic, header.queue_id, header.consumer_group
        subscription, said = None, None
        if group:
            subscription = self._members.consumers(group).subscriptions.get(topic)
            said = self._rules.text(topic, group)
            if subscription is None:
                said = f"{group}@{topic} is not online!"
        wanted = TagFilter() if subscription is None else subscription.filter
        found = self._queries.units(topic, queue_id, header.index, header.count, wanted)
        if found is None:
            return Answer(remark=f"Index {header.index} of {queue_id}@{topic} is not exist!")
        answer = QueueUnits(
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            units=found.units,
            subscription=subscription,
            filter_data=said,
        )
        return Answer(remark=NOT_SET, body=(bodies.encode(answer),))

    def by_offset(self, _: Request, header: ViewMessage) -> Answer:
        """Answer the message at a physical offset."""
        return Answer(body=(self._queries.by_offset(header.offset),))
