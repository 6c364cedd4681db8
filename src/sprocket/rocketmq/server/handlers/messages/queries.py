"""Requests that find messages: 12 by key, 33 by id, 321 by queue offset."""

from sprocket.rocketmq.broker.delivery import Queries
from sprocket.rocketmq.broker.groups import ClientManager
from sprocket.rocketmq.codec.bodies import admin_bodies
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import (
    QueryConsumeQueue,
    QueryMessage,
    QueryMessageAnswer,
    ViewMessage,
)
from sprocket.rocketmq.remoting import Answer, Handler
from sprocket.runtime.driver import Peer


class QueryHandlers:
    """Answers with stored records, unchanged.

    Args:
        queries: Looks for them.
        members: Say what a group wants.
    """

    def __init__(self, queries: Queries, members: ClientManager) -> None:
        self._queries = queries
        self._members = members

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_offset,
            RequestCode.QUERY_CONSUME_QUEUE: self.units,
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

    def units(self, _: Peer, request: Command) -> Answer:
        """Answer what a queue has for some messages, and which of them a group wants."""
        header = request.header(QueryConsumeQueue)
        subscription = None
        if header.consumer_group:
            members = self._members.consumers(header.consumer_group)
            subscription = None if members is None else members.subscriptions.get(header.topic)
        found = self._queries.units(header, subscription)
        if found is None:
            remark = f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!"
            return Answer(remark=remark)
        return Answer(remark=NOT_SET, body=(admin_bodies.encode_queue_units(found),))

    def by_offset(self, _: Peer, request: Command) -> Answer:
        """Answer the message at a physical offset."""
        return Answer(body=(self._queries.by_offset(request.header(ViewMessage).offset),))
