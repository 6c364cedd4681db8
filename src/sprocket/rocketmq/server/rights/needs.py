"""What each request needs: one of some actions, on each topic and group that it names.

A request names them in its header, as its handler reads it, or in its body. A retry topic stands
for its group; whoever publishes to it needs to consume in the group. What a request may leave out
and leaves out is not checked, unless it then is about everything: that needs the cluster. So does a
request that is not in the table.

RocketMQ 5.3.3 checks nothing in the requests that `OPEN_IN_ROCKETMQ` names, and not which retry
topic is sent to or read; docs/guides/rights.md has the table.

Source: `DefaultAuthorizationContextBuilder`, and the annotations of its request headers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import AssignmentQuery, BatchAck, ClientCheck, TopicConfigs
from sprocket.rocketmq.codec.codes import RequestCode as Code
from sprocket.rocketmq.codec.config import RequestMode
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.model.rights import Action, Requirement, ResourceType, need

ALL, PUB, SUB = Action.ALL, Action.PUB, Action.SUB
CREATE, UPDATE, DELETE, GET = Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET

Actions = tuple[Action, ...]

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


@dataclass(frozen=True, slots=True)
class Named:
    """A field of the header that names a topic or group.

    Attributes:
        kind: Which of them.
        field: The field, as `codec.headers` calls it.
        actions: Any one of which is needed.
        is_optional: Whether nothing is needed if it is absent; else the cluster is.
        splitter: What is between several names; empty for one.
    """

    kind: ResourceType
    field: str
    actions: Actions
    is_optional: bool = False
    splitter: str = ""

    def names(self, header: Header) -> Sequence[str]:
        """Return the names that a header has."""
        value: str | None = getattr(header, self.field)
        if not value:
            return ()
        return value.split(self.splitter) if self.splitter else (value,)


@dataclass(frozen=True, slots=True)
class InBody:
    """Names in the body of a request.

    Attributes:
        read: Gives what is needed. Raises WireError, as the handler does.
        text: What that is, for people.
    """

    read: Callable[[bytes], Iterable[Requirement]]
    text: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What the requests of a code need; without names, the cluster.

    Attributes:
        named: What the header names.
        in_body: What the body names.
        whole: What is needed of the cluster if a name is absent that is not optional, or there is
            none.
    """

    named: tuple[Named, ...] = ()
    in_body: InBody | None = None
    whole: Actions = (UPDATE,)

    def of(self, header: Header, body: bytes, cluster: str) -> Iterator[Requirement]:
        """Yield what one request needs.

        Args:
            header: As its handler reads it.
            body: Its body.
            cluster: The broker's.

        Raises:
            WireError: The body cannot be read.
        """
        is_whole = not self.named and self.in_body is None
        for one in self.named:
            names = one.names(header)
            for name in names:
                yield need(one.kind, name, one.actions)
            is_whole = is_whole or not (names or one.is_optional)
        if self.in_body is not None:
            yield from self.in_body.read(body)
        if is_whole:
            yield need(CLUSTER, cluster, self.whole)


def _topic(field: str, *actions: Action, optional: bool = False, splitter: str = "") -> Named:
    return Named(TOPIC, field, actions, optional, splitter)


def _group(field: str, *actions: Action, optional: bool = False, splitter: str = "") -> Named:
    return Named(GROUP, field, actions, optional, splitter)


def _of(*named: Named, whole: Action = UPDATE) -> Needs:
    return Needs(named, None, (whole,))


def _body(read: Callable[[bytes], Iterable[Requirement]], text: str) -> Needs:
    return Needs((), InBody(read, text))


# Bodies.


def _heartbeat(body: bytes) -> Iterator[Requirement]:
    for consumer in bodies.decode_heartbeat(body).consumers:
        yield need(GROUP, consumer.group, (SUB,))
        for one in consumer.subscriptions:
            yield need(TOPIC, one.topic, (SUB,))


def _locks(body: bytes) -> Iterator[Requirement]:
    wanted = bodies.decode_lock(body)
    yield need(GROUP, wanted.group, (SUB,))
    for topic in {queue.topic for queue in wanted.queues}:
        yield need(TOPIC, topic, (SUB,))


def _acks(body: bytes) -> Iterator[Requirement]:
    found = bodies.decode_request(BatchAck, body)
    for group, topic in {(one.group, one.topic) for one in found.acks}:
        yield need(GROUP, group, (SUB,))
        yield need(TOPIC, topic, (SUB,))


def _client_check(body: bytes) -> Iterator[Requirement]:
    if body:
        found = bodies.decode_request(ClientCheck, body)
        yield need(GROUP, found.group, (SUB,))
        yield need(TOPIC, found.subscription.topic, (SUB,))


def _assignment(body: bytes) -> Iterator[Requirement]:
    found = bodies.decode_request(AssignmentQuery, body)
    yield need(GROUP, found.group, (SUB,))
    yield need(TOPIC, found.topic, (SUB,))


def _request_mode(body: bytes) -> Iterator[Requirement]:
    found = bodies.decode_request(RequestMode, body)
    yield need(GROUP, found.group, (UPDATE,))
    yield need(TOPIC, found.topic, (UPDATE,))


def _topics(body: bytes) -> Iterator[Requirement]:
    for topic in bodies.decode_request(TopicConfigs, body).topics:
        yield need(TOPIC, topic.name, (CREATE,))


def _put_group(body: bytes) -> Iterator[Requirement]:
    yield need(GROUP, bodies.decode_group(body).name, (CREATE,))


def _put_groups(body: bytes) -> Iterator[Requirement]:
    for group in bodies.decode_groups(body):
        yield need(GROUP, group.name, (CREATE,))


# The table.

_SEND = _of(_topic("topic", PUB))
_PULL = _of(_topic("topic", SUB), _group("consumer_group", SUB))
_GET = _of(whole=GET)
_UPDATE = _of()
_LOCKS = _body(_locks, "`Sub` on the group and on each topic")

NEEDS: Final[Mapping[Code, Needs]] = {
    # Producers.
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SEND,
    Code.SEND_BATCH_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE_V2: _SEND,
    Code.RECALL_MESSAGE: _SEND,
    Code.END_TRANSACTION: _of(_topic("topic", PUB, optional=True)),
    # Consumers.
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.POP_MESSAGE: _PULL,
    Code.PEEK_MESSAGE: _PULL,
    Code.NOTIFICATION: _PULL,
    Code.POLLING_INFO: _PULL,
    Code.ACK_MESSAGE: _PULL,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _PULL,
    Code.BATCH_ACK_MESSAGE: _body(_acks, "of each: `Sub` on its group and its topic"),
    Code.CONSUMER_SEND_MSG_BACK: _of(_group("group", SUB)),
    Code.HEART_BEAT: _body(_heartbeat, "of each consumer: `Sub` on its group and its topics"),
    Code.UNREGISTER_CLIENT: _of(_group("consumer_group", SUB, optional=True)),
    Code.GET_CONSUMER_LIST_BY_GROUP: _of(_group("consumer_group", SUB, GET)),
    Code.CHECK_CLIENT_CONFIG: _body(_client_check, "`Sub` on the group and on the topic"),
    Code.LOCK_BATCH_MQ: _LOCKS,
    Code.UNLOCK_BATCH_MQ: _LOCKS,
    Code.QUERY_CONSUMER_OFFSET: _of(
        _topic("topic", SUB, GET), _group("consumer_group", SUB, GET, optional=True)
    ),
    Code.UPDATE_CONSUMER_OFFSET: _of(
        _topic("topic", SUB, UPDATE), _group("consumer_group", SUB, UPDATE, optional=True)
    ),
    Code.QUERY_ASSIGNMENT: _body(_assignment, "`Sub` on the group and on the topic"),
    # Whoever looks for messages and places.
    Code.QUERY_MESSAGE: _of(_topic("topic", SUB, GET), whole=GET),
    Code.VIEW_MESSAGE_BY_ID: _of(_topic("topic", GET), whole=GET),
    Code.QUERY_CONSUME_QUEUE: _of(
        _topic("topic", GET), _group("consumer_group", GET, optional=True)
    ),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _of(_topic("topic", GET)),
    Code.GET_MAX_OFFSET: _of(_topic("topic", GET)),
    Code.GET_MIN_OFFSET: _of(_topic("topic", GET)),
    Code.GET_EARLIEST_MSG_STORETIME: _of(_topic("topic", GET)),
    # Administrators of topics and groups.
    Code.UPDATE_AND_CREATE_TOPIC: _of(_topic("topic", CREATE)),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _body(_topics, "`Create` on each topic"),
    Code.DELETE_TOPIC_IN_BROKER: _of(_topic("topic", DELETE)),
    Code.GET_TOPIC_STATS_INFO: _of(_topic("topic", GET)),
    Code.GET_TOPIC_CONFIG: _of(_topic("topic", GET)),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _of(_topic("topic", GET)),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _body(_put_group, "`Create` on the group"),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _body(_put_groups, "`Create` on each group"),
    Code.DELETE_SUBSCRIPTIONGROUP: _of(_group("group_name", DELETE)),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _of(_group("group", GET)),
    Code.GET_CONSUMER_CONNECTION_LIST: _of(_group("consumer_group", GET)),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _of(
        _group("group", UPDATE), _topic("topic", UPDATE, optional=True)
    ),
    Code.SET_MESSAGE_REQUEST_MODE: _body(_request_mode, "`Update` on the group and on the topic"),
    # Administrators of what groups have read.
    Code.QUERY_CONSUME_TIME_SPAN: _of(_topic("topic", GET), _group("group", GET, optional=True)),
    Code.QUERY_TOPICS_BY_CONSUMER: _of(_group("group", GET)),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _of(_group("group", GET), _topic("topic", GET)),
    Code.GET_CONSUME_STATS: _of(
        _group("consumer_group", GET),
        _topic("topic", GET, optional=True),
        _topic("topic_list", GET, optional=True, splitter=";"),
    ),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _of(_group("group", UPDATE), _topic("topic", UPDATE)),
    Code.QUERY_CORRECTION_OFFSET: _of(
        _topic("topic", GET),
        _group("compare_group", GET, optional=True),
        _group("filter_groups", UPDATE, optional=True, splitter=","),
    ),
    Code.CLONE_GROUP_OFFSET: _of(
        _group("src_group", GET), _group("dest_group", UPDATE), _topic("topic", UPDATE)
    ),
    Code.GET_CONSUMER_RUNNING_INFO: _of(_group("consumer_group", GET)),
    Code.CONSUME_MESSAGE_DIRECTLY: _of(_group("consumer_group", SUB), _topic("topic", SUB)),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _of(
        _group("group", GET), _topic("topic", GET, optional=True)
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: _of(_topic("topic", UPDATE)),
    # Administrators of the broker.
    Code.UPDATE_BROKER_CONFIG: _UPDATE,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _UPDATE,
    Code.DELETE_EXPIRED_COMMITLOG: _UPDATE,
    Code.CLEAN_UNUSED_TOPIC: _UPDATE,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _UPDATE,
    Code.AUTH_CREATE_USER: _UPDATE,
    Code.AUTH_UPDATE_USER: _UPDATE,
    Code.AUTH_DELETE_USER: _UPDATE,
    Code.AUTH_CREATE_ACL: _UPDATE,
    Code.AUTH_UPDATE_ACL: _UPDATE,
    Code.AUTH_DELETE_ACL: _UPDATE,
    Code.AUTH_GET_USER: _GET,
    Code.AUTH_LIST_USER: _GET,
    Code.AUTH_GET_ACL: _GET,
    Code.AUTH_LIST_ACL: _GET,
    Code.GET_BROKER_CONFIG: _GET,
    Code.GET_BROKER_RUNTIME_INFO: _GET,
    Code.GET_BROKER_HA_STATUS: _GET,
    Code.CONTROLLER_ALTER_SYNC_STATE_SET: _UPDATE,
    Code.CONTROLLER_ELECT_MASTER: _UPDATE,
    Code.CONTROLLER_GET_METADATA_INFO: _GET,
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _GET,
    Code.GET_BROKER_EPOCH_CACHE: _GET,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _GET,
    Code.VIEW_BROKER_STATS_DATA: _GET,
    Code.GET_BROKER_CONSUME_STATS: _GET,
    Code.GET_ALL_TOPIC_CONFIG: _GET,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _GET,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _GET,
    Code.GET_ALL_CONSUMER_OFFSET: _GET,
    Code.GET_ALL_DELAY_OFFSET: _GET,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _GET,
    Code.GET_TIMER_CHECK_POINT: _GET,
    Code.GET_TIMER_METRICS: _GET,
    Code.GET_PRODUCER_CONNECTION_LIST: _GET,
    Code.GET_ALL_PRODUCER_INFO: _GET,
}

OPEN_IN_ROCKETMQ: Final = frozenset(
    {
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
        Code.LITE_PULL_MESSAGE,
        Code.CHECK_CLIENT_CONFIG,
        Code.QUERY_ASSIGNMENT,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.SET_MESSAGE_REQUEST_MODE,
        Code.UPDATE_BROKER_CONFIG,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.CLEAN_UNUSED_TOPIC,
        Code.GET_BROKER_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_BROKER_HA_STATUS,
        Code.GET_BROKER_EPOCH_CACHE,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_DELAY_OFFSET,
        Code.GET_ALL_MESSAGE_REQUEST_MODE,
        Code.GET_TIMER_CHECK_POINT,
        Code.GET_TIMER_METRICS,
        Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
        Code.GET_COLD_DATA_FLOW_CTR_INFO,
    }
)
"""Requests that RocketMQ 5.3.3 serves to any user who can log in."""

NOTHING_KNOWN: Final = Needs()
"""What a request needs that is not in the table."""
