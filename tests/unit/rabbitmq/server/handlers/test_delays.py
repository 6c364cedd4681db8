"""Exchanges that keep messages until they are due, as pika uses them."""

from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.unit.rabbitmq.server.handlers.conftest import connect

from sprocket.rabbitmq.settings import AmqpNodeSettings, VhostStoreSettings
from sprocket.testing.local_amqp import LocalAmqp

HOUR_MS = 3_600_000


def prepare(broker: LocalAmqp, kind: str = "direct", *, durable: bool = True) -> BlockingChannel:
    """Declare a delayed exchange `x` and a queue `q` that gets what has the key `k`."""
    channel = connect(broker).channel()
    channel.confirm_delivery()
    arguments = {"x-delayed-type": kind}
    channel.exchange_declare("x", "x-delayed-message", durable=durable, arguments=arguments)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "x", "k")
    return channel


def publish(channel: BlockingChannel, body: bytes, delay: object, **given: object) -> None:
    """Publish a persistent message that is to wait."""
    headers = {} if delay is None else {"x-delay": delay}
    properties = pika.BasicProperties(delivery_mode=2, headers=headers, **given)
    channel.basic_publish("x", "k", body, properties, mandatory=True)


def got(broker: LocalAmqp, channel: BlockingChannel, queue: str = "q") -> list[bytes]:
    """Take all that is in a queue."""
    broker.settle()
    found = []
    while (one := channel.basic_get(queue, True))[0] is not None:
        found.append(one[2])
    channel.queue_declare(queue, passive=True)  # all of that was heard
    broker.settle()
    return found


def test_messages_come_when_they_are_due_and_in_that_order(own: LocalAmqp) -> None:
    """Not a millisecond early; two of one time in the order in which they were published."""
    channel = prepare(own)
    for body, delay in ((b"3", 3000), (b"1", 1000), (b"2a", 2000), (b"2b", 2000)):
        publish(channel, body, delay)
    assert got(own, channel) == []
    own.advance(999)
    assert got(own, channel) == []
    own.advance(1)
    assert got(own, channel) == [b"1"]
    own.advance(1000)
    assert got(own, channel) == [b"2a", b"2b"]
    own.advance(10 * HOUR_MS)
    assert got(own, channel) == [b"3"]


@pytest.mark.parametrize("delay", [None, 0, -5, 1 << 32, "text", [1], True])
def test_what_has_no_delay_is_routed_at_once(own: LocalAmqp, delay: object) -> None:
    """Without the header, zero, below it, too long, or no number."""
    channel = prepare(own)
    publish(channel, b"now", delay)
    assert got(own, channel) == [b"now"]


@pytest.mark.parametrize(("delay", "wait_ms"), [("1500", 1500), ((1 << 32) - 1, (1 << 32) - 1)])
def test_long_delays_and_texts_of_digits_count(own: LocalAmqp, delay: object, wait_ms: int) -> None:
    """The longest are 49 days."""
    channel = prepare(own)
    publish(channel, b"later", delay)
    own.advance(wait_ms - 1)
    assert got(own, channel) == []
    own.advance(1)
    assert got(own, channel) == [b"later"]


def test_a_message_says_for_how_long_it_was_kept(own: LocalAmqp) -> None:
    """As with the plugin: below zero, so that the next such exchange does not keep it again."""
    channel = prepare(own)
    channel.exchange_declare("y", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    channel.queue_declare("r")
    channel.exchange_bind("y", "x", "k")
    channel.queue_bind("r", "y", "")
    publish(channel, b"once", 700, priority=3, app_id="a")
    own.advance(700)
    own.settle()
    method, properties, body = channel.basic_get("r", True)
    assert (body, method.exchange, method.routing_key) == (b"once", "x", "k")
    expected = pika.BasicProperties(
        delivery_mode=2, headers={"x-delay": -700}, priority=3, app_id="a"
    )
    assert expected == properties
    assert got(own, channel) == [b"once"]


def test_routing_is_done_when_a_message_is_due(own: LocalAmqp) -> None:
    """By the bindings of that moment; one that nobody gets is not returned."""
    channel = prepare(own)
    publish(channel, b"moved", 1000)
    channel.queue_unbind("q", "x", "k")
    publish(channel, b"for nobody", 500)
    own.advance(600)
    channel.queue_declare("other")
    channel.queue_bind("other", "x", "k")
    own.advance(400)
    assert got(own, channel) == []
    assert got(own, channel, "other") == [b"moved"]


def test_time_to_live_begins_when_a_message_is_due(own: LocalAmqp) -> None:
    """And not when it was published."""
    channel = prepare(own)
    publish(channel, b"short", 5000, expiration="100")
    own.advance(5000)
    own.advance(99)
    own.settle()
    assert channel.queue_declare("q", passive=True).method.message_count == 1
    own.advance(1)
    assert got(own, channel) == []


def test_dead_letters_are_delayed_too(own: LocalAmqp) -> None:
    """A delayed exchange may be a dead letter exchange: a queue's own way to try again later."""
    channel = prepare(own)
    arguments = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"}
    channel.queue_declare("first", arguments=arguments)
    given = pika.BasicProperties(headers={"x-delay": 300})
    channel.basic_publish("", "first", b"again", given)
    channel.basic_reject(channel.basic_get("first")[0].delivery_tag, requeue=False)
    assert got(own, channel) == []
    own.advance(300)
    assert got(own, channel) == [b"again"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["restart", "crash", "power_cut"])
def test_what_was_confirmed_outlives_every_end(tmp_path: Path, end: str) -> None:
    """Those that became due meanwhile come at once, the others when they are due."""
    with LocalAmqp(str(tmp_path / "node")) as broker:
        channel = prepare(broker)
        for number in range(30):
            publish(channel, b"%d" % number, 1000 * (1 + number % 10))
        broker.advance(3000)
        assert got(broker, channel) == [b"%d" % n for k in range(3) for n in range(k, 30, 10)]
        publish(channel, b"new", 3500)
        getattr(broker, end)()
        channel = connect(broker).channel()
        assert got(broker, channel) == []
        broker.advance(4000)
        expected = [b"%d" % n for k in (3, 4, 5) for n in range(k, 30, 10)]
        assert got(broker, channel) == [*expected, b"new", b"6", b"16", b"26"]
        getattr(broker, end)()
        broker.advance(HOUR_MS)
        channel = connect(broker).channel()
        assert got(broker, channel) == [b"%d" % n for k in (7, 8, 9) for n in range(k, 30, 10)]


@pytest.mark.parametrize("end", ["none", "restart", "crash"])
def test_an_exchange_takes_what_it_keeps_along(tmp_path: Path, end: str) -> None:
    """Another one of its name does not have it, whatever happens in between."""
    with LocalAmqp(str(tmp_path / "node")) as broker:
        channel = prepare(broker)
        publish(channel, b"void", 1000)
        channel.exchange_delete("x")
        if end != "none":
            getattr(broker, end)()
        channel = prepare(broker)
        if end == "crash":
            broker.crash()
            channel = prepare(broker)
        publish(channel, b"new", 2000)
        broker.advance(2000)
        assert got(broker, channel) == [b"new"]


def test_a_transient_exchange_is_gone_with_what_it_keeps(tmp_path: Path) -> None:
    """After a restart; another one of its name begins with nothing."""
    with LocalAmqp(str(tmp_path / "node")) as broker:
        channel = prepare(broker, durable=False)
        publish(channel, b"void", 1000)
        broker.restart()
        channel = prepare(broker, durable=False)
        broker.advance(2000)
        assert got(broker, channel) == []


@pytest.mark.slow
@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("end", ["none", "restart", "crash"])
def test_no_step_of_the_clock_makes_a_message_early_or_late(
    tmp_path: Path, step_ms: int, end: str
) -> None:
    """Not while the broker runs, and not over its end: a delay is a span of time."""
    with LocalAmqp(str(tmp_path / "node")) as broker:
        channel = prepare(broker)
        publish(channel, b"before", 2000)
        broker.clock.step_wall(step_ms)
        publish(channel, b"after", 1500)
        broker.settle()
        if end != "none":
            getattr(broker, end)()
            channel = connect(broker).channel()
        broker.advance(1499)
        assert got(broker, channel) == []
        broker.advance(1)
        assert got(broker, channel) == [b"after"]
        broker.advance(500)
        assert got(broker, channel) == [b"before"]


def test_a_transaction_keeps_messages_when_it_is_committed(own: LocalAmqp) -> None:
    """Their time begins then; a rollback keeps none."""
    prepare(own)
    channel = connect(own).channel()
    channel.tx_select()
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": 100})
    channel.basic_publish("x", "k", b"rolled back", properties)
    channel.tx_rollback()
    channel.basic_publish("x", "k", b"committed", properties)
    own.advance(500)
    channel.tx_commit()
    own.advance(99)
    assert got(own, channel) == []
    own.advance(1)
    assert got(own, channel) == [b"committed"]


@pytest.mark.slow
def test_many_messages_go_to_files_and_come_back(tmp_path: Path) -> None:
    """With so little memory that there are many files, which become fewer, and none at the end."""
    store = VhostStoreSettings.small()
    settings = AmqpNodeSettings(vhost_store=store)
    folder = tmp_path / "node"
    with LocalAmqp(str(folder), settings=settings) as broker:
        channel = prepare(broker)
        delays = [1 + number * 7919 % 1000 for number in range(400)]
        for number, delay in enumerate(delays):
            publish(channel, b"%d" % number, delay * 1000)
            if number % 20 == 0:
                broker.settle()
        broker.crash()
        (root,) = folder.rglob("sprocket.delayed")
        assert 0 < len(list(root.glob("*.run"))) < 40
        channel = connect(broker).channel()
        found = []
        for _ in range(10):
            broker.advance(100_000)
            found += got(broker, channel)
        order = sorted(range(400), key=lambda number: (delays[number], number))
        assert found == [b"%d" % number for number in order]
        broker.settle()
        assert list(root.glob("*.run")) == []
