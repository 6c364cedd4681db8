"""Requests that find messages: 12 by key, 33 by id, 321 by queue offset."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sprocket.rocketmq.broker.delivery import PullService, Queries
from sprocket.rocketmq.broker.filters import FilterRules, FilterTurns
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
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import Refused
from sprocket.rocketmq.model.filters import MessageFilter, TagFilter
from sprocket.rocketmq.model.rights import Action
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class QueryHandlers:
    """Answers with stored records, unchanged."""

    _queries: Queries
    _members: ClientManager
    _rules: FilterRules
    _puller: PullService
    _turns: FilterTurns
    _reads: ColdReads

    def rows(self) -> list[Row]:
        """Return the table."""
        reads = self._reads
        return [
            row(RequestCode.QUERY_MESSAGE, QueryMessage, self.by_key, reads),
            row(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage, self.by_offset, reads),
            row(RequestCode.QUERY_CONSUME_QUEUE, QueryConsumeQueue, self.units),
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

    def units(self, request: Request, header: QueryConsumeQueue) -> None:
        """Answer what a queue has for some messages, and which of them a group wants.

        Where a condition chooses, they are looked at, unlike in RocketMQ, in the turns that filters
        have.
        """
        self._turns.run(partial(self._look, request, header), request.fail)

    def _look(self, request: Request, header: QueryConsumeQueue) -> None:
        """Answer, now or when the disk has brought what is asked for. Raises TurnSpent."""
        topic, group = header.topic, header.consumer_group
        subscription, said = None, None
        if group:
            subscription = self._members.consumers(group).subscriptions.get(topic)
            said = self._rules.text(topic, group)
            if subscription is None:
                said = f"{group}@{topic} is not online!"
        wanted: MessageFilter | None = TagFilter()
        if subscription is not None:
            with suppress(Refused):  # such a group gets nothing
                wanted = self._puller.filter_of(subscription)
        if wanted is not None and wanted.cost:
            self._turns.check()

        def work() -> None:
            found = self._queries.units(topic, header.queue_id, header.index, header.count, wanted)
            if found is None:
                remark = f"Index {header.index} of {header.queue_id}@{topic} is not exist!"
                request.answer(Answer(remark=remark))
                return
            if found.filter_cost:
                self._turns.charge(found.filter_cost)
            answer = QueueUnits(
                min_offset=found.min_offset,
                max_offset=found.max_offset,
                units=found.units,
                subscription=subscription,
                filter_data=said,
            )
            request.answer(Answer(remark=NOT_SET, body=(bodies.encode(answer),)))

        self._reads.run(work, request.fail)

    def by_offset(self, request: Request, header: ViewMessage) -> Answer:
        """Answer the message at a physical offset."""
        found = self._queries.by_offset(header.offset)
        if request.command.signer is not None:
            request.check_topic(record.decode(found).topic, Action.GET)
        return Answer(body=(found,))
