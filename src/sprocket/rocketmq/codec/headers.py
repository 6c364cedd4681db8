"""Headers of requests and answers, each declared once; both directions follow from it.

A class is named after its request; `…Answer` is the answer to it. A header that a service of the
broker is given is one of the values in `model` that the service takes. A request that lacks a field
without a default is refused. A default says what RocketMQ does when the field is absent; `None`
lets handlers know that it was absent. `codec.ext` turns texts into fields and back.

Source: `org.apache.rocketmq.remoting.protocol.header`, 5.3.3.
"""

from typing import ClassVar

from msgspec import field

from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.model.integers import Int32, Int64
from sprocket.rocketmq.model.message import ProducedMessage, SendBackRequest
from sprocket.rocketmq.model.offset_reset import OffsetReset
from sprocket.rocketmq.model.pop import PopQuery
from sprocket.rocketmq.model.pull import PullQuery
from sprocket.rocketmq.model.query import KeyQuery
from sprocket.rocketmq.model.recall import RecallRequest
from sprocket.rocketmq.model.transaction import TransactionEnd


class NoFields(Header, frozen=True, kw_only=True):
    """Ext fields that are there and hold nothing: `{}`.

    RocketMQ's answers have them where the code has a header that may hold something, else none.
    """


# Sending


class SendMessage(Header, ProducedMessage, frozen=True, kw_only=True):
    """SEND_MESSAGE 10: one message, or a batch when `batch` is set."""

    batch: bool = False
    bname: str | None = None


class SendMessageV2(SendMessage, frozen=True, kw_only=True):
    """SEND_MESSAGE_V2 310 and SEND_BATCH_MESSAGE 320: the same fields under one letter each.

    A signed request has two more fields, which are checked for each message.
    """

    numbers_are_strict: ClassVar[bool] = True
    producer_group: str = field(name="a", default="")
    topic: str = field(name="b")
    default_topic: str | None = field(name="c", default=None)
    default_topic_queue_nums: Int32 | None = field(name="d", default=None)
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str = field(name="i", default="")
    reconsume_times: Int32 = field(name="j", default=0)
    unit_mode: bool = field(name="k", default=False)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool = field(name="m", default=False)
    bname: str | None = field(name="n", default=None)
    access_key: str | None = field(name="AccessKey", default=None)
    signature: str | None = field(name="Signature", default=None)


class Region(Header, frozen=True, kw_only=True):
    """What the answer to a send says even where a check refused it; clients copy it into traces."""

    buckets: ClassVar[int] = 256
    region: str = field(name="MSG_REGION", default="DefaultRegion")
    trace_on: bool = field(name="TRACE_ON", default=True)


class SendMessageAnswer(Region, frozen=True, kw_only=True):
    """Where the message lies. Clients read region and trace switch without looking for them."""

    msg_id: str
    """Offset message id; of a batch, one for each message, joined by commas."""
    queue_id: Int32
    queue_offset: Int64
    """Of a batch, that of its first message."""
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    """The key of a batch that was stored as one record."""
    recall_handle: str | None = None
    """By which a message that waits for its time is taken back."""


class RecallMessage(Header, RecallRequest, frozen=True, kw_only=True):
    """RECALL_MESSAGE 370: a message that waits for its time is not to be delivered."""

    bname: str | None = None


class RecallMessageAnswer(Header, frozen=True, kw_only=True):
    """Which message was taken back, and the region, which is said in any case."""

    buckets: ClassVar[int] = 256
    region: str = field(name="MSG_REGION", default="DefaultRegion")
    msg_id: str | None = None


class SendMessageBack(Header, SendBackRequest, frozen=True, kw_only=True):
    """CONSUMER_SEND_MSG_BACK 36: deliver a message again, later."""

    origin_msg_id: str | None = None
    origin_topic: str | None = None


class EndTransaction(Header, TransactionEnd, frozen=True, kw_only=True):
    """END_TRANSACTION 37: how the transaction ended that a half message belongs to."""

    topic: str | None = None
    commit_or_rollback: Int32
    """8 commit, 12 rollback, 0 unknown."""
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransaction(Header, frozen=True, kw_only=True):
    """CHECK_TRANSACTION_STATE 39: from broker to producer, one-way; body: the half message."""

    topic: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str
    transaction_id: str
    offset_msg_id: str


class ResumeCheck(Header, frozen=True, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE 323: ask again about a half message that was given up."""

    topic: str | None = None
    msg_id: str | None = None
    """Its offset id."""


class SendReply(SendMessage, frozen=True, kw_only=True):
    """SEND_REPLY_MESSAGE 324: a send of which fewer fields are required."""

    topic: str = ""
    sys_flag: Int32 = 0


class SendReplyV2(SendMessageV2, frozen=True, kw_only=True):
    """SEND_REPLY_MESSAGE_V2 325."""

    topic: str = field(name="b", default="")
    sys_flag: Int32 = field(name="f", default=0)


class PushReply(Header, frozen=True, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT 326: from broker to the client that waits; body: the reply's."""

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int32 = 0
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    """Milliseconds since 1970, by the clock of who replied."""
    flag: Int32
    properties: str = ""
    """name U+0001 value U+0002, repeated; those of the reply and PUSH_REPLY_TIME."""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    born_host: str
    """`ip:port` of who replied."""
    store_host: str
    """`ip:port` of the broker."""
    store_timestamp: Int64
    """Milliseconds since 1970, by the broker's clock."""


# Pulling


class PullMessage(Header, PullQuery, frozen=True, kw_only=True):
    """PULL_MESSAGE 11, perhaps signed."""

    numbers_are_strict: ClassVar[bool] = True
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    bname: str | None = None
    access_key: str | None = field(name="AccessKey", default=None)
    signature: str | None = field(name="Signature", default=None)


class PullMessageAnswer(Header, frozen=True, kw_only=True):
    """Where to go on, in every answer that is not a refusal; Java reads all four numbers."""

    suggest_which_broker_id: Int64 = 0
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    topic_sys_flag: Int32 = 0
    """See `model.topic`; 0 for a topic that is not a part of a unit."""
    group_sys_flag: Int32 = 0


class PopMessage(Header, PopQuery, frozen=True, kw_only=True):
    """POP_MESSAGE 200050."""


class PopMessageAnswer(Header, frozen=True, kw_only=True):
    """What was popped, for whoever makes handles of it; see `codec.pop_info`."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessage(Header, frozen=True, kw_only=True):
    """ACK_MESSAGE 200051: a message was consumed."""

    consumer_group: str
    topic: str
    """That which it was popped from."""
    queue_id: Int32
    extra_info: str
    """Its handle."""
    offset: Int64


class ChangeInvisibleTime(AckMessage, frozen=True, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME 200053: a message is to come again at another time."""

    invisible_time: Int64


class ChangeInvisibleTimeAnswer(Header, frozen=True, kw_only=True):
    """What the new handle has."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0


class PollingInfo(Header, frozen=True, kw_only=True):
    """POLLING_INFO 200055: how many pops wait?"""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0


class PollingInfoAnswer(Header, frozen=True, kw_only=True):
    """How many."""

    polling_num: Int32 = 0


class Notification(PollingInfo, frozen=True, kw_only=True):
    """NOTIFICATION 200054: is there a message to pop?"""

    poll_time: Int64 = 0
    born_time: Int64 = 0
    order: bool | None = None
    attempt_id: str | None = None


class NotificationAnswer(Header, frozen=True, kw_only=True):
    """Whether there is, and whether too many wait already."""

    has_msg: bool = False
    polling_full: bool = False


class PeekMessage(PollingInfo, frozen=True, kw_only=True):
    """PEEK_MESSAGE 200052: show messages without popping them."""

    max_msg_nums: Int32 = 0


class PullForbiddenAnswer(Header, frozen=True, kw_only=True):
    """What an answer with NO_PERMISSION says instead."""

    forbidden_type: Int32
    """1 broker, 2 group, 3 topic, 4 broadcast disabled, 5 group for this topic."""


# Offsets


class QueryConsumerOffset(Header, frozen=True, kw_only=True):
    """QUERY_CONSUMER_OFFSET 14, answered by `OffsetAnswer`; without a group nothing is known."""

    consumer_group: str = ""
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool = True


class UpdateConsumerOffset(Header, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET 15. Number fields that are absent or unreadable are None: code 29."""

    consumer_group: str = ""
    topic: str
    queue_id: Int32 | None = None
    commit_offset: Int64 | None = None


class TopicQueue(Header, frozen=True, kw_only=True):
    """GET_MAX_OFFSET 30, GET_MIN_OFFSET 31, GET_EARLIEST_MSG_STORETIME 32."""

    topic: str
    queue_id: Int32


class SearchOffset(Header, frozen=True, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP 29, answered by `OffsetAnswer`."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    """Milliseconds since 1970."""
    boundary_type: str | None = None

    @property
    def is_upper(self) -> bool:
        """Whether the last message not after the time is meant, not the first not before it."""
        return self.boundary_type is not None and self.boundary_type.lower() == "upper"


class GetAllOffsets(Header, frozen=True, kw_only=True):
    """GET_ALL_CONSUMER_OFFSET 43: what groups have committed."""

    with_pops: bool = field(name="sprocketPops", default=False)
    """Whether what they have popped is asked for, too; RocketMQ passes over it."""


class OffsetAnswer(Header, frozen=True, kw_only=True):
    """The answer of 14, 29, 30 and 31."""

    offset: Int64


class TimestampAnswer(Header, frozen=True, kw_only=True):
    """The answer of 32; −1 for an empty queue."""

    timestamp: Int64


class ResetOffset(Header, OffsetReset, frozen=True, kw_only=True):
    """INVOKE_BROKER_TO_RESET_OFFSET 222, answered with the new offsets by queue.

    RESET_CONSUMER_CLIENT_OFFSET 220, which a broker sends to a consumer, one-way, has the same
    fields; the new offsets are in its body.
    """


class CloneOffsets(Header, frozen=True, kw_only=True):
    """CLONE_GROUP_OFFSET 314."""

    src_group: str | None = None
    dest_group: str | None = None
    topic: str | None = None
    """Absent or empty: all topics that the source has committed in."""
    offline: bool = False


class CorrectionOffsets(Header, frozen=True, kw_only=True):
    """QUERY_CORRECTION_OFFSET 308: the smallest offset of any group by queue."""

    topic: str
    compare_group: str = ""
    filter_groups: str | None = None
    """Groups, joined by commas, whose offsets are forgotten first."""


# Queries


class QueryMessage(Header, KeyQuery, frozen=True, kw_only=True):
    """QUERY_MESSAGE 12: by key, in the index. An absent topic or key is found nowhere."""


class QueryMessageAnswer(Header, frozen=True, kw_only=True):
    """How far the index goes."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessage(Header, frozen=True, kw_only=True):
    """VIEW_MESSAGE_BY_ID 33."""

    offset: Int64
    """Bytes into the log."""
    topic: str | None = None


class QueryConsumeQueue(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_QUEUE 321: units of a queue from one on; a number that is absent is 0."""

    topic: str
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


# Clients


class HeartbeatAnswer(Header, frozen=True, kw_only=True):
    """The answer of HEART_BEAT 34, whose own fields are all in its body."""

    buckets: ClassVar[int] = 256
    supports_v2: bool = field(name="IS_SUPPORT_HEART_BEAT_V2", default=True)
    has_changed: bool = field(name="IS_SUB_CHANGE", default=True)


class UnregisterClient(Header, frozen=True, kw_only=True):
    """UNREGISTER_CLIENT 35. The connection says who leaves."""

    client_id: str = field(name="clientID", default="")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupOnly(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP 38 and GET_CONSUMER_CONNECTION_LIST 203.

    Also NOTIFY_CONSUMER_IDS_CHANGED 40, from broker to consumer, one-way.
    """

    consumer_group: str


class ProducerConnections(Header, frozen=True, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST 204."""

    producer_group: str


# What a broker asks of a consumer, for itself or for an administrator


class GetConsumerStatus(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_STATUS_FROM_CLIENT 221: how far a consumer is with a topic.

    INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223 asks a broker the same of the members of a group.
    """

    topic: str | None = None
    group: str
    client_addr: str | None = None
    """A client id, for a broker; absent or empty: all members."""


class GetConsumerRunningInfo(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO 307: what a consumer is doing."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(Header, frozen=True, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY 309: give the listener one message, the record in the body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


# Topics and groups


class CreateTopic(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_TOPIC 17."""

    topic: str
    default_topic: str = ""
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: str = ""
    force: bool = False


class DeleteTopic(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_BROKER 215; without a topic it is refused as one without a name is."""

    topic: str = ""


class TopicOnly(Header, frozen=True, kw_only=True):
    """GET_TOPIC_STATS_INFO 202, QUERY_TOPIC_CONSUME_BY_WHO 300 and GET_TOPIC_CONFIG 351."""

    topic: str


class GroupOnly(Header, frozen=True, kw_only=True):
    """QUERY_TOPICS_BY_CONSUMER 343 and GET_SUBSCRIPTIONGROUP_CONFIG 352."""

    group: str


class GroupAndTopic(Header, frozen=True, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    group: str
    topic: str


class DeleteGroup(Header, frozen=True, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP 207."""

    group_name: str
    clean_offset: bool = False
    """Forget what the group has committed as well."""


class GroupForbidden(Header, frozen=True, kw_only=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN 353."""

    group: str
    topic: str
    readable: bool | None = None
    """Absent: nothing is changed."""


# Figures and settings of a broker


class TimeSpans(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN 303; without a group nothing is consumed."""

    group: str = ""
    topic: str


class GetConsumeStats(Header, frozen=True, kw_only=True):
    """GET_CONSUME_STATS 208: of all topics, of one, or of several joined by `;`."""

    consumer_group: str
    topic: str = ""
    topic_list: str = ""


class GetBrokerConsumeStats(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONSUME_STATS 317."""

    is_order: bool = False
    """Only topics whose order is global; false leaves nothing out."""


class ViewStats(Header, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA 315."""

    stats_name: str
    stats_key: str


class BrokerConfigAnswer(Header, frozen=True, kw_only=True):
    """The answer of GET_BROKER_CONFIG 26."""

    version: str
    """A data version as JSON."""


# Users and what they may do


class UserOnly(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_USER 3001 to AUTH_GET_USER 3004."""

    username: str = ""


class UserFilter(Header, frozen=True, kw_only=True):
    """AUTH_LIST_USER 3005."""

    filter: str | None = None
    """What the names contain."""


class SubjectOnly(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_ACL 3006, AUTH_UPDATE_ACL 3007 and AUTH_GET_ACL 3009."""

    subject: str | None = None
    """Such as `User:alice`."""


class DeleteAcl(Header, frozen=True, kw_only=True):
    """AUTH_DELETE_ACL 3008: without a resource everything of the subject."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class AclFilters(Header, frozen=True, kw_only=True):
    """AUTH_LIST_ACL 3010."""

    subject_filter: str | None = None
    resource_filter: str | None = None


# NameServer: routes and brokers


class GetRoute(Header, frozen=True, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC 105. Without a topic there is no route."""

    topic: str = ""
    accept_standard_json_only: bool = False
    zone_mode: bool = field(name="__ZONE_MODE", default=False)
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBroker(Header, frozen=True, kw_only=True):
    """REGISTER_BROKER 103."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str = ""
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    """Absent: a broker older than 5."""
    compressed: bool = False
    body_crc32: Int32 = 0
    """CRC-32 of the body as sent without its top bit; 0: unchecked."""
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBrokerAnswer(Header, frozen=True, kw_only=True):
    """What a slave learns of its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header, frozen=True, kw_only=True):
    """UNREGISTER_BROKER 104. A broker that is not named cannot leave."""

    broker_name: str = ""
    broker_addr: str = ""
    cluster_name: str = ""
    broker_id: Int64 | None = None


class BrokerHeartbeat(Header, frozen=True, kw_only=True):
    """BROKER_HEARTBEAT 904; what only controllers read is left out."""

    cluster_name: str
    broker_addr: str


class QueryDataVersion(Header, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION 322; the name and number that come along are not looked at."""

    broker_name: str = ""
    broker_addr: str
    cluster_name: str
    broker_id: Int64 | None = None


class QueryDataVersionAnswer(Header, frozen=True, kw_only=True):
    """Whether the broker must register."""

    changed: bool


class GetMembers(Header, frozen=True, kw_only=True):
    """GET_BROKER_MEMBER_GROUP 901."""

    cluster_name: str | None = None
    broker_name: str | None = None


class BrokerNameOnly(Header, frozen=True, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER 205, ADD_WRITE_PERM_OF_BROKER 327."""

    broker_name: str = ""


class WipeAnswer(Header, frozen=True, kw_only=True):
    """The answer of 205."""

    wipe_topic_count: Int32


class AddAnswer(Header, frozen=True, kw_only=True):
    """The answer of 327."""

    add_topic_count: Int32


class DeleteTopicInNames(Header, frozen=True, kw_only=True):
    """DELETE_TOPIC_IN_NAMESRV 216."""

    topic: str = ""
    cluster_name: str | None = None


class RegisterTopic(Header, frozen=True, kw_only=True):
    """REGISTER_TOPIC_IN_NAMESRV 217; without a topic nothing is registered."""

    topic: str | None = None


class ClusterOnly(Header, frozen=True, kw_only=True):
    """GET_TOPICS_BY_CLUSTER 224."""

    cluster: str = ""


# NameServer: key-value pairs


class KeyValue(Header, frozen=True, kw_only=True):
    """PUT_KV_CONFIG 100."""

    namespace: str
    key: str
    value: str | None = None


class Key(Header, frozen=True, kw_only=True):
    """GET_KV_CONFIG 101, DELETE_KV_CONFIG 102. Without a name nothing is found."""

    namespace: str | None = None
    key: str | None = None


class ValueAnswer(Header, frozen=True, kw_only=True):
    """The answer of 101."""

    value: str


class Namespace(Header, frozen=True, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE 219."""

    namespace: str | None = None


# Sets with failover


WHATEVER_IT_LACKS = -1


class AlterInSync(Header, frozen=True, kw_only=True):
    """CONTROLLER_ALTER_SYNC_STATE_SET 1001; `master_epoch` may be `WHATEVER_IT_LACKS`."""

    broker_name: str
    master_broker_id: Int64 = 0
    master_epoch: Int32 = 0
    invoke_time: Int64 = 0


class ElectMaster(Header, frozen=True, kw_only=True):
    """CONTROLLER_ELECT_MASTER 1002: `broker_id` says who is to be master, if that matters."""

    cluster_name: str = ""
    broker_name: str
    broker_id: Int64 | None = None
    designate_elect: bool = False
    invoke_time: Int64 = 0


class ElectMasterAnswer(Header, frozen=True, kw_only=True):
    """The answer of 1002: who is master when it is given."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ControllerAnswer(Header, frozen=True, kw_only=True):
    """The answer of CONTROLLER_GET_METADATA_INFO 1005: who answers questions about sets."""

    group: str
    controller_leader_id: str
    controller_leader_address: str
    is_leader: bool
    peers: str
