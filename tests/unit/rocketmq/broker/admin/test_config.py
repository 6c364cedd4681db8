"""Settings change while the broker runs, under RocketMQ's names and units."""

from typing import Any

import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.admin import BrokerConfig
from sprocket.rocketmq.settings import Settings
from sprocket.testing.clock import FakeClock


@pytest.fixture
def used() -> dict[str, Any]:
    """What each part was given."""
    return {}


@pytest.fixture
def config(used: dict[str, Any]) -> BrokerConfig:
    """Settings with two groups that can be changed."""
    users = {
        name: lambda new, name=name: used.update({name: getattr(new, name)})
        for name in ("retention", "topics")
    }
    return BrokerConfig(Settings(), "/store", FakeClock(), users)


def test_a_change_is_taken_up(config: BrokerConfig, used: dict[str, Any]) -> None:
    """By the part that uses it, and told from then on."""
    version = config.version.counter
    config.update({"fileReservedTime": "48", "autoCreateTopicEnable": "no"})
    assert used["retention"].keep_hours == 48
    assert used["topics"].auto_create is False
    told = config.told()
    assert (told["fileReservedTime"], told["autoCreateTopicEnable"]) == ("48", "false")
    assert (told["brokerName"], told["storePathRootDir"]) == ("broker-a", "/store")
    assert config.version.counter == version + 2
    config.update({"brokerPermission": "4"})
    config.update({"brokerPermission": "5"})
    assert used["topics"].permission == 4
    assert config.told()["brokerPermission"] == "4"


def test_our_own_names_do_as_well(config: BrokerConfig, used: dict[str, Any]) -> None:
    """For what RocketMQ has no name for, and in our units."""
    config.update({"retention.keep_hours": " 7 ", "topics.auto_create": "false"})
    assert used["retention"].keep_hours == 7
    assert used["topics"].auto_create is False
    assert config.told()["fileReservedTime"] == "7"
    before = dict(used)
    config.update({"retention.keep_hours": "z", "retention.x": "1", "pull.bytes_max": "1"})
    assert used == before


def test_what_cannot_be_changed_is_left(config: BrokerConfig, used: dict[str, Any]) -> None:
    """Unknown names, others' groups, values that are none or out of range."""
    before = config.told()
    config.update(
        {"x": "1", "brokerName": "y", "fileReservedTime": "z", "diskMaxUsedSpaceRatio": "-7"}
    )
    assert (config.told(), used) == (before, {})


def test_the_black_list_is_refused_as_a_whole(config: BrokerConfig, used: dict[str, Any]) -> None:
    """Nothing beside it is changed either."""
    with pytest.raises(RequestRefused, match="black list") as caught:
        config.update({"fileReservedTime": "48", "rocketmqHome": "/"})
    assert (caught.value.code, used) == (16, {})
