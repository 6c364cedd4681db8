"""Requests about how far groups are: 43, 45, 208, 300, 303, 317, 343 and 345."""

from collections.abc import Callable

from sprocket.base.clock import Clock
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets, Progress
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.bodies import (
    DelayOffsets,
    GroupSubscription,
    OffsetTable,
    TopicsOfGroup,
    admin_bodies,
    group_bodies,
    progress_bodies,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import (
    GetBrokerConsumeStats,
    GetConsumeStats,
    GroupAndTopic,
    GroupOnly,
    TimeSpans,
    TopicOnly,
)
from sprocket.rocketmq.remoting import Answer, Handler
from sprocket.rocketmq.server.slicing import Body, SlicedHandler, body
from sprocket.runtime.driver import Peer
from sprocket.runtime.slices import Sliced


class ProgressHandlers:
    """Where groups are, what they follow, and how far behind they are."""

    def __init__(
        self,
        progress: Progress,
        topics: Topics,
        members: ClientManager,
        offsets: ConsumerOffsets,
        delays: Callable[[], DelayOffsets],
        address: str,
        clock: Clock,
    ) -> None:
        self._progress = progress
        self._topics = topics
        self._members = members
        self._offsets = offsets
        self._delays = delays
        self._address = address
        self._clock = clock

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.GET_ALL_DELAY_OFFSET: self.delays,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.groups_of_topic,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of_group,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
        }

    def sliced_table(self) -> dict[int, SlicedHandler]:
        """Return the handler of each code that is answered in slices."""
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.offsets,
            RequestCode.GET_CONSUME_STATS: self.of_group,
            RequestCode.GET_BROKER_CONSUME_STATS: self.of_all,
        }

    def offsets(self, _: Peer, _request: Command) -> Sliced[Answer]:
        """Answer every offset that was committed."""
        table = OffsetTable(version=self._offsets.version, offsets=self._offsets.all())
        return Answer(body=(yield from body(progress_bodies.offset_table_pieces(table))))

    def delays(self, _: Peer, _request: Command) -> Answer:
        """Answer how far the delivery of each delay level is."""
        return Answer(body=(progress_bodies.encode_delay_offsets(self._delays()),))

    def of_group(self, _: Peer, request: Command) -> Sliced[Answer]:
        """Answer how far a group is; an unknown one is nowhere."""
        header = request.header(GetConsumeStats)
        topics = filter(None, header.topic_list.split(";"))
        found = yield from self._progress.of_group(header.consumer_group, header.topic, topics)
        return Answer(body=(yield from body(progress_bodies.consume_stats_pieces(found))))

    def of_all(self, _: Peer, request: Command) -> Sliced[Answer]:
        """Answer how far each group is in each topic."""
        ordered_only = request.header(GetBrokerConsumeStats).is_order
        made = Body()
        made.add(progress_bodies.broker_stats_begin(self._address))
        lag = in_flight = 0
        for number, group in enumerate(self._progress.groups()):
            topics = yield from self._progress.by_topic(group, ordered_only=ordered_only)
            for piece in progress_bodies.broker_stats_group(group, topics, is_first=number == 0):
                made.add(piece)
                yield _nothing
            lag += sum(one.lag for one in topics)
            in_flight += sum(one.in_flight for one in topics)
        made.add(progress_bodies.broker_stats_end(lag, in_flight))
        return Answer(body=made.pieces)

    def time_spans(self, _: Peer, request: Command) -> Answer:
        """Answer from when to when each queue of a topic has messages."""
        header = request.header(TimeSpans)
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        spans = self._progress.time_spans(header.group, topic, self._clock)
        return Answer(body=(progress_bodies.encode_time_spans(spans),))

    def groups_of_topic(self, _: Peer, request: Command) -> Answer:
        """Answer who consumes a topic."""
        groups = self._progress.groups_of(request.header(TopicOnly).topic)
        return Answer(body=(admin_bodies.encode_groups(groups),))

    def topics_of_group(self, _: Peer, request: Command) -> Answer:
        """Answer in which topics a group has committed offsets."""
        found = TopicsOfGroup(
            broker_address=self._address,
            topics=self._offsets.topics_of(request.header(GroupOnly).group),
        )
        return Answer(body=(admin_bodies.encode_topics_of_group(found),))

    def subscription(self, _: Peer, request: Command) -> Answer:
        """Answer what a group wants of a topic, as its members say."""
        header = request.header(GroupAndTopic)
        members = self._members.consumers(header.group)
        subscription = None if members is None else members.subscriptions.get(header.topic)
        found = GroupSubscription(group=header.group, topic=header.topic, subscription=subscription)
        return Answer(body=(group_bodies.encode_group_subscription(found),))


def _nothing() -> None:
    """Let others go on."""
