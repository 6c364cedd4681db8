"""Requests that find messages: 12 by key, 33 by id, 321 by queue offset."""

from collections.abc import Callable
from functools import partial

from sprocket.rocketmq.broker.members import Members
from sprocket.rocketmq.broker.query import Found, Queries
from sprocket.rocketmq.codec import admin_bodies
from sprocket.rocketmq.codec.admin_headers import QueryConsumeQueue
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import QueryMessage, QueryMessageAnswer, ViewMessage
from sprocket.rocketmq.server.cold import ColdReads
from sprocket.rocketmq.server.dispatch import Answer, Handler, answer, failed
from sprocket.runtime.driver import Peer


class QueryHandlers:
    """Answers with stored records, unchanged.

    Args:
        queries: Looks for them.
        members: Say what a group wants.
        cold: Reads what is not in memory, so that the loop does not wait for it.
    """

    def __init__(self, queries: Queries, members: Members, cold: ColdReads) -> None:
        self._queries = queries
        self._members = members
        self._cold = cold

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.QUERY_MESSAGE: self.by_key,
            RequestCode.VIEW_MESSAGE_BY_ID: self.by_offset,
            RequestCode.QUERY_CONSUME_QUEUE: self.units,
        }

    def by_key(self, peer: Peer, request: Command) -> Answer | None:
        """Answer the newest messages with a key."""
        header = request.header(QueryMessage)
        return self._found(
            peer, request, partial(self._queries.by_key, header), _with_state_of_index
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

    def by_offset(self, peer: Peer, request: Command) -> Answer | None:
        """Answer the message at a physical offset."""
        offset = request.header(ViewMessage).offset
        return self._found(peer, request, partial(self._queries.by_offset, offset), _alone)

    def _found(
        self,
        peer: Peer,
        request: Command,
        find: Callable[..., Found],
        make: Callable[[Found], Answer],
    ) -> Answer | None:
        """Answer what is found, now or when the disk has brought it.

        Args:
            peer: Who asks.
            request: And what.
            find: Takes `may_wait`; see `Queries`.
            make: Makes the answer.
        """
        found = find(may_wait=self._cold.may_wait)
        if not found.missing:
            return make(found)

        def then() -> None:
            try:
                what = make(find(may_wait=False))
            except Exception as error:
                what = failed(peer, request, error)
            answer(peer, request, what)

        self._cold.fetch(found.missing, then)
        return None


def _with_state_of_index(found: Found) -> Answer:
    return Answer(
        header=QueryMessageAnswer(
            index_last_update_timestamp=found.index_updated_at_ms,
            index_last_update_phyoffset=found.index_end,
        ),
        body=found.records,
    )


def _alone(found: Found) -> Answer:
    return Answer(body=found.records)
