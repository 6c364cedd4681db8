"""RocketMQ's names of settings and ours, in one table for both directions.

A broker.conf or namesrv.conf becomes values of our settings, and tools see our settings under
RocketMQ's names. Units differ: each row says how a text becomes our value and back.

A name that RocketMQ does not know either is an error that suggests the nearest. A setting that we
do not have is ignored with a warning, and so are a few names that are in use although nothing reads
them. It is an error if ignoring a value would break its promise (who may connect, where the data
is, how often it is kept).
"""

import fnmatch
import ipaddress
import os
import os.path
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.base.settings import ForeignSettings
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq import absent_settings
from sprocket.rocketmq.geometry import BATCH_UNIT_BYTES, QUEUE_UNIT_BYTES
from sprocket.rocketmq.settings import Settings

PAGE_BYTES = 4 * KIB
"""What RocketMQ counts as a page, whatever the machine's are."""
REGISTER_MS_MIN, REGISTER_MS_MAX = 10_000, 60_000
"""RocketMQ keeps its period between these."""

SQL_FILTERS = "enablePropertyFilter"
OFF_BY_DEFAULT = {
    SQL_FILTERS: "pull.sql_filters",
    "recallMessageEnable": "timers.recall",
    "slaveReadEnable": "replication.slave_reads",
}
"""What is off with a broker.conf, unless that says otherwise; ours are on."""

EVERYWHERE = "0.0.0.0"  # noqa: S104 - RocketMQ's default, taken only with an address to advertise


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """One setting under both names."""

    name: str
    """RocketMQ's."""
    setting: str
    """Ours, `group.name`."""
    read: Callable[[str], object]
    """Our value of RocketMQ's text; ValueError says what was expected."""
    write: Callable[[Any], str]
    """RocketMQ's text of our value."""


def read_broker_conf(text: bytes | str, source: str) -> ForeignSettings:
    """Return what a broker.conf says.

    Args:
        text: A Java properties text.
        source: What errors call it.

    Raises:
        SettingsError: A name that RocketMQ does not have, a value that cannot be read, or
            one that asks for what is not built.
    """
    given = _read(text)
    for name, allowed, why in _DEMANDS:
        if name in given and given[name].strip().lower() not in allowed:
            raise SettingsError(f"{source}: {name}={given[name]}: {why}")
    folder = given.get("storePathRootDir")
    log = given.get("storePathCommitLog")
    if log is not None and (
        folder is None or os.path.normpath(log) != os.path.normpath(f"{folder}/commitlog")
    ):
        raise SettingsError(
            f"{source}: storePathCommitLog={log}: the log lies in `commitlog` below "
            "storePathRootDir and nowhere else"
        )
    unread = absent_settings.BROKER_UNREAD & given.keys()
    read = {name: text for name, text in given.items() if name not in unread}
    values, ignored = _interpret(read, source, BROKER | RIGHTS, BROKER_NAMES, TAKEN_CARE_OF)
    values += _users(given, source)
    for name, setting in _OLD_RULES.items():
        if given.get(name, "").strip().lower() == "true":
            values.append((setting, _old_rules(name, given, source), f"{source} ({name})"))
    _refuse_providers(given, source)
    if _takes_slaves(given):
        values.append(("replication.slaves", True, f"{source} (brokerRole)"))
    values += _flow_control(given, source)
    for name, setting in OFF_BY_DEFAULT.items():
        if name not in given:
            values.append((setting, False, f"{source} (default of {name})"))
    host = given.get("brokerIP1", "").strip()
    if "bindAddress" not in given and host and not _is_loopback(host):
        values.append(("server.host", EVERYWHERE, f"{source} (brokerIP1)"))
    ignored = tuple(sorted([*ignored, *unread]))
    return ForeignSettings(values=values, folder=folder, ignored=ignored)


def read_nameserver_conf(text: bytes | str, source: str) -> ForeignSettings:
    """Return what a namesrv.conf says; arguments and errors as for `read_broker_conf`."""
    given = _read(text)
    values, ignored = _interpret(given, source, NAMESERVER, NAMESERVER_NAMES, frozenset())
    return ForeignSettings(values=values, ignored=ignored)


def to_broker_conf(settings: Settings, *, folder: str = "") -> dict[str, str]:
    """Return the settings in RocketMQ's words, as GET_BROKER_CONFIG 26 answers them.

    Args:
        settings: All groups.
        folder: Of the store; left out if empty.
    """
    texts = dict(absent_settings.BROKER)
    texts |= {one.name: one.write(_value(settings, one.setting)) for one in BROKER.values()}
    texts["brokerIP1"] = texts["brokerIP1"] or settings.server.host
    texts["brokerIP2"] = texts["brokerIP1"]
    texts["enableMultiDispatch"] = texts["enableLmq"]
    texts[_KEEP_RULES] = str(bool(settings.rights.rules_path)).lower()
    texts |= _flow_control_texts(settings)
    texts["bitMapLengthConsumeQueueExt"] = str(_bit_map_bits(settings))
    if not texts[_MASTER]:
        del texts[_MASTER]  # has no value there
    if folder:
        texts |= {"storePathRootDir": folder, "storePathCommitLog": f"{folder}/commitlog"}
        texts["rocketmqHome"] = folder
    return dict(sorted(texts.items()))


def to_nameserver_conf(settings: Settings) -> dict[str, str]:
    """Return the settings in RocketMQ's words, as GET_NAMESRV_CONFIG 319 answers them.

    Where its files lie is not told.
    """
    texts = dict(absent_settings.NAMESERVER)
    texts |= {one.name: one.write(_value(settings, one.setting)) for one in NAMESERVER.values()}
    return dict(sorted(texts.items()))


def _bit_map_bits(settings: Settings) -> int:
    from sprocket.rocketmq.codec.bloom import Bloom

    store = settings.store
    return Bloom.of(store.filter_bits_error_percent, store.filter_bits_groups).bits


# Rights.


def _users(given: Mapping[str, str], source: str) -> list[tuple[str, object, str]]:
    """Return what a broker.conf says of users who are made at the start."""
    values: list[tuple[str, object, str]] = []
    for setting, (name, password, ours) in _USERS.items():
        text = given.get(setting, "").strip()
        if not text:
            continue
        try:
            found = msgspec.json.decode(text, type=dict[str, str])
        except ValueError:
            found = {}
        if not found.get(name) or not found.get(password):
            # The text is not told: it has a password.
            raise SettingsError(
                f'{source}: {setting} is not {{"{name}":"…","{password}":"…"}}, in JSON'
            )
        values.append((f"{ours}_user", found[name], f"{source} ({setting})"))
        values.append((f"{ours}_password", found[password], f"{source} ({setting})"))
    return values


def _old_rules(name: str, given: Mapping[str, str], source: str) -> str:
    """Return the folder in which RocketMQ looks for the rules of its version 4."""
    home = given.get("rocketmqHome", "").strip() or os.environ.get("ROCKETMQ_HOME", "")
    if not home:
        raise SettingsError(
            f"{source}: {name}=true: the rules lie in `conf` below rocketmqHome or "
            f"ROCKETMQ_HOME, and neither is there; {_OLD_RULES[name]} names them too"
        )
    return f"{home}/conf"


def _refuse_providers(given: Mapping[str, str], source: str) -> None:
    """Refuse classes that would decide otherwise than it is done here."""
    for setting, known in _PROVIDERS.items():
        name = given.get(setting, "").strip()
        if name and not fnmatch.fnmatchcase(name, f"{_AUTH}.{known}"):
            raise SettingsError(
                f"{source}: {setting}={name}: only RocketMQ's own, {_AUTH}.{known}, is there"
            )


def _takes_slaves(given: Mapping[str, str]) -> bool:
    """Tell whether a master waits for slaves.

    RocketMQ's does always. Whoever says nothing of them has none, and a port at which anybody gets
    everything would only be open.
    """
    role = given.get("brokerRole", "ASYNC_MASTER").strip().upper()
    return role != "SLAVE" and ("brokerRole" in given or "haListenPort" in given)


_RATE, _RATE_BYTES = "maxHaTransferByteInSecond", 100 * MIB
"""How much a slave is sent in a second, and the default; heeded if `_RATE_SWITCH` is true."""
_RATE_SWITCH = "haFlowControlEnable"


def _flow_control(given: Mapping[str, str], source: str) -> list[tuple[str, object, str]]:
    """Return how much slaves are sent in a second, if that has a limit."""
    if given.get(_RATE_SWITCH, "").strip().lower() != "true":
        return []
    try:
        rate = _number(given.get(_RATE, str(_RATE_BYTES)))
    except ValueError as error:
        raise SettingsError(f"{source}: {_RATE}={given[_RATE]}: {error}") from None
    return [("replication.bytes_per_second_max", rate, f"{source} ({_RATE_SWITCH})")]


def _flow_control_texts(settings: Settings) -> dict[str, str]:
    rate = settings.replication.bytes_per_second_max
    return {_RATE_SWITCH: _boolean_text(bool(rate)), _RATE: str(rate or _RATE_BYTES)}


# How texts become values and back.


def _read(text: bytes | str) -> Mapping[str, str]:
    # Whoever only asks for settings does not pay for the codec.
    from sprocket.rocketmq.codec.config import java_properties

    return java_properties.read(text)


def _number(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("expected a whole number") from None


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("expected true or false")
    return word == "true"


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


def _hours(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(";") if part.strip())


def _hours_text(hours: tuple[int, ...]) -> str:
    return ";".join(f"{hour:02}" for hour in hours)


def _addresses(text: str) -> tuple[str, ...]:
    if "," in text:
        raise ValueError("expected host:port, or several joined by ';': use ; instead of commas")
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _request_codes(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(",") if part.strip())


def _request_codes_text(codes: tuple[int, ...]) -> str:
    return ",".join(map(str, codes))


def _register_seconds(text: str) -> int:
    return -(-min(max(_number(text), REGISTER_MS_MIN), REGISTER_MS_MAX) // 1000)


def _one_of(words: Mapping[str, str]) -> Callable[[str], str]:
    """Return what reads one of RocketMQ's words, in any case."""
    by_name = {name.lower(): ours for name, ours in words.items()}

    def read(text: str) -> str:
        ours = by_name.get(text.strip().lower())
        if ours is None:
            raise ValueError(f"expected {' or '.join(words)}")
        return ours

    return read


_MASTER = "haMasterAddress"


def _text(name: str, setting: str) -> Alias:
    return Alias(name=name, setting=setting, read=str.strip, write=str)


def _plain(name: str, setting: str) -> Alias:
    """A number in the same unit on both sides."""
    return Alias(name=name, setting=setting, read=_number, write=str)


def _switch(name: str, setting: str) -> Alias:
    return Alias(name=name, setting=setting, read=_boolean, write=_boolean_text)


def _counted(name: str, setting: str, unit_bytes: int) -> Alias:
    """A file's bytes there, its units here; RocketMQ rounds up to a whole unit too."""
    return Alias(
        name=name,
        setting=setting,
        read=lambda text: -(-_number(text) // unit_bytes),
        write=lambda count: str(count * unit_bytes),
    )


def _word(name: str, setting: str, words: Mapping[str, str]) -> Alias:
    """One of a few words."""
    by_ours = {ours: theirs for theirs, ours in words.items()}
    return Alias(name=name, setting=setting, read=_one_of(words), write=lambda ours: by_ours[ours])


def _table(*rows: Alias) -> dict[str, Alias]:
    return {row.name: row for row in rows}


_CONNECTIONS = (
    _text("bindAddress", "server.host"),
    _plain("serverChannelMaxIdleTimeSeconds", "server.idle_close_seconds"),
)

BROKER = _table(
    *_CONNECTIONS,
    _plain("listenPort", "server.broker_port"),
    _text("brokerIP1", "server.advertised_host"),
    _text("brokerName", "broker.name"),
    _text("brokerClusterName", "broker.cluster"),
    Alias(
        name="namesrvAddr",
        setting="broker.nameservers",
        read=_addresses,
        write=lambda addresses: ";".join(addresses),
    ),
    _switch("useTLS", "tls.to_nameservers"),
    Alias(
        name="registerNameServerPeriod",
        setting="broker.register_seconds",
        read=_register_seconds,
        write=lambda seconds: str(seconds * 1000),
    ),
    _plain("brokerPermission", "topics.permission"),
    _switch("autoCreateTopicEnable", "topics.auto_create"),
    _plain("defaultTopicQueueNums", "topics.auto_create_queues"),
    _switch("autoCreateSubscriptionGroup", "groups.auto_create"),
    _plain("syncFlushTimeout", "durability.sync_timeout_ms"),
    _plain("maxTransferCountOnMessageInMemory", "pull.messages_max"),
    _plain("maxTransferBytesOnMessageInMemory", "pull.bytes_max"),
    Alias(
        name="rejectTransactionMessage",
        setting="transactions.enabled",
        read=lambda text: not _boolean(text),
        write=lambda is_enabled: _boolean_text(not is_enabled),
    ),
    _plain("transactionCheckInterval", "transactions.check_interval_ms"),
    _plain("transactionTimeOut", "transactions.timeout_ms"),
    _plain("transactionCheckMax", "transactions.check_count_max"),
    _switch("timerWheelEnable", "timers.enabled"),
    _switch("recallMessageEnable", "timers.recall"),
    _plain("timerMaxDelaySec", "timers.max_delay_seconds"),
    _plain("timerPrecisionMs", "timers.precision_ms"),
    _plain("timerRollWindowSlot", "timers.roll_slots"),
    _plain("timerCongestNumEachSlot", "timers.slot_messages_max"),
    _plain("channelExpiredTimeout", "members.expiry_ms"),
    _plain("flushConsumerOffsetInterval", "offsets.flush_ms"),
    _word("flushDiskType", "store.flush", {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}),
    _plain("flushIntervalCommitLog", "store.flush_interval_ms"),
    Alias(
        name="flushCommitLogLeastPages",
        setting="store.flush_bytes_min",
        read=lambda text: _number(text) * PAGE_BYTES,
        write=lambda size: str(-(-size // PAGE_BYTES)),
    ),
    _plain("flushCommitLogThoroughInterval", "store.flush_thorough_ms"),
    _switch("enabledAppendPropCRC", "store.crc_tail"),
    _plain("maxMessageSize", "store.message_bytes_max"),
    _switch("messageIndexEnable", "store.index_messages"),
    _plain("maxMsgsNumBatch", "store.found_messages_max"),
    _switch(SQL_FILTERS, "pull.sql_filters"),
    _switch("filterSupportRetry", "pull.sql_retries"),
    _plain("filterDataCleanTimeSpan", "pull.sql_keep_ms"),
    _switch("enableConsumeQueueExt", "store.extended_units"),
    _switch("enableCalcFilterBitMap", "store.filter_bits"),
    _plain("expectConsumerNumUseFilter", "store.filter_bits_groups"),
    _plain("maxErrorRateOfBloomFilter", "store.filter_bits_error_percent"),
    _switch("enableLmq", "store.light_queues"),
    _switch("enableCompaction", "store.compact"),
    _plain("compactionScheduleInternal", "compaction.interval_ms"),
    _plain("maxOffsetMapSize", "compaction.keys_bytes_max"),
    _plain("compactionMappedFileSize", "compaction_files.log_bytes"),
    _plain("compactionCqMappedFileSize", "compaction_files.units_bytes"),
    _text("messageDelayLevel", "store.delay_levels"),
    _plain("fileReservedTime", "retention.keep_hours"),
    Alias(name="deleteWhen", setting="retention.clean_hours", read=_hours, write=_hours_text),
    _plain("deleteFileBatchMax", "retention.round_files_max"),
    _plain("diskMaxUsedSpaceRatio", "retention.clean_percent"),
    _switch("cleanFileForciblyEnable", "retention.force"),
    _plain("diskSpaceCleanForciblyRatio", "retention.force_percent"),
    _plain("diskSpaceWarningLevelRatio", "retention.refuse_percent"),
    _plain("mappedFileSizeCommitLog", "log.segment_bytes"),
    _word("storeType", "queue.engine", {"default": "files", "defaultRocksDB": "rocksdb"}),
    _counted("mappedFileSizeConsumeQueue", "queue.units_per_file", QUEUE_UNIT_BYTES),
    _counted("mapperFileSizeBatchConsumeQueue", "queue.batch_units_per_file", BATCH_UNIT_BYTES),
    _plain("mappedFileSizeConsumeQueueExt", "queue.extension_bytes"),
    _plain("maxHashSlotNum", "index.slots"),
    _plain("maxIndexNum", "index.units"),
    _word(
        "brokerRole",
        "replication.role",
        {"ASYNC_MASTER": "async_master", "SYNC_MASTER": "sync_master", "SLAVE": "slave"},
    ),
    _plain("brokerId", "replication.broker_id"),
    _plain("haListenPort", "replication.port"),
    _text(_MASTER, "replication.master_address"),
    _plain("inSyncReplicas", "replication.ack_count"),
    _plain("minInSyncReplicas", "replication.in_sync_count_min"),
    _switch("allAckInSyncStateSet", "replication.all_in_sync"),
    _switch("slaveReadEnable", "replication.slave_reads"),
    _plain("haMaxGapNotInSync", "replication.gap_bytes_max"),
    _plain("slaveTimeout", "replication.ack_timeout_ms"),
    _plain("haTransferBatchSize", "replication.part_bytes"),
    _plain("haSendHeartbeatInterval", "replication.heartbeat_ms"),
    _plain("haHousekeepingInterval", "replication.silence_ms_max"),
)

RIGHTS = _table(
    _switch("authenticationEnabled", "rights.authentication"),
    _switch("authorizationEnabled", "rights.authorization"),
    Alias(
        name="authenticationWhitelist",
        setting="rights.unsigned_codes",
        read=_request_codes,
        write=_request_codes_text,
    ),
    Alias(
        name="authorizationWhitelist",
        setting="rights.unchecked_codes",
        read=_request_codes,
        write=_request_codes_text,
    ),
)
"""What a broker.conf may say of rights. A broker tells nobody, as in RocketMQ."""

_KEEP_RULES = "aclEnable"
_OLD_RULES = {
    "migrateAuthFromV1Enabled": "rights.migrate_path",
    _KEEP_RULES: "rights.rules_path",
}
"""What is done with the rules of RocketMQ 4 if it is true, and our setting that says where they
are."""

_USERS = {
    "initAuthenticationUser": ("username", "password", "rights.initial"),
    "innerClientAuthenticationCredentials": ("accessKey", "secretKey", "rights.inner"),
}
"""Settings that are a user as JSON: its members for name and password, and how ours begin."""

NAMESERVER = _table(
    *_CONNECTIONS,
    _plain("listenPort", "server.nameserver_port"),
    _switch("orderMessageEnable", "nameserver.order_conf"),
    _switch("returnOrderTopicConfigToBroker", "nameserver.order_conf_to_brokers"),
    _switch("supportActingMaster", "nameserver.acting_master"),
    _switch("deleteTopicWithBrokerRegistration", "nameserver.forget_missing_topics"),
    _switch("enableAllTopicList", "nameserver.list_all_topics"),
    _switch("enableTopicList", "nameserver.list_topics"),
)

_AUTH = "org.apache.rocketmq.auth"
_PROVIDERS = {
    "authenticationProvider": "authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": "authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "authorization.provider.LocalAuthorizationMetadataProvider",
    "authenticationStrategy": "authentication.strategy.*",
    "authorizationStrategy": "authorization.strategy.*",
}
"""Settings that name a class, and that of RocketMQ which does what is done here. Its strategies
look at each request, or once a minute at a connection; here it is each request."""

BROKER_NAMES = (
    (absent_settings.BROKER.keys() - absent_settings.BROKER_UNREAD)
    | absent_settings.BROKER_UNTOLD
    | BROKER.keys()
    | RIGHTS.keys()
    | _USERS.keys()
    | _PROVIDERS.keys()
)
"""What RocketMQ reads from a broker.conf."""

NAMESERVER_NAMES = (
    absent_settings.NAMESERVER.keys() | absent_settings.NAMESERVER_UNTOLD | NAMESERVER.keys()
)
"""What RocketMQ reads from a namesrv.conf."""

_NO_SWITCH = "who is master is decided by brokerRole, and does not change by itself"
_NO_CLOSED_PULLS = "consumers that pull by themselves cannot be kept out, but for single groups"
_DEMANDS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("enableDLegerCommitLog", frozenset({"false"}), _NO_SWITCH),
    ("enableControllerMode", frozenset({"false"}), _NO_SWITCH),
    ("enableSlaveActingMaster", frozenset({"false"}), _NO_SWITCH),
    ("totalReplicas", frozenset({"1"}), f"only 1; {_NO_SWITCH}"),
    ("rejectPullConsumerEnable", frozenset({"false"}), _NO_CLOSED_PULLS),
    ("litePullMessageEnable", frozenset({"true"}), _NO_CLOSED_PULLS),
)
"""Name, the values that can be had (in lower case), and why no others."""

TAKEN_CARE_OF = frozenset(
    {name for name, _, _ in _DEMANDS}
    | _USERS.keys()
    | _PROVIDERS.keys()
    | _OLD_RULES.keys()
    | {"storePathRootDir", "storePathCommitLog", "enableMultiDispatch", _RATE, _RATE_SWITCH}
)
"""Names without a row of their own that are not ignored; light queues need both their switches in
RocketMQ, and one here."""


def _interpret(
    given: Mapping[str, str],
    source: str,
    table: Mapping[str, Alias],
    known: Set[str],
    taken_care_of: Set[str],
) -> tuple[list[tuple[str, object, str]], tuple[str, ...]]:
    """Return values for the loader, and the names that are ignored."""
    values: list[tuple[str, object, str]] = []
    ignored: list[str] = []
    for name, text in given.items():
        alias = table.get(name)
        if alias is None:
            if name not in known:
                raise SettingsError(_unknown(name, source, known))
            if name not in taken_care_of:
                ignored.append(name)
            continue
        try:
            value = alias.read(text)
        except ValueError as error:
            raise SettingsError(f"{source}: {name}={text}: {error}") from error
        values.append((alias.setting, value, f"{source} ({name})"))
    return values, tuple(sorted(ignored))


def _unknown(name: str, source: str, known: Set[str]) -> str:
    return f"{source}: RocketMQ has no setting {name}{hint(name, known)}"


def _value(settings: Settings, full_name: str) -> Any:
    group, _, name = full_name.partition(".")
    return getattr(getattr(settings, group), name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
