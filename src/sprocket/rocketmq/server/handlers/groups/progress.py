"""Requests about how far groups are: 43, 45, 208, 300, 303, 317, 343 and 345."""

from dataclasses import dataclass

from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Progress
from sprocket.rocketmq.broker.pop import InFlight, Orders
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ConsumeTimeSpans,
    DelayOffsets,
    GroupNames,
    GroupSubscription,
    OffsetTable,
    TopicNames,
)
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import (
    GetAllOffsets,
    GetBrokerConsumeStats,
    GetConsumeStats,
    GroupAndTopic,
    GroupOnly,
    NoFields,
    TimeSpans,
    TopicOnly,
)
from sprocket.rocketmq.server.dispatch import Answer, Body, Request, Row, body, row, sliced_row
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.slices import Sliced, Slices


@dataclass(frozen=True, slots=True)
class ProgressHandlers:
    """Where groups are, what they follow, and how far behind they are."""

    _progress: Progress
    _topics: Topics
    _members: ClientManager
    _offsets: ConsumerOffsets
    _delays: DelayProgress
    _in_flight: InFlight
    _orders: Orders
    _address: str

    def rows(self, reads: ColdReads, slices: Slices) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.GET_ALL_DELAY_OFFSET, NoFields, self.delays),
            row(RequestCode.QUERY_CONSUME_TIME_SPAN, TimeSpans, self.time_spans, reads),
            row(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicOnly, self.groups_of_topic),
            row(RequestCode.QUERY_TOPICS_BY_CONSUMER, GroupOnly, self.topics_of_group),
            row(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupAndTopic, self.subscription),
            sliced_row(RequestCode.GET_ALL_CONSUMER_OFFSET, GetAllOffsets, self.offsets, slices),
            sliced_row(RequestCode.GET_CONSUME_STATS, GetConsumeStats, self.of_group, slices),
            sliced_row(
                RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStats, self.of_all, slices
            ),
        ]

    def offsets(self, _: Request, header: GetAllOffsets) -> Sliced[Answer]:
        """Answer every offset that was committed, and what is in flight if that is asked for."""
        table = OffsetTable(version=self._offsets.table.version, offsets=self._offsets.all())
        pops = self._in_flight.rows() if header.with_pops else None
        ordered = self._orders.rows() if header.with_pops else None
        return Answer(body=(yield from body(bodies.offset_table_pieces(table, pops, ordered))))

    def delays(self, _: Request, _header: NoFields) -> Answer:
        """Answer how far the delivery of each delay level is."""
        table = DelayOffsets(version=self._delays.table.version, levels=self._delays.all())
        return Answer(body=(bodies.encode(table),))

    def of_group(self, _: Request, header: GetConsumeStats) -> Sliced[Answer]:
        """Answer how far a group is; an unknown one is nowhere."""
        topics = filter(None, header.topic_list.split(";"))
        found = yield from self._progress.of_group(header.consumer_group, header.topic, topics)
        return Answer(body=(yield from body(bodies.encode_pieces(found))))

    def of_all(self, _: Request, header: GetBrokerConsumeStats) -> Sliced[Answer]:
        """Answer how far each group is in each topic."""
        ordered_only = header.is_order
        made = Body()
        made.add(bodies.broker_stats_begin(self._address))
        lag = in_flight = 0
        for number, group in enumerate(self._progress.groups()):
            topics = yield from self._progress.by_topic(group, ordered_only=ordered_only)
            for piece in bodies.broker_stats_group(group, topics, is_first=number == 0):
                made.add(piece)
                yield _nothing
            lag += sum(one.lag for one in topics)
            in_flight += sum(one.in_flight for one in topics)
        made.add(bodies.broker_stats_end(lag, in_flight))
        return Answer(body=made.pieces)

    def time_spans(self, _: Request, header: TimeSpans) -> Answer:
        """Answer from when to when each queue of a topic has messages."""
        topic = self._topics.existing(header.topic)
        spans = self._progress.time_spans(header.group, topic)
        return Answer(body=(bodies.encode(ConsumeTimeSpans(spans)),))

    def groups_of_topic(self, _: Request, header: TopicOnly) -> Answer:
        """Answer who consumes a topic."""
        groups = self._progress.groups_of(header.topic)
        return Answer(body=(bodies.encode(GroupNames(groups)),))

    def topics_of_group(self, _: Request, header: GroupOnly) -> Answer:
        """Answer in which topics a group has committed offsets."""
        found = TopicNames(
            broker_address=self._address, topics=self._offsets.topics_of(header.group)
        )
        return Answer(body=(bodies.encode(found),))

    def subscription(self, _: Request, header: GroupAndTopic) -> Answer:
        """Answer what a group wants of a topic, as its members say."""
        subscription = self._members.consumers(header.group).subscriptions.get(header.topic)
        found = GroupSubscription(group=header.group, topic=header.topic, subscription=subscription)
        return Answer(body=(bodies.encode(found),))


def _nothing() -> None:
    """Let others go on."""
