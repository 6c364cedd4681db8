"""RocketMQ's settings files become ours, and ours are told in RocketMQ's words."""

import dataclasses
import typing
from typing import Any

import pytest

from sprocket.base import settings as loader
from sprocket.base.errors import SettingsError
from sprocket.base.units import GIB, KIB
from sprocket.rocketmq import aliases
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.settings import (
    BrokerSettings,
    RetentionSettings,
    RightsSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)


def loaded(text: str) -> Settings:
    """Return the settings that a broker.conf gives."""
    found = aliases.read_broker_conf(text, "broker.conf")
    return loader.load(Settings, values=found.values).root


def test_a_usual_broker_conf() -> None:
    """Units are converted; what it does not say keeps our default."""
    settings = loaded(
        """
        brokerClusterName = C1
        brokerName=broker-b
        brokerId=0
        deleteWhen=04;16
        fileReservedTime=48
        brokerRole=ASYNC_MASTER
        flushDiskType=ASYNC_FLUSH
        namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
        listenPort=10921
        autoCreateTopicEnable=FALSE
        registerNameServerPeriod=45500
        flushCommitLogLeastPages=8
        mappedFileSizeCommitLog=1048576
        mappedFileSizeConsumeQueue=6000001
        storeType=defaultRocksDB
        """
    )
    assert settings.broker == BrokerSettings(
        name="broker-b",
        cluster="C1",
        nameservers=("10.0.0.1:9876", "10.0.0.2:9876"),
        register_seconds=46,
    )
    assert settings.server == ServerSettings(broker_port=10921)
    assert settings.retention == RetentionSettings(keep_hours=48, clean_hours=(4, 16))
    assert settings.store == StoreSettings(flush="async", flush_bytes_min=32 * KIB)
    assert settings.queue == QueueGeometry(engine="rocksdb", units_per_file=300_001)
    assert settings.log.segment_bytes == KIB * KIB
    assert settings.topics.auto_create is False


def test_all_settings_come_back_from_what_is_told() -> None:
    """Every row reads what it writes, for values that are not the defaults."""
    changed: dict[str, Any] = {}
    for one in loader.declarations(Settings):
        value = one.default
        if typing.get_origin(one.kind) is typing.Literal:
            value = typing.get_args(one.kind)[-1]
        elif isinstance(value, bool):
            value = not value
        elif one.full_name == "store.flush_bytes_min":
            value = 12 * KIB
        elif one.full_name == "broker.register_seconds":
            value = 12
        elif isinstance(value, int):
            value += 1 if value < 90 or value > 1000 else -1
        changed[one.full_name] = value
    changed["log.segment_bytes"] = GIB - 1
    changed["retention.clean_hours"] = (3, 22)
    changed["broker.nameservers"] = ("1.1.1.1:1", "2.2.2.2:2")
    changed["broker.name"], changed["broker.cluster"] = "other", "C2"
    changed["server.host"] = changed["server.advertised_host"] = "10.0.0.9"
    settings = loader.load(Settings, options=changed).root
    told = aliases.to_broker_conf(settings, folder="/data")
    text = "\n".join(f"{name}={value}" for name, value in told.items())
    again = loaded(text)
    for alias in aliases.BROKER.values():
        group, _, name = alias.setting.partition(".")
        assert getattr(getattr(again, group), name) == changed[alias.setting], alias.name
    assert aliases.read_broker_conf(text, "f").folder == "/data"


def test_each_setting_has_one_name_of_rocketmq() -> None:
    """Two rows for one setting would have the later win, unseen."""
    named = [alias.setting for alias in aliases.BROKER.values()]
    assert len(named) == len(set(named))
    full_names = {one.full_name for one in loader.declarations(Settings)}
    rows = [*aliases.BROKER.values(), *aliases.NAMESERVER.values()]
    assert {alias.setting for alias in rows} <= full_names


def test_the_defaults_in_rocketmqs_words() -> None:
    """As a tool of RocketMQ would print them."""
    told = aliases.to_broker_conf(Settings())
    assert told["deleteWhen"] == "04"
    assert told["fileReservedTime"] == "72"
    assert told["flushDiskType"] == "SYNC_FLUSH"
    assert told["flushCommitLogLeastPages"] == "4"
    assert told["mappedFileSizeConsumeQueue"] == "6000000"
    assert told["brokerIP1"] == "127.0.0.1"
    assert told["enableLmq"] == told["enableMultiDispatch"] == "false"
    assert told["bitMapLengthConsumeQueueExt"] == "112"
    more = aliases.to_broker_conf(Settings(store=StoreSettings(filter_bits_groups=128)))
    assert more["bitMapLengthConsumeQueueExt"] == "432"
    assert "storePathRootDir" not in told
    assert list(told) == sorted(told)
    names = aliases.to_nameserver_conf(Settings())
    assert (names["listenPort"], names["enableAllTopicList"]) == ("9876", "true")


def test_what_we_do_not_have_is_named() -> None:
    """A real name of RocketMQ is not a mistake."""
    found = aliases.read_broker_conf("warmMapedFileEnable=true\nbrokerName=b\nregionId=1", "f")
    assert found.ignored == ("regionId", "warmMapedFileEnable")
    assert [value for _, value, _ in found.values] == ["b", False, False, False]
    names = aliases.read_nameserver_conf("listenPort=9999\nconfigStorePath=/x", "f")
    assert names.ignored == ("configStorePath",)
    assert names.values == [("server.nameserver_port", 9999, "f (listenPort)")]


def test_what_tutorials_have_added_is_named_too() -> None:
    """RocketMQ starts with them and reads none; misspelt ones are errors here."""
    text = "regionId=1\nabortFile=/a\nstorePathIndex=/i\nstorePathConsumeQueue=/q"
    found = aliases.read_broker_conf(f"{text}\nstoreCheckpoint=/c\nlistenPort=1", "f")
    names = ("abortFile", "regionId", "storeCheckpoint", "storePathConsumeQueue")
    assert found.ignored == (*names, "storePathIndex")
    off = ("pull.sql_filters", "timers.recall", "replication.slave_reads")
    assert [name for name, _, _ in found.values] == ["server.broker_port", *off]
    with pytest.raises(SettingsError, match="has no setting storePathConsumQueue"):
        aliases.read_broker_conf("storePathConsumQueue=/q", "f")
    with pytest.raises(SettingsError, match="has no setting abortFile"):
        aliases.read_nameserver_conf("abortFile=/a", "f")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("brokerNmae=b", "f: RocketMQ has no setting brokerNmae; did you mean brokerName?"),
        ("xyzzy=1", "f: RocketMQ has no setting xyzzy$"),
        ("fileReservedTime=long", "f: fileReservedTime=long: expected a whole number"),
        ("brokerPermission=w", "expected a whole number"),
        ("autoCreateTopicEnable=yes", "expected true or false"),
        ("flushDiskType=NEVER", "expected SYNC_FLUSH or ASYNC_FLUSH"),
        ("brokerId=first", "expected a whole number"),
        ("brokerRole=MASTER", "expected ASYNC_MASTER or SYNC_MASTER or SLAVE"),
        ("enableDLegerCommitLog=true", "who is master is decided by brokerRole"),
        ("totalReplicas=2", "only 1; who is master"),
        ("rejectPullConsumerEnable=true", "cannot be kept out"),
        ("litePullMessageEnable=false", "cannot be kept out"),
        ("namesrvAddr=10.0.0.1:9876,10.0.0.2:9876", "use ; instead of commas"),
        ("aclEnable=true", "neither is there; rights.rules_path names them too"),
        ("migrateAuthFromV1Enabled=true", "rocketmqHome or ROCKETMQ_HOME, and neither is there"),
        ("authenticationWhitelist=26,x", "expected a whole number"),
        ("authenticationProvider=com.example.Mine", "only RocketMQ's own"),
        ("authorizationStrategy=org.apache.rocketmq.auth.Mine", "only RocketMQ's own"),
        ("storePathRootDir=/a\nstorePathCommitLog=/b/commitlog", "lies in `commitlog` below"),
        ("storePathCommitLog=/b/commitlog", "lies in `commitlog` below"),
    ],
)
def test_what_cannot_be_is_one_clear_error(
    text: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names file, setting, what was found and what was expected."""
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(SettingsError, match=error):
        aliases.read_broker_conf(text, "f")


def test_what_is_so_anyway_may_be_said() -> None:
    """A file that asks for no controller and no access control gets what it wants."""
    text = """
        totalReplicas=1\nenableControllerMode=False
        aclEnable=false\nenablePropertyFilter=true\nrecallMessageEnable=true\nrejectPullConsumerEnable=false\nlitePullMessageEnable=TRUE
    """
    asked = [
        ("pull.sql_filters", True, "f (enablePropertyFilter)"),
        ("timers.recall", True, "f (recallMessageEnable)"),
        ("replication.slave_reads", False, "f (default of slaveReadEnable)"),
    ]
    assert aliases.read_broker_conf(text, "f") == loader.ForeignSettings(values=asked)


def test_a_master_and_a_slave_of_a_broker_conf() -> None:
    """A master waits for slaves if it says anything of them; a file without a word has none."""
    master = loaded("brokerRole=SYNC_MASTER\nhaListenPort=10999\nslaveTimeout=1000").replication
    assert (master.role, master.port, master.ack_timeout_ms) == ("sync_master", 10999, 1000)
    assert (master.takes_slaves, master.acks_needed, master.is_slave) == (True, 1, False)
    assert loaded("brokerRole=ASYNC_MASTER").replication.takes_slaves
    assert loaded("haListenPort=10999").replication.takes_slaves
    assert not loaded("listenPort=10911").replication.takes_slaves
    assert loaded("brokerRole=ASYNC_MASTER").replication.acks_needed == 0
    assert loaded("brokerRole=SYNC_MASTER\ninSyncReplicas=1").replication.acks_needed == 0
    text = "brokerRole=SLAVE\nbrokerId=2\nhaMasterAddress=10.0.0.1:10912\nhaListenPort=1"
    slave = loaded(text).replication
    assert (slave.is_slave, slave.broker_id, slave.takes_slaves) == (True, 2, False)
    assert slave.master_address == "10.0.0.1:10912"


def test_a_broker_conf_has_rocketmqs_default_where_ours_is_another() -> None:
    """SQL92 and taking back are off there: whoever asks for neither gets what they are used to."""
    assert loader.load(Settings).root.pull.sql_filters
    assert not loaded("brokerName=b").pull.sql_filters
    assert loaded("enablePropertyFilter=true").pull.sql_filters
    assert loader.load(Settings).root.timers.recall
    assert not loaded("brokerName=b").timers.recall
    assert loaded("recallMessageEnable=true").timers.recall


def test_a_broker_may_encrypt_what_it_tells_nameservers() -> None:
    """RocketMQ's word for it stands in its own file."""
    assert [loaded(f"useTLS={word}").tls.to_nameservers for word in ("true", "false")] == [
        True,
        False,
    ]


RIGHTS = """
    authenticationEnabled=true
    authorizationEnabled = true
    authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
    authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
    authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider
    authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
    authenticationStrategy=org.apache.rocketmq.auth.authentication.strategy.StatefulAuthenticationStrategy
    authorizationStrategy=org.apache.rocketmq.auth.authorization.strategy.StatelessAuthorizationStrategy
    initAuthenticationUser={"username":"root","password":"a:b"}
    innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"x"}
    authenticationWhitelist=105, 28
    authorizationWhitelist=
    userCacheMaxNum=7
"""


def test_rights_are_asked_for_in_rocketmqs_words() -> None:
    """Its own providers and both strategies, users as JSON, white lists of codes."""
    found = aliases.read_broker_conf(RIGHTS, "f")
    assert found.ignored == ("userCacheMaxNum",)
    assert loaded(RIGHTS).rights == RightsSettings(
        authentication=True,
        authorization=True,
        initial_user="root",
        initial_password="a:b",  # noqa: S106
        inner_user="inner",
        inner_password="x",  # noqa: S106
        unsigned_codes=(105, 28),
    )


def test_the_rules_of_rocketmq_4_lie_below_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a broker.conf or the environment names."""
    text = "migrateAuthFromV1Enabled=true"
    assert loaded(f"{text}\nrocketmqHome=/opt/mq").rights.migrate_path == "/opt/mq/conf"
    monkeypatch.setenv("ROCKETMQ_HOME", "/srv/mq")
    assert loaded(text).rights.migrate_path == "/srv/mq/conf"
    assert loaded("migrateAuthFromV1Enabled=false").rights.migrate_path == ""
    kept = loaded("aclEnable = True\nrocketmqHome=/opt/mq")
    assert kept.rights.rules_path == "/opt/mq/conf"
    assert aliases.to_broker_conf(kept)["aclEnable"] == "true"
    assert loaded("aclEnable=false").rights.rules_path == ""


def test_tools_are_not_told_of_rights() -> None:
    """As in RocketMQ: neither a user, nor who need not sign."""
    told = aliases.to_broker_conf(loaded(RIGHTS))
    assert not any("auth" in name.lower() or "a:b" in value for name, value in told.items())


@pytest.mark.parametrize(
    "text", ["root", "[]", "{}", '{"username":"root","password":""}', '{"username":"root"}']
)
def test_a_user_that_cannot_be_read_is_not_told(text: str) -> None:
    """It may have a password."""
    with pytest.raises(SettingsError, match="initAuthenticationUser is not") as raised:
        aliases.read_broker_conf(f"initAuthenticationUser={text}", "f")
    assert text not in str(raised.value)


def test_a_value_out_of_range_names_rocketmqs_setting() -> None:
    """Which is the one that its user wrote."""
    with pytest.raises(SettingsError, match=r"broker\.conf \(listenPort\): server\.broker_port"):
        loaded("listenPort=70000")
    with pytest.raises(SettingsError, match=r"\(brokerPermission\): topics\.permission = 5"):
        loaded("brokerPermission=5")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("brokerIP1=10.0.0.1", "0.0.0.0"),  # noqa: S104
        ("brokerIP1=10.0.0.1\nbindAddress=10.0.0.2", "10.0.0.2"),
        ("brokerIP1=127.0.0.1", "127.0.0.1"),
        ("brokerIP1=localhost", "127.0.0.1"),
        ("brokerIP1=broker.example", "0.0.0.0"),  # noqa: S104
        ("", "127.0.0.1"),
    ],
)
def test_a_broker_with_an_address_for_others_listens_for_them(text: str, host: str) -> None:
    """As RocketMQ does; one without listens on this machine only, as ours do by default."""
    assert loaded(text).server.host == host


def test_the_folder_is_named() -> None:
    """The log below it may be named too."""
    found = aliases.read_broker_conf("storePathRootDir=/a\nstorePathCommitLog=/a/./commitlog", "f")
    assert found.folder == "/a"
    assert found == dataclasses.replace(found, ignored=())


def test_rows_are_found_by_name() -> None:
    """For what changes one setting while running."""
    row = aliases.BROKER["fileReservedTime"]
    assert (row.setting, row.read("5")) == ("retention.keep_hours", 5)
    assert "nothing" not in aliases.BROKER
    assert "listenPort" in aliases.NAMESERVER


def test_how_much_a_slave_is_sent_in_a_second() -> None:
    """Two settings there, of which one is a switch; one here."""
    for text, expected in (
        ("", 0),
        ("maxHaTransferByteInSecond=1000", 0),
        ("haFlowControlEnable=true", 100 << 20),
        ("haFlowControlEnable=true\nmaxHaTransferByteInSecond=1000", 1000),
        ("haFlowControlEnable=false\nmaxHaTransferByteInSecond=1000", 0),
    ):
        found = loaded(f"brokerName=b\n{text}")
        assert found.replication.bytes_per_second_max == expected
        told = aliases.to_broker_conf(found)
        assert told["haFlowControlEnable"] == str(bool(expected)).lower()
        assert told["maxHaTransferByteInSecond"] == str(expected or 100 << 20)
    with pytest.raises(SettingsError, match="maxHaTransferByteInSecond=x: expected a whole number"):
        loaded("haFlowControlEnable=true\nmaxHaTransferByteInSecond=x")


def test_replicas_that_must_be_there() -> None:
    """RocketMQ heeds it under a controller only; here a broker that waits for slaves does."""
    assert loaded("minInSyncReplicas=2").replication.in_sync_count_min == 2
    assert loaded("slaveReadEnable=true").replication.slave_reads
    assert not loaded("brokerName=b").replication.slave_reads
