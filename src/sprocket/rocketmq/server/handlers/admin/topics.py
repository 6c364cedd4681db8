"""Requests about topics: 17, 18, 21, 202, 215, 305 and 351."""

from dataclasses import dataclass
from functools import partial

from msgspec import structs

from sprocket.base.disk import gather
from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.admin import Removal
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics, attributes, check_name
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import QueueStats, TopicConfigs, TopicNames, TopicStats
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode
from sprocket.rocketmq.codec.config import TopicTable
from sprocket.rocketmq.codec.headers import CreateTopic, DeleteTopic, NoFields, TopicOnly
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import MULTI_TAG, SINGLE_TAG, TopicConfig
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, body, row, sliced_row
from sprocket.rocketmq.server.nameservers import Registration
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.slices import Sliced, Slices
from sprocket.runtime.snapshots import Snapshots

QUEUES_MAX = 65_536
"""Most queues of a topic; each costs a folder and a file once it is used."""

FILTER_TYPES = (SINGLE_TAG, MULTI_TAG)


@dataclass(frozen=True, slots=True)
class TopicHandlers:
    """Making topics, deleting them, and looking at them."""

    _store: Store
    _topics: Topics
    _removal: Removal
    _stats: Stats
    _broker_name: str
    _registration: Registration
    _snapshots: Snapshots

    def rows(self, reads: ColdReads, slices: Slices) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopic, self.put),
            row(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, NoFields, self.put_all),
            row(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopic, self.delete),
            row(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, NoFields, self.system),
            row(RequestCode.GET_TOPIC_STATS_INFO, TopicOnly, self.stats, reads),
            row(RequestCode.GET_TOPIC_CONFIG, TopicOnly, self.config),
            sliced_row(RequestCode.GET_ALL_TOPIC_CONFIG, NoFields, self.all, slices),
        ]

    def put(self, request: Request, header: CreateTopic) -> None:
        """Make or change a topic.

        It is answered when it is on the disk and the NameServers know it, those that answer within
        a second.
        """
        topic = TopicConfig(
            name=header.topic,
            read_queues=header.read_queue_nums,
            write_queues=header.write_queue_nums,
            perm=header.perm,
            order=header.order,
            filter_type=header.topic_filter_type,
            sys_flag=header.topic_sys_flag,
            attributes=attributes.parse(header.attributes),
        )
        self._put([self._checked(topic)])
        self._answer_when_kept(request)

    def put_all(self, request: Request, _header: NoFields) -> None:
        """Make or change topics, all of them or none; answer as `put`."""
        wanted = bodies.decode_request(TopicConfigs, request.body).topics
        self._put([self._checked(topic) for topic in wanted])
        self._answer_when_kept(request)

    def delete(self, request: Request, header: DeleteTopic) -> None:
        """Delete a topic with everything in it; one that is not there is a success."""
        name = header.topic
        if not name.strip():
            raise Refused(Refusal.INVALID_ARGUMENT, "The specified topic is blank.")
        self._refuse_system(name)
        self._removal.delete_topic(name, request.done)

    def all(self, _: Request, _header: NoFields) -> Sliced[Answer]:
        """Answer the whole table."""
        table = TopicTable(version=self._topics.table.version, topics=list(self._topics.all()))
        made = yield from body(bodies.encode_pieces(table))
        return Answer(header=NoFields(), body=made)

    def system(self, _: Request, _header: NoFields) -> Answer:
        """Answer the names of the system's topics."""
        return Answer(body=(bodies.encode(TopicNames(topics=self._topics.system())),))

    def stats(self, _: Request, header: TopicOnly) -> Answer:
        """Answer the range of each queue of a topic."""
        topic = self._topics.existing(header.topic)
        queues = gather(
            partial(self._queue_stats, topic.name, queue_id)
            for queue_id in range(max(topic.read_queues, topic.write_queues))
        )
        found = TopicStats(queues=dict(queues), put_tps=self._stats.topic_put_tps(topic.name))
        return Answer(body=(bodies.encode(found),))

    def _queue_stats(self, topic: str, queue_id: int) -> tuple[MessageQueue, QueueStats]:
        span = self._store.queue_range(topic, queue_id)
        last_at_ms = 0
        if span.max > span.min:
            last_at_ms = self._store.stored_at_ms(topic, queue_id, span.max - 1)
        return MessageQueue(topic, self._broker_name, queue_id), QueueStats(
            min_offset=span.min, max_offset=span.max, last_update_at_ms=max(0, last_at_ms)
        )

    def config(self, _: Request, header: TopicOnly) -> Answer:
        """Answer how a topic is set up."""
        topic = self._topics.existing(header.topic, "No topic in this broker. topic: {}")
        return Answer(body=(bodies.encode(topic),))

    def _put(self, topics: list[TopicConfig]) -> None:
        """Make or change topics, and their kinds of queues with them, which their first fixes."""
        self._topics.put_all(topics)
        for topic in topics:
            if topic.takes_batches:
                self._store.take_batches(topic.name)
            if topic.is_compacted:
                self._store.take_compaction(topic.name)

    def _answer_when_kept(self, request: Request) -> None:
        def kept(error: StoreError | None) -> None:
            if error is not None:
                request.fail(error)
                return
            self._registration.when_registered(lambda: request.answer(Answer(remark=NOT_SET)))

        self._snapshots.when_durable(kept)

    def _checked(self, topic: TopicConfig) -> TopicConfig:
        """Return a topic with its attributes as they shall be; those given are changes."""
        check_name(topic.name)
        self._refuse_system(topic.name)
        for what, count in (
            ("readQueueNums", topic.read_queues),
            ("writeQueueNums", topic.write_queues),
        ):
            if not 0 <= count <= QUEUES_MAX:
                raise Refused(
                    Refusal.INVALID_ARGUMENT, f"{what} is {count}, 0 to {QUEUES_MAX} may be"
                )
        if topic.filter_type not in FILTER_TYPES:
            raise Refused(Refusal.OTHER, f"topicFilterType = [{topic.filter_type}] value invalid")
        old = self._topics.get(topic.name)
        altered = attributes.altered(None if old is None else old.attributes, topic.attributes)
        found = structs.replace(topic, attributes=altered)
        if found.takes_batches and old is None:
            self._store.check_batches(topic.name)
        return found

    def _refuse_system(self, name: str) -> None:
        if self._topics.is_system(name):
            raise Refused(
                Refusal.INVALID_ARGUMENT, f"The topic[{name}] is conflict with system topic."
            )
