"""The wall clock is set by an hour while things wait: nothing is early or late, none twice."""

from dataclasses import replace
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from tests.unit.rabbitmq.server.handlers.conftest import connect

from sprocket.testing.local_amqp import LocalAmqp, small_settings

HOUR_MS = 3_600_000
STEPS = pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])


def ready(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages of a queue are ready."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


@pytest.mark.slow
@STEPS
@pytest.mark.parametrize("end", ["none", "restart", "crash"])
def test_messages_expire_when_their_time_has_passed(tmp_path: Path, step_ms: int, end: str) -> None:
    """By their own time to live, or by their queue's, before a step and after it."""
    with LocalAmqp(str(tmp_path / "node")) as broker:
        channel = connect(broker).channel()
        channel.confirm_delivery()
        channel.queue_declare("dead", durable=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        for name, extra in (("own", {}), ("queue", {"x-message-ttl": 2000})):
            channel.queue_declare(name, durable=True, arguments=arguments | extra)

        def publish(body: bytes) -> None:
            for name, expiration in (("own", "2000"), ("queue", None)):
                given = pika.BasicProperties(delivery_mode=2, expiration=expiration)
                channel.basic_publish("", name, body, given)

        publish(b"before")
        broker.clock.step_wall(step_ms)
        broker.advance(500)
        publish(b"after")
        broker.settle()
        if end != "none":
            getattr(broker, end)()
            channel = connect(broker).channel()
        broker.advance(1499)
        broker.settle()
        assert [ready(channel, name) for name in ("own", "queue", "dead")] == [2, 2, 0]
        broker.advance(1)
        broker.settle()
        assert [ready(channel, name) for name in ("own", "queue", "dead")] == [1, 1, 2]
        broker.advance(500)
        broker.settle()
        assert [ready(channel, name) for name in ("own", "queue", "dead")] == [0, 0, 4]


@STEPS
def test_a_queue_that_nobody_uses_is_deleted_in_time(own: LocalAmqp, step_ms: int) -> None:
    """Its `x-expires` is a span of time."""
    channel = connect(own).channel()
    channel.queue_declare("q", arguments={"x-expires": 2000})
    own.clock.step_wall(step_ms)
    own.advance(1999)
    own.settle()
    assert own.message_count("q") == 0
    own.advance(1)
    own.settle()
    with pytest.raises(KeyError):
        own.message_count("q")


@STEPS
def test_an_acknowledgement_is_overdue_in_time(step_ms: int) -> None:
    """Not because the clock was set forward, and for all that it was set back."""
    settings = small_settings()
    amqp = replace(settings.amqp, ack_timeout_seconds=90)
    with LocalAmqp(settings=replace(settings, amqp=amqp)) as broker:
        channel = connect(broker).channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        assert channel.basic_get("q")[2] == b"x"
        broker.clock.step_wall(step_ms)
        broker.advance(60_000)
        assert ready(channel, "q") == 0
        broker.advance(60_000)
        with pytest.raises(ChannelClosedByBroker) as caught:
            ready(channel, "q")
        assert caught.value.reply_code == 406
        assert ready(connect(broker).channel(), "q") == 1


@STEPS
def test_who_is_heard_is_not_cut_off(step_ms: int) -> None:
    """Heartbeats do not follow the wall clock."""
    settings = small_settings()
    amqp = replace(settings.amqp, heartbeat_seconds=60)
    with LocalAmqp(settings=replace(settings, amqp=amqp)) as broker, connect(broker) as opened:
        channel = opened.channel()
        channel.queue_declare("q")
        broker.clock.step_wall(step_ms)
        broker.advance(59_000)
        broker.settle()
        assert ready(channel, "q") == 0
