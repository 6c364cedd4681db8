"""Memory that runs short: who publishes waits, who consumes goes on."""

from collections.abc import Iterator
from dataclasses import replace

import pika
import pytest
from tests.unit.rabbitmq.server.handlers.conftest import connect

from sprocket.base import memory
from sprocket.rabbitmq.broker import broker as broker_module
from sprocket.rabbitmq.broker.broker import ARRIVALS_BYTES_MIN
from sprocket.testing.local_amqp import LocalAmqp, small_settings

WHOLE_BYTES = 1000
LIMIT_BYTES = 400


class Planted:
    """A machine's memory."""

    def __init__(self) -> None:
        self.used_bytes = LIMIT_BYTES


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Have a machine's memory be what a test says."""
    found = Planted()
    monkeypatch.setattr(memory, "whole_bytes", lambda: WHOLE_BYTES)
    monkeypatch.setattr(memory, "used_bytes", lambda: found.used_bytes)
    return found


@pytest.fixture
def broker(planted: Planted) -> Iterator[LocalAmqp]:
    """Run a broker on that machine."""
    assert planted.used_bytes == LIMIT_BYTES
    settings = small_settings()
    amqp = replace(settings.amqp, memory_used_ratio_max=LIMIT_BYTES / WHOLE_BYTES)
    with LocalAmqp(settings=replace(settings, amqp=amqp)) as found:
        yield found


def wait_for(opened: pika.BlockingConnection, told: list[str], count: int) -> None:
    """Read until a client was told so much; what never comes ends after a minute."""
    for _ in range(60):
        if len(told) >= count:
            return
        opened.process_data_events(time_limit=1)
    raise AssertionError(f"only {told} came")


def test_publishers_wait_while_memory_is_low(broker: LocalAmqp, planted: Planted) -> None:
    """They are told why, once; what they have sent meanwhile is taken when there is room again."""
    told: list[str] = []
    publisher, consumer = connect(broker), connect(broker)
    publisher.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel, other = publisher.channel(), consumer.channel()
    channel.queue_declare("q")
    for number in range(3):
        channel.basic_publish("", "q", b"%d" % number)
    channel.queue_declare("q", passive=True)
    planted.used_bytes = LIMIT_BYTES + 1
    broker.advance(1000)
    channel.basic_publish("", "q", b"3")
    wait_for(publisher, told, 1)
    channel.basic_publish("", "q", b"4")
    for number in range(3):
        assert other.basic_get("q", True)[2] == b"%d" % number
    assert told == ["low on memory"]
    planted.used_bytes = LIMIT_BYTES
    broker.advance(1000)
    wait_for(publisher, told, 2)
    channel.queue_declare("q", passive=True)
    assert [other.basic_get("q", True)[2] for _ in range(2)] == [b"3", b"4"]
    assert told == ["low on memory", "unblocked"]


def test_what_arrives_is_counted_before_the_next_look(
    monkeypatch: pytest.MonkeyPatch, planted: Planted
) -> None:
    """A fast publisher sent hundreds of MB between two looks, and the broker was killed."""
    monkeypatch.setattr(broker_module, "UPKEEP_SECONDS", 86_400)
    settings = small_settings()
    amqp = replace(settings.amqp, memory_used_ratio_max=LIMIT_BYTES / WHOLE_BYTES)
    with LocalAmqp(settings=replace(settings, amqp=amqp)) as broker:
        told: list[str] = []
        publisher = connect(broker)
        publisher.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
        channel = publisher.channel()
        channel.queue_declare("q")
        planted.used_bytes = LIMIT_BYTES + 1
        channel.basic_publish("", "q", bytes(ARRIVALS_BYTES_MIN // 2))
        channel.queue_declare("q", passive=True)
        assert told == []
        channel.basic_publish("", "q", bytes(ARRIVALS_BYTES_MIN))
        wait_for(publisher, told, 1)


def test_memory_and_disk_have_one_reason(planted: Planted) -> None:
    """In RabbitMQ's words; before it publishes a connection is told nothing."""
    settings = small_settings()
    ratio = LIMIT_BYTES / WHOLE_BYTES
    amqp = replace(settings.amqp, memory_used_ratio_max=ratio, disk_free_bytes_min=2 << 30)
    planted.used_bytes = WHOLE_BYTES
    with LocalAmqp(settings=replace(settings, amqp=amqp)) as low:
        told: list[str] = []
        opened = connect(low)  # nobody reads that it is closed: the broker's end is its end
        opened.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
        channel = opened.channel()
        channel.queue_declare("q")
        assert told == []
        channel.basic_publish("", "q", b"x")
        wait_for(opened, told, 1)
        assert told == ["low on memory & disk"]
