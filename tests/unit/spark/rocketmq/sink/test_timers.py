"""Brokers that do not deliver at a time are found before anything is sent."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from sprocket.base.errors import NotConnected, SettingsError
from sprocket.rocketmq.client import blocking
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.settings import TimerSettings
from sprocket.spark.rocketmq.sink.timers import BrokerTimers
from sprocket.testing.local_broker import LocalBroker, small_settings


def queues(*brokers: str) -> list[MessageQueue]:
    """Return two queues on each of some brokers."""
    return [MessageQueue("orders", name, number) for name in brokers for number in range(2)]


def test_each_broker_is_asked_once() -> None:
    """All of them must deliver at a time."""
    asked: list[str] = []

    def config(broker: str) -> dict[str, str]:
        asked.append(broker)
        return {"timerWheelEnable": "false" if broker == "c" else "true"}

    timers = BrokerTimers(config)
    timers.require(queues("a", "b"))
    timers.require(queues("b", "a"))
    assert asked == ["a", "b"]
    with pytest.raises(SettingsError, match="broker 'c' has timerWheelEnable=false, and delivers"):
        timers.require(queues("a", "c"))


def test_a_broker_that_does_not_know_times() -> None:
    """It would deliver at once."""
    with pytest.raises(SettingsError, match="broker 'a' is before RocketMQ 5, and delivers"):
        BrokerTimers(lambda _: {"brokerName": "a"}).require(queues("a"))


def test_a_broker_that_does_not_tell_is_let_pass() -> None:
    """It may be starting, or tell nothing to who is not an administrator."""

    def config(broker: str) -> dict[str, str]:
        raise NotConnected(broker)

    BrokerTimers(config).require(queues("a"))


@pytest.mark.parametrize("enabled", [True, False])
def test_sprockets_own_broker_says_whether_it_does(enabled: bool) -> None:
    """By the setting `timers.enabled`; without it such messages are refused."""
    settings = replace(small_settings(), timers=TimerSettings(enabled=enabled))
    with LocalBroker(settings=settings) as broker, blocking.Admin(broker.nameserver) as admin:
        admin.create_topic("orders", queues=2)
        asked = BrokerTimers(admin.broker.config)
        with (
            nullcontext()
            if enabled
            else pytest.raises(SettingsError, match="timerWheelEnable=false")
        ):
            asked.require(admin.queues("orders"))
