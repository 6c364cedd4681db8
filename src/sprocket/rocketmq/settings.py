"""Settings of the RocketMQ column. `Geometry` fixes the files of a store; the rest may change.

Each group is a frozen dataclass; a component is given its group and nothing else.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from sprocket.base.units import GIB, KIB, MIB
from sprocket.rocketmq.geometry import (
    CompactionGeometry,
    Geometry,
    IndexGeometry,
    LogGeometry,
    QueueGeometry,
)
from sprocket.runtime.settings import ClientLimits, EncryptionSettings, ListenSettings

FOUND_MESSAGES_MAX = 64
"""RocketMQ's default `maxMsgsNumBatch`."""

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's default `messageDelayLevel`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings(ListenSettings):
    """Where NameServer and broker listen, and what one connection may take."""

    nameserver_port: Annotated[int, Meta(ge=0, le=65535)] = 9876
    """Port of the NameServer; 0 is any free one."""
    broker_port: Annotated[int, Meta(ge=0, le=65535)] = 10911
    """Port of the broker; 0 is any free one."""
    vip_port: bool = True
    """Also listen on the broker's port minus 2, for clients that send to it (VIP channel) and for
    RocketMQ's tools. Not if the broker's port is 0."""
    frame_bytes_max: Annotated[int, Meta(ge=64 * KIB, le=GIB)] = 16 * MIB
    """Largest request; a connection that announces more is closed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitSettings(ClientLimits):
    """How much clients may ask for before they are told to wait, or are cut off."""

    unsynced_bytes_max: Annotated[int, Meta(ge=1)] = 256 * MIB
    """When more than this waits for a slow disk, sends are answered SYSTEM_BUSY, and their clients
    try another broker."""
    async_unsynced_bytes_max: Annotated[int, Meta(ge=0)] = 0
    """The same under async flush, where senders do not wait for the disk: bytes that are in the
    system's memory and not on the disk. 0 is a sixteenth of the memory that there is for
    this process, a GiB at most."""
    cold_reads_max: Annotated[int, Meta(ge=1)] = 10_000
    """So many requests may wait for reads from the disk; another one is answered SYSTEM_BUSY."""
    connection_unsynced_bytes_max: Annotated[int, Meta(ge=1)] = 4 * MIB
    """When half of the limit for unsynced bytes is reached, a connection that sent more than this
    since its last answer is not read until the disk has caught up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GrpcSettings:
    """The port of RocketMQ 5's SDKs, which speak gRPC; needs the extra `grpc`."""

    port: Annotated[int, Meta(ge=0, le=65535)] | Literal["auto", "off"] = "auto"
    """Port; 0 is any free one. `auto` is 8081 if the extra is installed and the broker has its
    usual port, 10911, otherwise `off`."""
    poll_ms_min: Annotated[int, Meta(ge=0, le=600_000)] = 5_000
    """How long a consumer waits at least that asks for messages while there are none;
    grpcClientConsumerMinLongPollingTimeoutMillis. Lower it for tests."""
    poll_ms_max: Annotated[int, Meta(ge=100, le=600_000)] = 20_000
    """How long it waits at most, which consumers are told;
    grpcClientConsumerMaxLongPollingTimeoutMillis."""
    invisible_ms_min: Annotated[int, Meta(ge=0, le=43_200_000)] = 10_000
    """For how long a message is at least a consumer's own, who has to acknowledge it within that
    time; minInvisibleTimeMillsForRecv. Lower it for tests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsSettings(EncryptionSettings):
    """Whether connections are encrypted; files are PEM, and read again when they change."""

    to_nameservers: bool = False
    """Encrypt the broker's own connections to NameServers; always under `enforcing`. With
    `trust_path` their certificates are checked, not their names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerSettings:
    """Who the broker is and whom it registers with."""

    name: Annotated[str, Meta(min_length=1, max_length=127)] = "broker-a"
    """Name of the broker; brokerName."""
    cluster: Annotated[str, Meta(min_length=1, max_length=127)] = "DefaultCluster"
    """Name of its cluster; brokerClusterName."""
    nameservers: tuple[str, ...] = ()
    """Further NameServers to register with, `host:port` each, besides the one in this process."""
    register_seconds: Annotated[int, Meta(ge=1, le=60)] = 30
    """How often the broker registers with each NameServer again; more often finds a restarted
    NameServer sooner."""


NAMESERVER_FOLDER = "namesrv"
"""What a NameServer keeps, in the folder of a store in the same process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NameServerSettings:
    """How long a NameServer believes in a broker, and what it answers."""

    broker_expiry_ms: Annotated[int, Meta(ge=1000)] = 120_000
    """A broker that has not registered for so long is removed from the routes, unless it announced
    another limit; one whose connection is lost, at once."""
    order_conf: bool = False
    """Answer routes with the order configuration of their topic, which producers then follow
    instead of the queues; orderMessageEnable."""
    order_conf_to_brokers: bool = True
    """Give brokers that register the order configuration of all topics;
    returnOrderTopicConfigToBroker."""
    acting_master: bool = False
    """Name the first slave in place of a master that is gone, if the brokers allow it;
    supportActingMaster."""
    forget_missing_topics: bool = False
    """Forget the topics that a broker does not name when it registers;
    deleteTopicWithBrokerRegistration."""
    list_all_topics: bool = True
    """Answer the list of all topics; enableAllTopicList."""
    list_topics: bool = True
    """Answer the lists of a cluster's and a unit's topics; enableTopicList."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSettings:
    """How topics come about, and what may be done with them."""

    permission: Literal[6, 4, 2, 0] = 6
    """What all topics here allow, brokerPermission: 4 is reading, 2 writing, 6 both. NameServers
    tell clients. A send in spite of it is refused only for topics with a fixed order, as in
    RocketMQ."""
    auto_create: bool = True
    """Make a topic at the first send to it; autoCreateTopicEnable. Off, a misspelt name is an error
    instead of a topic."""
    auto_create_queues: Annotated[int, Meta(ge=1, le=1024)] = 8
    """Most queues of such a topic (clients ask for 4); defaultTopicQueueNums. Used when the store
    is made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSettings:
    """How consumer groups come about."""

    auto_create: bool = True
    """Make a group when it is first used; autoCreateSubscriptionGroup."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DurabilitySettings:
    """When an append is acknowledged under sync flush."""

    sync_wait_ms_max: Annotated[float, Meta(ge=0, le=100)] = 1.0
    """How long the event loop waits for a sync at most; it does not wait at all while syncs take
    longer on average. A callback costs more than the sync of a quick disk. 0 is never."""
    sync_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    """A send whose sync takes longer is answered FLUSH_DISK_TIMEOUT: stored, but perhaps not on the
    disk; syncFlushTimeout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PullSettings:
    """What one pull may take, and how many may wait."""

    messages_max: Annotated[int, Meta(ge=1, le=8192)] = 1024
    """Most messages in one answer, if the client asks for so many. Small ones reach it before
    `bytes_max`; 1,000 keep the broker busy for half a millisecond."""
    bytes_max: Annotated[int, Meta(ge=1, le=8 * MIB)] = MIB
    """Most bytes in one answer; the first message is sent whatever its size."""
    sql_filters: bool = True
    """Let consumers choose messages by conditions on properties, which the broker evaluates for
    each message that they might get; enablePropertyFilter."""
    sql_retries: bool = False
    """Choose by such a condition also when a message comes again: the topic where a group's failed
    messages wait has those of all its topics; filterSupportRetry. Off, a consumer whose condition
    has changed gets some that it does not want any more."""
    sql_keep_ms: Annotated[int, Meta(ge=0)] = 24 * 3_600_000
    """How long the condition of a group is kept that has gone; filterDataCleanTimeSpan."""
    hold_count_max: Annotated[int, Meta(ge=0)] = 100_000
    """Most pulls that wait for messages; further ones are answered at once. One takes about 1
    KiB."""
    hold_ms_max: Annotated[int, Meta(ge=0, le=600_000)] = 29_000
    """Longest wait, whatever the client asks for; it must stay below the clients' time limit of 30
    s."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionSettings:
    """When producers are asked how their transactions ended."""

    enabled: bool = True
    """Take messages that belong to transactions; rejectTransactionMessage is the opposite."""
    check_interval_ms: Annotated[int, Meta(ge=10, le=3_600_000)] = 30_000
    """How often it is looked for transactions of which nobody has said how they ended;
    transactionCheckInterval."""
    timeout_ms: Annotated[int, Meta(ge=0)] = 6000
    """How old such a transaction is when its producers are asked first, unless its message says
    otherwise; transactionTimeOut."""
    check_count_max: Annotated[int, Meta(ge=1)] = 15
    """How often they are asked before it counts as rolled back; transactionCheckMax."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerSettings:
    """Messages that are to be delivered at a time."""

    enabled: bool = True
    """Take messages that say when they are to be delivered; those that wait already come in any
    case. timerWheelEnable."""
    recall: bool = True
    """Let producers take back messages that wait; recallMessageEnable, of which RocketMQ's default
    is false."""
    max_delay_seconds: Annotated[int, Meta(ge=1, le=100_000_000)] = 259_200
    """How far ahead they may say; timerMaxDelaySec."""
    precision_ms: Annotated[int, Meta(ge=10, le=60_000)] = 1000
    """What a slot of the wheel takes. Messages come at their millisecond whatever it is; it is to
    be that of the RocketMQ that goes on with the files. timerPrecisionMs."""
    roll_slots: Annotated[int, Meta(ge=3, le=604_800)] = 172_800
    """What waits longer than this many slots is stored again in between; timerRollWindowSlot. While
    messages wait, log files that have some are kept for so long at least."""
    slot_messages_max: Annotated[int, Meta(ge=1)] = 2**31 - 1
    """From this many messages in a slot on further ones are refused, the more often the more there
    are, and always from twice as many on; timerCongestNumEachSlot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionSettings:
    """How compaction topics come to keep the last message of each key only."""

    interval_ms: Annotated[int, Meta(ge=10, le=86_400_000)] = 900_000
    """How often it is looked for queues with files to compact; compactionScheduleInternal. RocketMQ
    adds up to as much again, by chance."""
    keys_bytes_max: Annotated[int, Meta(ge=2400, le=2 * GIB)] = 100 * MIB
    """Memory for the keys of one queue, 24 bytes each; one that has more new ones is compacted in
    several rounds. Up to three times as much is used for moments. maxOffsetMapSize."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberSettings:
    """How long a silent client counts as there."""

    expiry_ms: Annotated[int, Meta(ge=1000)] = 120_000
    """A client without a heartbeat for so long leaves its groups; channelExpiredTimeout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OffsetSettings:
    """How the offsets of consumer groups are kept."""

    flush_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    """How often committed offsets are made durable in consumerOffset.json. A killed process loses
    none. A power failure may take those of this interval, and consumers get some messages again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSettings:
    """How a store keeps messages."""

    flush: Literal["sync", "async"] = "sync"
    """When a message counts as stored: `sync` when it is on the disk, `async` when the operating
    system has it (a power failure may lose the last moments)."""
    flush_interval_ms: Annotated[int, Meta(ge=10, le=60_000)] = 500
    """Async flush: how often it is checked whether a sync is due; flushIntervalCommitLog."""
    flush_bytes_min: Annotated[int, Meta(ge=0, le=GIB)] = 16 * KIB
    """Async flush: a sync is due when so much was written since the last one;
    flushCommitLogLeastPages, of 4 KiB each."""
    flush_thorough_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000
    """Async flush: so long after the last sync, a sync is due if anything was written. A power
    failure takes nothing older. flushCommitLogThoroughInterval."""
    crc_tail: bool = True
    """Append a checksum over the whole record, not only its body; costs 20 bytes and about 0.3 µs a
    message. RocketMQ's enabledAppendPropCRC."""
    message_bytes_max: Annotated[int, Meta(ge=1, le=GIB)] = 4 * MIB
    """Largest body; RocketMQ's maxMessageSize."""
    fill_ahead_bytes: Annotated[int, Meta(ge=0, le=GIB)] = 64 * MIB
    """How far the log is filled with zeros ahead of the writer, so that a sync need not write
    metadata; under async flush space is only allocated there, which makes writes cheaper. Takes
    that much disk space. 0 is off."""
    cached_bytes: Annotated[int, Meta(ge=0)] = 64 * MIB
    """How much of the log's newest part stays in the system's page cache, besides what consumers
    will soon read. What is older is dropped once it is synced, so that other programs have the
    memory; to read it again takes the disk. 0 leaves all to the system, as RocketMQ does."""
    index_messages: bool = True
    """Keep the key index, which queries by key need; messageIndexEnable."""
    found_messages_max: Annotated[int, Meta(ge=1, le=1024)] = FOUND_MESSAGES_MAX
    """Most messages that a query by key gives, the newest, whatever a client asks for; RocketMQ's
    maxMsgsNumBatch."""
    extended_units: bool = False
    """Keep store time and filter bits of each message beside its queue unit, in 20 to 34 bytes
    more; enableConsumeQueueExt. A store that has some continues with them."""
    filter_bits: bool = False
    """Try each message on the conditions of all groups when it gets its unit, so that their pulls
    do not read what does not pass; enableCalcFilterBitMap. Only with `extended_units`. Takes 10 µs
    a message in topics with conditions, and pays where groups read much that does not pass, above
    all from the disk."""
    filter_bits_groups: Annotated[int, Meta(ge=1, le=1000)] = 32
    """For so many groups of a topic there are bits; if it has more, their pulls read all messages;
    expectConsumerNumUseFilter."""
    filter_bits_error_percent: Annotated[int, Meta(ge=1, le=99)] = 20
    """So many of 100 messages may be read in vain, if there are so many groups; fewer take more
    bits; maxErrorRateOfBloomFilter."""
    light_queues: bool = False
    """Also put messages into the light queues that they name; enableLmq and enableMultiDispatch.
    Any producer can make as many as it likes."""
    compact: bool = True
    """Keep the last message of each key of compaction topics apart from the log, which may then go;
    off, they are like other topics. enableCompaction."""
    delay_levels: Annotated[str, Meta(min_length=2)] = DELAY_LEVELS
    """How long the messages of each delay level wait, level 1 first; messageDelayLevel. A message
    that waits already keeps its time, unless that is more than the level's new wait ahead: then it
    is delivered at once."""
    bytes_in_memory: Annotated[int, Meta(ge=0)] = 0
    """Messages within so many bytes of the log's end count as in memory; of older ones an answer
    has 8 or 64 KiB at most. 0 is 40 % of the memory that there is for this process;
    accessMessageInMemoryMaxRatio. A slave takes three quarters of it, so that readers do not go to
    and fro between it and its master."""

    @classmethod
    def small(cls) -> "StoreSettings":
        """Return limits that fit the small geometry."""
        return cls(message_bytes_max=2 * KIB, fill_ahead_bytes=2 * KIB)


Hour: TypeAlias = Annotated[int, Meta(ge=0, le=23)]
"""An hour of the day on the machine's clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionSettings:
    """How long messages are kept, and what happens when the disk fills."""

    keep_hours: Annotated[int, Meta(ge=0, le=876_000)] = 72
    """A log file to which nothing was written for so long is expired; fileReservedTime."""
    clean_hours: Annotated[tuple[Hour, ...], Meta(max_length=24)] = (4,)
    """Hours of the day, local time, in which expired files are deleted; deleteWhen."""
    round_files_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Most log files deleted in one round; there is a round every 10 s; deleteFileBatchMax."""
    clean_percent: Annotated[int, Meta(ge=1, le=100)] = 75
    """While more of the disk's space is used, expired files are deleted at any hour; between 10 and
    95. diskMaxUsedSpaceRatio."""
    force: bool = True
    """Delete the oldest files, expired or not, while more than `force_percent` of the disk's space
    is used: messages may be lost that nobody has read. If off, the disk fills and appends are
    refused. cleanFileForciblyEnable."""
    force_percent: Annotated[int, Meta(ge=1, le=100)] = 85
    """See `force`; between 30 and 85. Appends that were refused are accepted again when no more
    than this is used. diskSpaceCleanForciblyRatio."""
    refuse_percent: Annotated[int, Meta(ge=1, le=100)] = 90
    """While more of the disk's space is used, appends are refused; between 35 and 90.
    diskSpaceWarningLevelRatio."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationSettings:
    """Whether other machines have the same log, and when a message counts as stored there."""

    role: Literal["async_master", "sync_master", "slave"] = "async_master"
    """What this broker is: one whose senders wait for nobody else, one whose senders wait until
    `ack_count` machines have their messages, or one that has what its master has;
    brokerRole."""
    broker_id: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Number of this machine among those of its `broker.name`: 0 is the master, each slave has
    another one; brokerId."""
    slaves: bool = False
    """Let slaves come. Whoever reaches the port gets every message: nobody has to sign in there, as
    in RocketMQ. A `sync_master` does so in any case."""
    slave_count_max: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Most slaves at a time; who comes when there are so many is cut off."""
    networks: tuple[str, ...] = ()
    """Addresses and networks from which slaves may come, such as 10.1.0.0/16; without any, from
    everywhere. A broker that has rights lets none come without."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Where a master waits for slaves; 0 is the broker's port plus 1. haListenPort."""
    master_address: str = ""
    """Where the master of a slave waits for it, `host:port`; empty: the NameServers know.
    haMasterAddress."""
    ack_count: Annotated[int, Meta(ge=1, le=9)] = 2
    """So many machines, the master among them, have a message when it is acknowledged by a
    `sync_master`; inSyncReplicas. RocketMQ's default is 1, which waits for nobody."""
    all_in_sync: bool = False
    """All slaves that follow closely must have it, and `ack_count` at least;
    allAckInSyncStateSet."""
    in_sync_count_min: Annotated[int, Meta(ge=1, le=9)] = 1
    """A `sync_master` refuses sends while fewer machines, itself among them, follow closely;
    minInSyncReplicas. With 1 they are stored, and answered SLAVE_NOT_AVAILABLE."""
    gap_bytes_max: Annotated[int, Meta(ge=0)] = 256 * MIB
    """A slave that lacks more of the log does not follow closely, and nobody waits for it;
    haMaxGapNotInSync."""
    ack_timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = 3000
    """A send for which slaves take longer is answered FLUSH_SLAVE_TIMEOUT: stored, but perhaps here
    alone; slaveTimeout."""
    slave_reads: bool = True
    """A slave serves consumers, and a master that has one sends those to it who read far behind the
    end of the log; slaveReadEnable, of which RocketMQ's default is false."""
    ack: Literal["disk", "memory"] = "disk"
    """What a slave tells its master that it has: what is on its disk, or what its operating system
    has, as in RocketMQ."""
    part_bytes: Annotated[int, Meta(ge=512, le=4 * MIB)] = 32 * KIB
    """Most bytes of the log that a slave is sent as one; haTransferBatchSize."""
    bytes_per_second_max: Annotated[int, Meta(ge=0)] = 0
    """What each slave is sent in a second at most, also of what is new; 0 sets no limit.
    maxHaTransferByteInSecond, if haFlowControlEnable is true."""
    heartbeat_ms: Annotated[int, Meta(ge=10, le=600_000)] = 5000
    """How often master and slave say something to each other if nothing is new;
    haSendHeartbeatInterval."""
    silence_ms_max: Annotated[int, Meta(ge=20, le=3_600_000)] = 20_000
    """A connection on which the other one has said nothing for so long is closed;
    haHousekeepingInterval."""

    @property
    def is_slave(self) -> bool:
        """Whether this broker has a master."""
        return self.role == "slave"

    @property
    def takes_slaves(self) -> bool:
        """Whether this broker waits for slaves."""
        return not self.is_slave and (self.slaves or self.role == "sync_master")

    @property
    def heartbeat_seconds(self) -> float:
        """See `heartbeat_ms`."""
        return self.heartbeat_ms / 1000

    @property
    def silence_seconds(self) -> float:
        """See `silence_ms_max`."""
        return self.silence_ms_max / 1000

    @property
    def acks_needed(self) -> int:
        """How many slaves must have a message before it is acknowledged."""
        return self.ack_count - 1 if self.role == "sync_master" else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FailoverSettings:
    """Who decides which broker of a set is master; then no setting gives this one its role."""

    decider: str = ""
    """What decides: `etcd://` and the addresses of its members, such as
    `etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379`; `operator`: nobody but you, by
    `sprocket ha promote`; empty: nothing, `replication.role` holds."""
    others: tuple[str, ...] = ()
    """Of a set that an operator decides about: where the brokers of the other members are,
    `host:port` each."""
    set_name: Annotated[str, Meta(max_length=127, pattern="^[^/]*$")] = ""
    """Name of the set in its cluster; empty: that of the broker, which all members share."""
    member_id: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Number of this member, from 1, different for each: its number (brokerId) while it is a
    slave. Needed with a decider."""
    ttl_seconds: Annotated[int, Meta(ge=2, le=60)] = 5
    """A master that was not heard for so long is replaced; senders wait about a second longer. With
    less, a short trouble of the network or of etcd changes the master."""
    renewal_ms: Annotated[int, Meta(ge=50, le=10_000)] = 500
    """How often the master says that it is there."""
    timeout_ms: Annotated[int, Meta(ge=50, le=10_000)] = 400
    """How long etcd may take for an answer; then another member of it is asked."""
    silence_ms_max: Annotated[int, Meta(ge=1000, le=600_000)] = 10_000
    """A slave that gets no further for so long is not waited for any more, and can not become
    master until it has caught up."""
    trust_path: str = ""
    """Certificates (PEM) of the authorities that signed those of etcd's members; with one,
    connections to etcd are encrypted, and the names of its members are checked."""
    cert_path: str = ""
    """The certificate that etcd is shown, if it asks for one."""
    key_path: str = ""
    """The key of that certificate."""
    key_password: str = ""
    """Of the key, if it is encrypted; better set by the environment."""
    user: str = ""
    """Who etcd is asked as, if it wants to know."""
    password: str = ""
    """Of that user; better set by the environment, or in a file, see `password_path`."""
    password_path: str = ""
    """A file with the password and nothing else."""


RequestNumber: TypeAlias = Annotated[int, Meta(ge=0)]
"""A request code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RightsSettings:
    """Who may use the broker over RocketMQ's protocol, and for what."""

    authentication: bool = False
    """Refuse every request that no user has signed with their password; authenticationEnabled.
    Users are kept in a RocksDB, which takes the extra `rocksdb`."""
    authorization: bool = False
    """Refuse every request that no policy of its user allows; authorizationEnabled. Needs
    `authentication`."""
    initial_user: str = ""
    """Somebody who may do everything, made at a start that finds no user of this name;
    initAuthenticationUser, with `initial_password`."""
    initial_password: str = ""
    """The password of the initial user. It is only looked at when the user is made."""
    inner_user: str = ""
    """Another one, as whom brokers and tools sign what they ask of this broker;
    innerClientAuthenticationCredentials, with `inner_password`."""
    inner_password: str = ""
    """The password of the inner user."""
    migrate_path: str = ""
    """Rules of RocketMQ 4, a `plain_acl.yml` or the folder `conf` with it: each start makes the
    users of it that are not there yet, with what they may do. Takes the extra `yaml`;
    migrateAuthFromV1Enabled."""
    rules_path: str = ""
    """Rules of RocketMQ 4 that hold as they are, a `plain_acl.yml` or the folder `conf` with it,
    instead of `authentication` and `authorization`. They are read again every second. Takes the
    extra `yaml`; aclEnable."""
    unsigned_codes: tuple[RequestNumber, ...] = ()
    """Requests that need no signature, by their codes; authenticationWhitelist. Such a request is
    from nobody: to be served it must be in `unchecked_codes` as well, under `authorization`."""
    unchecked_codes: tuple[RequestNumber, ...] = ()
    """Requests that need no policy, by their codes; authorizationWhitelist."""

    @property
    def is_guarded(self) -> bool:
        """Whether requests are checked."""
        return self.authentication or self.authorization or bool(self.rules_path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything that `sprocket up` can be told."""

    server: ServerSettings = field(default_factory=ServerSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    grpc: GrpcSettings = field(default_factory=GrpcSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    nameserver: NameServerSettings = field(default_factory=NameServerSettings)
    topics: TopicSettings = field(default_factory=TopicSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    durability: DurabilitySettings = field(default_factory=DurabilitySettings)
    pull: PullSettings = field(default_factory=PullSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    timers: TimerSettings = field(default_factory=TimerSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    members: MemberSettings = field(default_factory=MemberSettings)
    offsets: OffsetSettings = field(default_factory=OffsetSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    rights: RightsSettings = field(default_factory=RightsSettings)
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)
    ha: FailoverSettings = field(default_factory=FailoverSettings)
    log: LogGeometry = field(default_factory=LogGeometry)
    queue: QueueGeometry = field(default_factory=QueueGeometry)
    index: IndexGeometry = field(default_factory=IndexGeometry)
    compaction_files: CompactionGeometry = field(default_factory=CompactionGeometry)

    @property
    def geometry(self) -> Geometry:
        """The groups that fix the files of a store made with these settings."""
        return Geometry(
            log=self.log, queue=self.queue, index=self.index, compaction=self.compaction_files
        )

    @property
    def lets_slaves_in(self) -> bool:
        """Whether slaves may come; not from anywhere where all others must sign."""
        own = self.replication
        return own.takes_slaves and (bool(own.networks) or not self.rights.is_guarded)
