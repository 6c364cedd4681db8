"""Requests about topics: 17, 202 and 351."""

from collections.abc import Callable, Mapping

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.topics import Topics, check_name
from sprocket.rocketmq.codec import admin_bodies, tables
from sprocket.rocketmq.codec.admin_bodies import QueueStats, TopicStats
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import CreateTopic, TopicOnly
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.server.dispatch import Answer, Handler, answer
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.driver import Peer

QUEUES_MAX = 65_536
"""Most queues of a topic; each costs a folder and a file once it is used."""

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")

SUPPORTED_ATTRIBUTES = {
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    "message.type": ("NORMAL", "UNSPECIFIED", "FIFO"),
}
"""Attribute values that ask for nothing that is not there."""


class TopicHandlers:
    """Making topics and looking at them."""

    def __init__(
        self,
        store: Store,
        topics: Topics,
        broker_name: str,
        when_told: Callable[[Callable[[], None]], None],
    ) -> None:
        self._store = store
        self._topics = topics
        self._broker_name = broker_name
        self._when_told = when_told

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.GET_TOPIC_CONFIG: self.config,
        }

    def put(self, peer: Peer, request: Command) -> None:
        """Make or change a topic; answer when the NameServers know it, after a second at most."""
        header = request.header(CreateTopic)
        check_name(header.topic)
        if self._topics.is_system(header.topic):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{header.topic}] is conflict with system topic.",
            )
        for what, count in (
            ("readQueueNums", header.read_queue_nums),
            ("writeQueueNums", header.write_queue_nums),
        ):
            if not 0 <= count <= QUEUES_MAX:
                raise RequestRefused(
                    ResponseCode.INVALID_PARAMETER, f"{what} is {count}, 0 to {QUEUES_MAX} may be"
                )
        if header.topic_filter_type not in FILTER_TYPES:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"topicFilterType = [{header.topic_filter_type}] value invalid",
            )
        old = self._topics.get(header.topic)
        self._topics.put(
            TopicConfig(
                name=header.topic,
                read_queues=header.read_queue_nums,
                write_queues=header.write_queue_nums,
                perm=header.perm,
                order=header.order,
                filter_type=header.topic_filter_type,
                sys_flag=header.topic_sys_flag,
                attributes=_attributes(header.attributes, {} if old is None else old.attributes),
            )
        )
        self._when_told(lambda: answer(peer, request, Answer()))

    def stats(self, _: Peer, request: Command) -> Answer:
        """Answer the range of each queue of a topic."""
        topic = self._find(request.header(TopicOnly).topic)
        queues = {}
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            span = self._store.queue_range(topic.name, queue_id)
            last_at_ms = 0
            if span.max > span.min:
                last_at_ms = self._store.stored_at_ms(topic.name, queue_id, span.max - 1)
            queues[MessageQueue(topic.name, self._broker_name, queue_id)] = QueueStats(
                min_offset=span.min,
                max_offset=span.max,
                last_update_at_ms=max(0, last_at_ms),
            )
        return Answer(body=(admin_bodies.encode_topic_stats(TopicStats(queues=queues)),))

    def config(self, _: Peer, request: Command) -> Answer:
        """Answer how a topic is set up."""
        topic = self._find(request.header(TopicOnly).topic)
        return Answer(body=(tables.encode_topic(topic),))

    def _find(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return topic


def _attributes(text: str, old: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's attributes after the changes `+name=value,-name`.

    Raises:
        RequestRefused: SYSTEM_ERROR; the text cannot be read, or asks for something that Sprocket
            has not got (INVALID_PARAMETER for mixed message types, as in RocketMQ).
    """
    attributes = dict(old)
    for change in text.split(","):
        if not change.strip():
            continue
        name, equals, value = change.strip()[1:].partition("=")
        if change.strip()[0] == "-" and not equals:
            attributes.pop(name, None)
            continue
        if change.strip()[0] != "+" or not equals:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"attribute {change!r}: expected +name=value or -name"
            )
        if (name, value) == ("message.type", "MIXED"):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported."
            )
        if value not in SUPPORTED_ATTRIBUTES.get(name, ()):
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"attribute {name}={value} is not supported"
            )
        attributes[name] = value
    return attributes
