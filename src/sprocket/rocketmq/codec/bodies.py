"""Bodies of requests and answers: JSON, as RocketMQ's classes write and read it.

A body is a declared struct; `encode`, `decode` and `decode_request` write and read each of them.
Routes, topics, groups and figures are structs of `model`; tables that are in the broker's own files
too, of `codec.config`.

Tables whose keys are queues are written with objects as keys, those by number with bare numbers.
Routes and clusters are compact, because the Go client scans their text; their broker ids are in
quotes if the client asked for standard JSON. All known clients read both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert, field, json

from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.codec.config import (
    AS_GIVEN,
    REQUIRED,
    UNREAD,
    As,
    DataVersion,
    OneOf,
    by_name,
    declared,
    fastjson,
    tables,
    values,
)
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.filters import TagFilter
from sprocket.rocketmq.model.group import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    CONSUME_POP,
    PULL,
    TAG,
    Heartbeat,
    Membership,
    Subscription,
    SubscriptionGroup,
)
from sprocket.rocketmq.model.integers import Int32, Int64
from sprocket.rocketmq.model.progress import ConsumeStats, ConsumeTimeSpan
from sprocket.rocketmq.model.query import QueueUnit
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    UserStatus,
    UserType,
)
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.sharing import ShareQuery
from sprocket.rocketmq.model.topic import TopicConfig

encode, encode_pieces = declared.encode, declared.encode_pieces
decode, decode_request, decoder = declared.decode, declared.decode_request, declared.decoder


# Subscriptions, which clients write in their own ways


class _Subscription(Struct, frozen=True, kw_only=True, rename="camel"):
    """A subscription in JSON; tags are not read, as not every client sends them."""

    what: ClassVar = "a subscription"
    topic: str
    sub_string: str
    expression_type: object = TAG
    sub_version: int = 0
    class_filter_mode: Annotated[bool, UNREAD] = False
    code_set: Annotated[Sequence[int], UNREAD] = ()
    tags_set: Annotated[Sequence[str], UNREAD] = ()


class _TopicSubscription(_Subscription, frozen=True, kw_only=True, rename="camel"):
    topic: Annotated[str, REQUIRED]


def _to_json(found: Subscription) -> _TopicSubscription:
    wanted = found.filter or TagFilter()
    return _TopicSubscription(
        topic=found.topic,
        sub_string=found.expression,
        expression_type=found.type,
        sub_version=found.version,
        code_set=sorted(wanted.codes),
        tags_set=wanted.tags,
    )


def _from_json(found: _Subscription) -> Subscription:
    kind = values.text(found.expression_type) if found.expression_type else TAG
    return Subscription.parse(found.topic, found.sub_string, type=kind, version=found.sub_version)


SUBSCRIPTION = As(_Subscription, _to_json, _from_json)
"""Marks a field that is a subscription."""

TopicSubscription: TypeAlias = Annotated[Subscription, As(_TopicSubscription, _to_json, _from_json)]
"""A subscription that must say its topic."""


# Brokers and topics, as NameServers and brokers tell of them


class MemberGroup(Struct, frozen=True, kw_only=True):
    """The processes of one broker by their numbers; cluster and name as they were asked for."""

    addresses: Mapping[int, str] = field(name="brokerAddrs")
    name: str | None = field(name="brokerName")
    cluster: str | None


class MemberGroups(Struct, frozen=True):
    """The answer of GET_BROKER_MEMBER_GROUP 901."""

    group: MemberGroup = field(name="brokerMemberGroup")


class TopicNames(Struct, frozen=True, kw_only=True):
    """The answer of 206 and 343, and of 304 with a broker that knows others."""

    broker_address: str | None = field(name="brokerAddr", default=None)
    topics: Sequence[str] = field(name="topicList")


class KeyValueTable(Struct, frozen=True):
    """A table of texts (`KVTable`), the answer of 28 and 103."""

    table: Mapping[str, str]


class QueueStats(Struct, frozen=True, kw_only=True, rename="camel"):
    """What GET_TOPIC_STATS_INFO 202 says of one queue; the time is 0 for an empty one."""

    min_offset: int
    max_offset: int
    last_update_at_ms: int = field(name="lastUpdateTimestamp")


class TopicStats(Struct, frozen=True, kw_only=True):
    """The answer of GET_TOPIC_STATS_INFO 202."""

    queues: Mapping[MessageQueue, QueueStats] = field(name="offsetTable", default_factory=dict)
    put_tps: float = field(name="topicPutTps", default=0.0)


class TopicConfigs(Struct, frozen=True):
    """The body of UPDATE_AND_CREATE_TOPIC_LIST 18."""

    what: ClassVar = "a list of topics"
    topics: Annotated[Sequence[TopicConfig], REQUIRED] = field(name="topicConfigList")


class GroupNames(Struct, frozen=True):
    """The answer of QUERY_TOPIC_CONSUME_BY_WHO 300."""

    groups: Sequence[str] = field(name="groupList")


class QueueUnits(Struct, frozen=True, kw_only=True):
    """The answer of QUERY_CONSUME_QUEUE 321."""

    min_offset: int = field(name="minQueueIndex")
    max_offset: int = field(name="maxQueueIndex")
    units: Sequence[QueueUnit] = field(name="queueData", default=())
    subscription: Annotated[Subscription | None, SUBSCRIPTION] = field(
        name="subscriptionData", default=None
    )
    """Of the group that was named."""
    filter_data: str | None = field(name="filterData", default=None)
    """A text on how that group filters."""


# What clients send of themselves


CONSUME_TYPES = (CONSUME_ACTIVELY, CONSUME_PASSIVELY, CONSUME_POP)
MESSAGE_MODELS = (BROADCASTING, CLUSTERING)
CONSUME_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
"""Names by their ordinals, which the C++ client sends in their place."""


class ConsumerData(Membership, frozen=True, kw_only=True, rename="camel"):
    """One consumer group in a heartbeat."""

    what: ClassVar = "a consumer"
    group: Annotated[str, REQUIRED] = field(name="groupName")
    subscriptions: Annotated[Sequence[TopicSubscription], REQUIRED] = field(
        name="subscriptionDataSet", default=()
    )
    consume_type: Annotated[str, OneOf(CONSUME_TYPES)] = CONSUME_PASSIVELY
    message_model: Annotated[str, OneOf(MESSAGE_MODELS)] = CLUSTERING
    consume_from_where: Annotated[str, OneOf(CONSUME_FROM)] = CONSUME_FROM[0]


class _Producer(Struct, frozen=True):
    what: ClassVar = "a producer"
    group: Annotated[str, REQUIRED] = field(name="groupName")


class HeartbeatData(Heartbeat, frozen=True, kw_only=True, rename="camel"):
    """The body of HEART_BEAT 34."""

    producers: Annotated[
        Sequence[str],
        As(
            Sequence[_Producer],
            lambda names: [_Producer(name) for name in names],
            lambda found: [one.group for one in found],
        ),
    ] = field(name="producerDataSet", default=())
    consumers: Sequence[ConsumerData] = field(name="consumerDataSet", default=())


class ClientCheck(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of CHECK_CLIENT_CONFIG 46: a subscription to be tried."""

    client_id: str
    group: str
    subscription: Annotated[Subscription, SUBSCRIPTION] = field(name="subscriptionData")


class ConsumerIds(Struct, frozen=True):
    """The members of a group, the answer of GET_CONSUMER_LIST_BY_GROUP 38."""

    client_ids: list[str] = field(name="consumerIdList")


class LockBatch(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""

    group: str = field(name="consumerGroup")
    client_id: str
    queues: Sequence[MessageQueue] = field(name="mqSet")
    only_this_broker: bool = False


class LockedQueues(Struct, frozen=True):
    """The answer of LOCK_BATCH_MQ 41: the queues that the client has now."""

    queues: Sequence[MessageQueue] = field(name="lockOKMQSet")


def decode_heartbeat(data: bytes) -> HeartbeatData:
    """Read the body of HEART_BEAT 34, with ordinals for names as the C++ client sends them.

    Raises:
        WireError: It is not a JSON object, or a part of it cannot be read, or is absent.
    """
    body = declared.read_request(data, "a heartbeat")
    found = declared.read(HeartbeatData, body, "a heartbeat")
    if found.producers and body.get("clientID") is None:
        raise WireError("a heartbeat of producers without clientID")
    return found


def decode_lock(data: bytes, *, is_group_needed: bool = False) -> LockBatch:
    """Read the body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42.

    Args:
        data: The body.
        is_group_needed: Whether it must name a group even if it names no queues.

    Raises:
        WireError: It cannot be read, `mqSet` is null, or there are queues and no group.
    """
    body = {"mqSet": []} | declared.read_request(data, "a lock request")
    found = declared.read(LockBatch, body, "a lock request")
    needed = ("mqSet", "consumerGroup") if found.queues or is_group_needed else ("mqSet",)
    for name in needed:
        if body.get(name) is None:
            raise WireError(f"a lock request without {name}")
    return found


# What a broker asks of a consumer


DirectResult = Literal[
    "CR_SUCCESS",
    "CR_LATER",
    "CR_ROLLBACK",
    "CR_COMMIT",
    "CR_THROW_EXCEPTION",
    "CR_RETURN_NULL",
]
"""What became of a message that a listener was given directly."""


class DirectOutcome(Struct, frozen=True, kw_only=True):
    """The answer of CONSUME_MESSAGE_DIRECTLY 309."""

    written: ClassVar[Mapping[str, object]] = {"autoCommit": True}
    result: str = field(name="consumeResult")
    """One of `DirectResult`, or what a newer client says."""
    orderly: bool = field(name="order", default=False)
    spent_ms: int = field(name="spentTimeMills", default=0)
    remark: Annotated[str, As(str, lambda text: text or None, str)] = ""
    """What the listener raised."""


class QueueInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a consumer holds of one queue; wall times in ms since 1970, 0 for never."""

    written: ClassVar[Mapping[str, object]] = {
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }
    commit_offset: int
    cached_min_offset: int = field(name="cachedMsgMinOffset", default=0)
    cached_max_offset: int = field(name="cachedMsgMaxOffset", default=0)
    cached_count: int = field(name="cachedMsgCount", default=0)
    cached_bytes: Annotated[int, As(int, lambda size: size // MIB, lambda mib: mib * MIB)] = field(
        name="cachedMsgSizeInMiB", default=0
    )
    is_locked: bool = field(name="locked", default=False)
    is_dropped: bool = field(name="droped", default=False)
    pulled_at_ms: int = field(name="lastPullTimestamp", default=0)
    consumed_at_ms: int = field(name="lastConsumeTimestamp", default=0)
    locked_at_ms: int = field(name="lastLockTimestamp", default=0)


class TopicInfo(Struct, frozen=True, kw_only=True):
    """How a consumer did with one topic lately; times in ms, rates in messages a second."""

    pull_ms: float = field(name="pullRT", default=0.0)
    pull_rate: float = field(name="pullTPS", default=0.0)
    consume_ms: float = field(name="consumeRT", default=0.0)
    consume_rate: float = field(name="consumeOKTPS", default=0.0)
    failure_rate: float = field(name="consumeFailedTPS", default=0.0)
    failures: int = field(name="consumeFailedMsgs", default=0)
    """In the last hour."""


class RunningInfo(Struct, frozen=True, kw_only=True):
    """The answer of GET_CONSUMER_RUNNING_INFO 307."""

    written: ClassVar[Mapping[str, object]] = {"mqPopTable": {}, "userConsumerInfo": {}}
    properties: Annotated[Mapping[str, str], AS_GIVEN]
    subscriptions: Iterable[Annotated[Subscription, SUBSCRIPTION]] = field(
        name="subscriptionSet", default=()
    )
    queues: Mapping[MessageQueue, QueueInfo] = field(name="mqTable", default_factory=dict)
    topics: Annotated[Mapping[str, TopicInfo], AS_GIVEN] = field(
        name="statusTable", default_factory=dict
    )
    stacks: str | None = field(name="jstack", default=None)
    """What every thread is at, if that was asked for."""


class QueueOffsets(Struct, frozen=True):
    """The body of RESET_CONSUMER_CLIENT_OFFSET 220, and a Java client's file of offsets."""

    offsets: dict[MessageQueue, int] = field(name="offsetTable")


class _ListedOffset(Struct, frozen=True, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int
    offset: int


class OffsetList(Struct, frozen=True):
    """The body of 220 as C++ clients read it, and our own file of offsets."""

    offsets: Annotated[
        dict[MessageQueue, int],
        As(
            Sequence[_ListedOffset],
            lambda table: [
                _ListedOffset(one.topic, one.broker_name, one.queue_id, offset)
                for one, offset in table.items()
            ],
            lambda found: {
                MessageQueue(one.topic, one.broker_name, one.queue_id): one.offset for one in found
            },
        ),
    ]


class ConsumerStatus(Struct, frozen=True, kw_only=True):
    """The answer of GET_CONSUMER_STATUS_FROM_CLIENT 221: the offsets of one client.

    That of INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223 has those of `clients`, by client id.
    """

    offsets: Mapping[MessageQueue, int] = field(name="messageQueueTable", default_factory=dict)
    clients: Annotated[Mapping[str, Mapping[MessageQueue, int]], UNREAD] = field(
        name="consumerTable", default_factory=dict
    )


def decode_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Read the body of RESET_CONSUMER_CLIENT_OFFSET 220 in either form. Raises WireError."""
    body = declared.read_answer(data, "a reset")
    table = body.get("offsetTable")
    if isinstance(table, list):
        return declared.read(OffsetList, {"offsets": table}, "a reset").offsets
    return declared.read(QueueOffsets, body, "a reset").offsets


# Groups: how they are set up, and who is connected in them


class GroupTable(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201.

    `forbidden` has bits by group and topic: bit 0 says that the group may not read the topic.
    """

    version: DataVersion = field(name="dataVersion")
    groups: Annotated[Sequence[SubscriptionGroup], by_name(SubscriptionGroup)] = field(
        name="subscriptionGroupTable"
    )
    forbidden: Mapping[str, Mapping[str, int]] = field(name="forbiddenTable", default_factory=dict)


class GroupConfigs(Struct, frozen=True):
    """The body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225."""

    what: ClassVar = "a list of groups"
    groups: Annotated[Sequence[SubscriptionGroup], REQUIRED] = field(name="groupConfigList")


class ClientConnection(Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group."""

    client_id: str
    address: str = field(name="clientAddr")
    language: str
    version: int
    claimed_by: str | None = None
    """The load balancer that says so of the address; RocketMQ has no such member."""


class ConsumerConnection(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of GET_CONSUMER_CONNECTION_LIST 203."""

    connections: Sequence[ClientConnection] = field(name="connectionSet")
    subscriptions: Annotated[
        Sequence[Subscription],
        As(
            Mapping[str, Annotated[Subscription, SUBSCRIPTION]],
            lambda found: {one.topic: one for one in found},
            lambda table: list(table.values()),
        ),
    ] = field(name="subscriptionTable")
    consume_type: str
    message_model: str
    consume_from_where: str


class ProducerConnection(Struct, frozen=True):
    """The answer of GET_PRODUCER_CONNECTION_LIST 204."""

    connections: Sequence[ClientConnection] = field(name="connectionSet")


class ProducerInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """What GET_ALL_PRODUCER_INFO 328 says of one producer; the time is that of its heartbeat."""

    client_id: str
    address: Annotated[
        str,
        As(str, "/{}".format, lambda text: text.lstrip("/")),  # as Java shows an address
    ] = field(name="remoteIP")
    language: str
    version: int
    seen_at_ms: int = field(name="lastUpdateTimestamp")
    claimed_by: str | None = None
    """See `ClientConnection`."""


class ProducerTable(Struct, frozen=True):
    """The answer of GET_ALL_PRODUCER_INFO 328: producers by group."""

    groups: dict[str, list[ProducerInfo]] = field(name="data")


class GroupSubscription(Struct, frozen=True, kw_only=True):
    """The answer of QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str
    topic: str
    subscription: Annotated[Subscription | None, SUBSCRIPTION] = field(
        name="subscriptionData", default=None
    )


def decode_group(data: bytes) -> SubscriptionGroup:
    """Read the body of 200, which must name the group. Raises WireError."""
    return _group(declared.read_request(data, "a group"))


def decode_groups(data: bytes) -> list[SubscriptionGroup]:
    """Read the body of 225, which must name each group. Raises WireError."""
    body = declared.read_request(data, "a list of groups")
    declared.read(GroupConfigs, body, "a list of groups")
    return [_group(one) for one in body["groupConfigList"]]


def _group(value: Any) -> SubscriptionGroup:
    found = values.mapping(value, "a group")
    if found.get("groupName") is None:
        raise WireError("a group without groupName")
    return tables.GROUPS.one("", found)


# How far groups are in their queues


_KEYS_A_PIECE = 1000


def _entries(groups: Any) -> list[dict[str, Any]]:
    return [{group: topics} for group, topics in groups]


def _groups(entries: Any) -> list[tuple[str, Any]]:
    return [found for entry in entries for found in entry.items()]


class BrokerConsumeStats(Struct, frozen=True, kw_only=True):
    """The answer of GET_BROKER_CONSUME_STATS 317: each group with its topics' stats."""

    broker_address: str = field(name="brokerAddr")
    groups: Annotated[
        Sequence[tuple[str, Sequence[ConsumeStats]]],
        As(Sequence[Mapping[str, Sequence[ConsumeStats]]], _entries, _groups),
    ] = field(name="consumeStatsList")
    total_lag: int = field(name="totalDiff")
    total_in_flight: int = field(name="totalInflightDiff")


def _time_text(at_ms: int) -> str:
    """Return a time as RocketMQ writes it into this body, to the millisecond."""
    at = datetime.fromtimestamp(at_ms / 1000)  # noqa: DTZ006 - the broker's own zone is meant
    return f"{at:%Y-%m-%d#%H:%M:%S}:{at_ms % 1000:03d}"


class _TimeSpan(ConsumeTimeSpan, frozen=True, kw_only=True):
    written: ClassVar[Mapping[str, object]] = {
        "consumeTimeStampStr": lambda one: _time_text(one.consumed_at_ms),
        "maxTimeStampStr": lambda one: _time_text(one.max_at_ms),
        "minTimeStampStr": lambda one: _time_text(one.min_at_ms),
    }


class ConsumeTimeSpans(Struct, frozen=True):
    """The answer of QUERY_CONSUME_TIME_SPAN 303; texts are in the broker's time zone."""

    spans: Annotated[
        Sequence[ConsumeTimeSpan],
        As(
            Sequence[_TimeSpan],
            partial(convert, type=list[_TimeSpan], from_attributes=True),
            partial(convert, type=list[ConsumeTimeSpan], from_attributes=True),
        ),
    ] = field(name="consumeTimeSpanSet")


def _rows(kind: Any) -> As:
    """Mark rows of values of several types, which are none of RocketMQ's."""

    def back(found: object) -> Any:
        try:
            return convert(found, kind, str_keys=True)
        except ValidationError as error:
            raise WireError(f"rows of pops: {error}") from error

    return As(object, lambda rows: rows, back)


class OffsetTable(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_CONSUMER_OFFSET 43: offsets by `topic@group` and queue.

    Attributes:
        pops: What is in flight, queue by queue; None if that was not asked for, or is not known.
        ordered_pops: The same of those that consume in order.
    """

    version: DataVersion = field(name="dataVersion")
    offsets: Mapping[str, Mapping[int, int]] = field(name="offsetTable")
    pops: Annotated[Sequence[tables.PoppedRows] | None, _rows(list[tables.PoppedRows])] = field(
        name="sprocketPops", default=None
    )
    ordered_pops: Annotated[Sequence[tables.OrderedRow] | None, _rows(list[tables.OrderedRow])] = (
        field(name="sprocketOrderedPops", default=None)
    )


class DelayOffsets(Struct, frozen=True, kw_only=True):
    """The answer of GET_ALL_DELAY_OFFSET 45: by level, what was not delivered first."""

    version: DataVersion = field(name="dataVersion")
    levels: Annotated[Mapping[int, int], AS_GIVEN] = field(name="offsetTable")


def broker_stats_begin(broker_address: str) -> bytes:
    """Write what is before the groups in the answer of GET_BROKER_CONSUME_STATS 317."""
    return b'{"brokerAddr":' + declared.encode(broker_address) + b',"consumeStatsList":['


def broker_stats_group(
    group: str, topics: Iterable[ConsumeStats], *, is_first: bool
) -> Iterator[bytes]:
    """Write one group in the answer of GET_BROKER_CONSUME_STATS 317, in pieces."""
    mark = (b"{" if is_first else b",{") + declared.encode(group) + b":["
    for one in topics:
        for piece in declared.encode_pieces(one):
            yield mark + piece
            mark = b""
        mark = b","
    yield b"]}" if mark == b"," else mark + b"]}"


def broker_stats_end(total_lag: int, total_in_flight: int) -> bytes:
    """Write what is behind the groups in the answer of GET_BROKER_CONSUME_STATS 317."""
    return b'],"totalDiff":%d,"totalInflightDiff":%d}' % (total_lag, total_in_flight)


def offset_table_pieces(
    table: OffsetTable,
    pops: Iterable[tables.PoppedRows] | None = None,
    ordered_pops: Iterable[tables.OrderedRow] | None = None,
) -> Iterator[bytes]:
    """Write the answer of GET_ALL_CONSUMER_OFFSET 43 in pieces; the table may change meanwhile.

    Args:
        table: The offsets.
        pops: What is in flight; None if that was not asked for.
        ordered_pops: The same of those that consume in order.
    """
    return declared.coalesced(_offset_table(table, pops, ordered_pops))


def _offset_table(
    table: OffsetTable,
    pops: Iterable[tables.PoppedRows] | None,
    ordered_pops: Iterable[tables.OrderedRow] | None,
) -> Iterator[bytes]:
    yield b'{"dataVersion":' + declared.encode(table.version) + b',"groupTopicMap":{'
    keys = list(table.offsets)
    groups: dict[str, list[str]] = {}
    for number, key in enumerate(keys):
        topic, _, group = key.partition("@")
        groups.setdefault(group, []).append(topic)
        if number % _KEYS_A_PIECE == _KEYS_A_PIECE - 1:
            yield b""
    mark = b""
    for group, topics in groups.items():
        yield mark + declared.encode(group) + b":" + declared.encode(topics)
        mark = b","
    yield b'},"offsetTable":{'
    mark = b""
    for key in keys:
        queues = table.offsets.get(key)
        if queues is not None:
            yield mark + declared.encode(key) + b":" + fastjson.int_map(queues).encode()
            mark = b","
    yield b"}"
    if pops is not None:
        yield b',"sprocketPops":['
        mark = b""
        for rows in pops:
            yield mark + json.encode(rows)
            mark = b","
        yield b"]"
    if ordered_pops is not None:
        yield b',"sprocketOrderedPops":['
        mark = b""
        for name, queue_id, pop in ordered_pops:
            yield mark + json.encode([name, queue_id, declared.plain(pop)])
            mark = b","
        yield b"]"
    yield b"}"


# Users and what they may do


class UserInfo(Struct, frozen=True, kw_only=True):
    """A user as tools write and read it; what is absent in a request stays as it is."""

    what: ClassVar = "a user"
    password: str | None = None
    status: str | None = field(name="userStatus", default=None)
    type: str | None = field(name="userType", default=None)
    name: str | None = field(name="username", default=None)


class PolicyEntryInfo(Struct, frozen=True, kw_only=True):
    """What a policy says of one resource; source addresses are absent if all may use it."""

    what: ClassVar = "an entry of a policy"
    actions: Sequence[str] = ()
    decision: str | None = None
    resource: str | None = None
    source_ips: Sequence[str] | None = field(name="sourceIps", default=None)


class PolicyInfo(Struct, frozen=True, kw_only=True):
    """A policy."""

    what: ClassVar = "a policy"
    entries: Sequence[PolicyEntryInfo] = ()
    type: str | None = field(name="policyType", default=None)


class AclInfo(Struct, frozen=True, kw_only=True):
    """All policies of one subject."""

    what: ClassVar = "the policies of a subject"
    policies: Sequence[PolicyInfo] = ()
    subject: str | None = None


def user_info(user: AclUser) -> UserInfo:
    """Return a user as tools read it."""
    return UserInfo(
        name=user.name,
        password=user.password,
        type=user.type.value,
        status=user.status.value,
    )


def acl_info(acl: Acl) -> AclInfo:
    """Return the policies of a subject as tools read them."""
    policies = [
        PolicyInfo(type=policy.type.value, entries=[*map(_entry_info, policy.entries)])
        for policy in acl.policies
    ]
    return AclInfo(subject=acl.subject, policies=policies)


def decode_users(data: bytes) -> list[AclUser]:
    """Read the answer of AUTH_LIST_USER 3005. Raises WireError."""
    found = values.sequence(fastjson.read_large(data, list), "users")
    return [_user(declared.read(UserInfo, one, "a user")) for one in found]


def decode_acls(data: bytes) -> list[Acl]:
    """Read the answer of AUTH_LIST_ACL 3010; what is of no known kind is left out. As above."""
    found = values.sequence(fastjson.read_large(data, list), "policies")
    return [_acl(declared.read(AclInfo, one, "policies")) for one in found]


def _user(info: UserInfo) -> AclUser:
    return AclUser(
        info.name or "",
        info.password or "",
        rights.named(UserType, info.type) or UserType.NORMAL,
        rights.named(UserStatus, info.status) or UserStatus.ENABLED,
    )


def _acl(info: AclInfo) -> Acl:
    policies = [
        AclPolicy(
            rights.named(PolicyType, policy.type) or PolicyType.CUSTOM,
            tuple(entry for one in policy.entries if (entry := _entry(one)) is not None),
        )
        for policy in info.policies
    ]
    return Acl(info.subject or "", tuple(policies))


def _entry(info: PolicyEntryInfo) -> PolicyEntry | None:
    resource = AclResource.parse(info.resource)
    decision = rights.named(Decision, info.decision)
    if resource is None or decision is None:
        return None
    named = (rights.named(Action, name) for name in info.actions)
    return PolicyEntry(
        resource=resource,
        actions=tuple(one for one in named if one is not None),
        decision=decision,
        source_ips=tuple(info.source_ips or ()),
    )


def _entry_info(entry: PolicyEntry) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource=str(entry.resource),
        actions=[action.value for action in entry.actions],
        source_ips=list(entry.source_ips) or None,
        decision=entry.decision.value,
    )


# What a broker collects from its clients or works out for them


class BatchAckEntry(Struct, frozen=True):
    """Acknowledgements of messages of one pop, which is named as in its handle.

    Attributes:
        bits: In Base64, the lowest byte first; bit `i` stands for the queue offset `start + i`.
    """

    bits: str = field(name="b")
    group: str = field(name="c")
    topic: str = field(name="t")
    queue_id: Int32 = field(name="q")
    start: Int64 = field(name="so")
    popped_at_ms: Int64 = field(name="pt")
    invisible_ms: Int64 = field(name="it")
    revive_queue: Int32 = field(name="rq", default=0)
    retry: str = field(name="r", default="0")


class BatchAck(Struct, frozen=True, rename="camel"):
    """The body of BATCH_ACK_MESSAGE 200151."""

    what: ClassVar = "acknowledgements"
    acks: Sequence[BatchAckEntry] = ()
    broker_name: str = ""


class AssignmentQuery(ShareQuery, frozen=True, kw_only=True, rename="camel"):
    """The body of QUERY_ASSIGNMENT 400; it need not name client and strategy."""

    what: ClassVar = "a query for an assignment"
    topic: Annotated[str, REQUIRED]
    group: Annotated[str, REQUIRED] = field(name="consumerGroup")
    message_model: Annotated[str, REQUIRED]


class AssignedQueue(Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of an assignment, and how its messages are to be got."""

    message_queue: MessageQueue
    mode: str = PULL


class QueueAssignment(Struct, frozen=True):
    """The answer of QUERY_ASSIGNMENT 400; None leaves the client with what it has."""

    queues: Sequence[AssignedQueue] | None = field(name="messageQueueAssignments", default=None)

    @classmethod
    def of(cls, queues: Sequence[MessageQueue] | None, mode: str) -> "QueueAssignment":
        """Return that of queues, all of whose messages are got in one way."""
        if queues is None:
            return cls(None)
        return cls([AssignedQueue(message_queue=queue, mode=mode) for queue in queues])


class Corrections(Struct, frozen=True):
    """The answer of QUERY_CORRECTION_OFFSET 308: offsets by queue id."""

    offsets: Annotated[Mapping[int, int], AS_GIVEN] = field(name="correctionOffsets")


class Permission(Struct, frozen=True, kw_only=True):
    """The answer of UPDATE_AND_GET_GROUP_FORBIDDEN 353."""

    group: str
    topic: str
    is_readable: bool = field(name="readable")


# Figures: rates by the minute, hour and day, and how replicas keep up


class ColdReadTable(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of GET_COLD_DATA_FLOW_CTR_INFO 2003: which groups read old messages slowly.

    The sizes are RocketMQ's defaults; they have no effect, as no group is slowed down.
    """

    runtime_table: Mapping[str, int] = field(default_factory=dict)
    config_table: Mapping[str, int] = field(default_factory=dict)
    cg_cold_read_threshold: int = 3 * MIB
    global_cold_read_threshold: int = 100 * MIB
    global_acc: int = 0


class SlaveStatus(Struct, frozen=True, kw_only=True):
    """How far one slave is."""

    address: str = field(name="addr")
    acknowledged_offset: int = field(name="slaveAckOffset")
    lag_bytes: int = field(name="diff")
    is_in_sync: bool = field(name="inSync")
    bytes_per_second: int = field(name="transferredByteInSecond", default=0)
    transfer_offset: int = field(name="transferFromWhere", default=0)
    lag_ms: int = field(name="lagMs", default=0)
    """For how long it has lacked what it lacks; ours."""
    broker_id: int = field(name="brokerId", default=0)
    """Which one it is, 0 if it has not said so; ours."""


class MasterStatus(Struct, frozen=True, kw_only=True):
    """How a slave follows its master; of a master, nothing."""

    written: ClassVar[Mapping[str, object]] = {"masterFlushOffset": 0}
    heard_at_ms: int = field(name="lastReadTimestamp", default=0)
    reported_at_ms: int = field(name="lastWriteTimestamp", default=0)
    address: str | None = field(name="masterAddr", default=None)
    log_end: int = field(name="maxOffset", default=0)
    bytes_per_second: int = field(name="transferredByteInSecond", default=0)
    is_connected: bool | None = field(name="activated", default=None)


class ReplicaStatus(Struct, frozen=True, kw_only=True):
    """The answer of GET_BROKER_HA_STATUS 907."""

    written: ClassVar[Mapping[str, object]] = {"inSyncSlaveNums": attrgetter("in_sync_count")}
    master: MasterStatus = field(name="haClientRuntimeInfo", default=MasterStatus())
    log_end: int = field(name="masterCommitLogMaxOffset")
    slaves: Sequence[SlaveStatus] = field(name="haConnectionInfo", default=())
    is_master: bool = field(name="master", default=False)

    @property
    def in_sync_count(self) -> int:
        """Slaves that are in sync."""
        return sum(one.is_in_sync for one in self.slaves)


class LogEpoch(Struct, frozen=True, kw_only=True):
    """An epoch of a log (`EpochEntry`), from its first byte to the one behind its last."""

    number: int = field(name="epoch")
    start: int = field(name="startOffset")
    end: int = field(name="endOffset")


class LogEpochs(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of GET_BROKER_EPOCH_CACHE 1007 (`EpochEntryCache`): those of one member."""

    cluster_name: str
    broker_name: str
    broker_id: int
    epochs: Sequence[LogEpoch] = field(name="epochList", default=())
    log_end: int = field(name="maxOffset")


class InSyncSet(Struct, frozen=True, kw_only=True):
    """The body of CONTROLLER_ALTER_SYNC_STATE_SET 1001 (`SyncStateSet`): numbers of members."""

    members: Sequence[int] = field(name="syncStateSet")
    epoch: int = field(name="syncStateSetEpoch", default=0)


class SetReplica(Struct, frozen=True, kw_only=True, rename="camel"):
    """A member of a set (`ReplicaIdentity`); the last four fields are ours."""

    broker_name: str
    broker_id: int
    broker_address: str
    is_alive: bool = field(name="alive")
    member: str = ""
    """Number and incarnation."""
    epoch: int = 0
    """The last one in its log."""
    log_end: int = 0
    is_joining: bool = False
    """Whether senders wait for it already, and it is not in sync yet."""


class SetMemberView(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the member that answers says of itself; ours."""

    broker_id: int
    phase: str
    epoch: int
    """While it leads."""
    why: str
    switched_at_ms: int
    """When it became master, or ceased to be; 0 for never."""
    switched_epoch: int
    switched_why: str
    in_sync_min: int
    """With fewer in sync nothing is acknowledged."""
    has_begun: bool
    """Whether an operator has said who is in sync at first."""
    notice: str = ""
    """What other members are told where nobody decides but an operator, JSON."""
    is_by_operator: bool = False
    """Whether that is so."""


class SetReplicas(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of one set (`ReplicasInfo`)."""

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int = 0
    in_sync_epoch: int = field(name="syncStateSetEpoch", default=0)
    in_sync: Sequence[SetReplica] = field(name="inSyncReplicas", default=())
    others: Sequence[SetReplica] = field(name="notInSyncReplicas", default=())
    answered_by: SetMemberView | None = None


class SetReplicasTable(Struct, frozen=True, kw_only=True):
    """The answer of CONTROLLER_GET_SYNC_STATE_DATA 1006 (`BrokerReplicasInfo`), by broker name."""

    sets: Mapping[str, SetReplicas] = field(name="replicasInfoTable", default_factory=dict)
