"""Settings change while the server runs, under RocketMQ's names and units."""

from typing import Any

import pytest

from sprocket.rocketmq import live_settings
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.live_settings import LiveSettings
from sprocket.rocketmq.settings import NameServerSettings, ServerSettings, Settings
from sprocket.testing.clock import FakeClock


@pytest.fixture
def used() -> dict[str, Any]:
    """What each part was given."""
    return {}


@pytest.fixture
def config(used: dict[str, Any]) -> LiveSettings:
    """Settings with two groups that can be changed."""
    users = {
        name: lambda new, name=name: used.update({name: getattr(new, name)})
        for name in ("retention", "topics")
    }
    return live_settings.of_broker(Settings(), "/store", FakeClock(), users)


def test_a_change_is_taken_up(config: LiveSettings, used: dict[str, Any]) -> None:
    """By the part that uses it, and told from then on."""
    version = config.version.counter
    config.update({"fileReservedTime": "48", "autoCreateTopicEnable": "no"})
    assert used["retention"].keep_hours == 48
    assert used["topics"].auto_create is False
    told = config.texts()
    assert (told["fileReservedTime"], told["autoCreateTopicEnable"]) == ("48", "false")
    assert (told["brokerName"], told["storePathRootDir"]) == ("broker-a", "/store")
    assert config.version.counter == version + 2
    config.update({"brokerPermission": "4"})
    config.update({"brokerPermission": "5"})
    assert used["topics"].permission == 4
    assert config.texts()["brokerPermission"] == "4"


def test_our_own_names_do_as_well(config: LiveSettings, used: dict[str, Any]) -> None:
    """For what RocketMQ has no name for, and in our units."""
    config.update({"retention.keep_hours": " 7 ", "topics.auto_create": "false"})
    assert used["retention"].keep_hours == 7
    assert used["topics"].auto_create is False
    assert config.texts()["fileReservedTime"] == "7"
    before = dict(used)
    config.update({"retention.keep_hours": "z", "retention.x": "1", "pull.bytes_max": "1"})
    assert used == before


def test_what_cannot_be_changed_is_left(config: LiveSettings, used: dict[str, Any]) -> None:
    """Unknown names, others' groups, values that are none or out of range."""
    before = config.texts()
    config.update(
        {"x": "1", "brokerName": "y", "fileReservedTime": "z", "diskMaxUsedSpaceRatio": "-7"}
    )
    assert (config.texts(), used) == (before, {})


def test_the_black_list_is_refused_as_a_whole(config: LiveSettings, used: dict[str, Any]) -> None:
    """Nothing beside it is changed either."""
    with pytest.raises(Refused, match=r"black list\.$") as caught:
        config.update({"fileReservedTime": "48", "rocketmqHome": "/"})
    assert (caught.value.why, used) == (Refusal.NO_PERMISSION, {})


def test_switches_of_a_nameserver_change_while_running() -> None:
    """What is neither true nor false counts as false; what cannot change does not."""
    settings = Settings(server=ServerSettings(nameserver_port=1234))
    config = live_settings.of_nameserver(settings, FakeClock())
    config.update({"orderMessageEnable": "TRUE", "enableTopicList": "nonsense", "x": "y"})
    config.update({"listenPort": "99", "supportActingMaster": " true "})
    assert config.now.nameserver == NameServerSettings(
        order_conf=True, list_topics=False, acting_master=True
    )
    assert config.texts()["orderMessageEnable"] == "true"
    assert config.texts()["listenPort"] == "1234"


@pytest.mark.parametrize("name", ["configBlackList", "configStorePath", "kvConfigPath"])
def test_what_tells_where_files_lie_is_refused(name: str) -> None:
    """And nothing else of that request is changed either."""
    config = live_settings.of_nameserver(Settings(), FakeClock())
    with pytest.raises(Refused, match=rf"black list: {name}$") as refused:
        config.update({"orderMessageEnable": "true", name: "/etc/passwd"})
    assert refused.value.why is Refusal.NO_PERMISSION
    assert config.now.nameserver == NameServerSettings()


def test_a_nameserver_takes_our_names_too() -> None:
    """As a broker does, if the value is in range."""
    config = live_settings.of_nameserver(Settings(), FakeClock())
    config.update({"nameserver.broker_expiry_ms": "2000", "server.nameserver_port": "1"})
    config.update({"nameserver.broker_expiry_ms": "1"})
    assert config.now == Settings(nameserver=NameServerSettings(broker_expiry_ms=2000))
