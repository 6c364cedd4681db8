"""A node in the test process: its ends, its clock, and when it is quiet."""

from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.unit.rabbitmq.server.handlers.conftest import connect

from sprocket.testing.local_amqp import LocalAmqp
from sprocket.testing.quiet import NotQuiet

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def fill(broker: LocalAmqp) -> None:
    """Declare two queues; publish a confirmed message to each, transient and persistent."""
    with connect(broker) as opened:
        channel = opened.channel()
        channel.confirm_delivery()
        for name, durable in (("kept", True), ("gone", False)):
            channel.queue_declare(name, durable=durable)
            channel.basic_publish("", name, b"persistent", PERSISTENT)
            channel.basic_publish("", name, b"transient")


@pytest.mark.parametrize("end", ["restart", "crash", "power_cut"])
def test_what_is_durable_outlives_every_end(tmp_path: Path, end: str) -> None:
    """And nothing else does: a transient queue, a transient message."""
    with LocalAmqp(str(tmp_path / "node")) as broker:
        fill(broker)
        reports = getattr(broker, end)()
        assert (end == "restart") == reports["/"].clean_stop
        assert reports["/"].messages == 1
        with connect(broker) as opened:
            channel = opened.channel()
            assert channel.basic_get("kept", True)[2] == b"persistent"
            with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                channel.queue_declare("gone", passive=True)


def test_declarations_outlive_a_power_cut() -> None:
    """Each that was answered, the power being cut at once: exchange, queue, binding, deletion."""
    declare: list[Callable[[BlockingChannel], object]] = [
        lambda channel: channel.exchange_declare("x", "topic", durable=True),
        lambda channel: channel.queue_declare("q", durable=True),
        lambda channel: channel.queue_bind("q", "x", "#"),
    ]
    with LocalAmqp() as broker:
        for one in declare:
            one(connect(broker).channel())
            broker.power_cut()
        channel = connect(broker).channel()
        channel.basic_publish("x", "any", b"x")
        assert channel.basic_get("q", True)[2] == b"x"
        channel.queue_delete("q")
        broker.power_cut()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connect(broker).channel().queue_declare("q", passive=True)


def test_it_is_quiet_when_everything_is_durable() -> None:
    """An acknowledgement outlives a power cut once the broker has settled."""
    with LocalAmqp() as broker:
        fill(broker)
        with connect(broker) as opened:
            channel = opened.channel()
            channel.basic_ack(channel.basic_get("kept")[0].delivery_tag)
            channel.queue_declare("kept", passive=True)
            broker.settle()
        assert broker.power_cut()["/"].messages == 0


def test_it_is_not_quiet_while_a_consumer_has_messages() -> None:
    """The text says which."""
    with LocalAmqp() as broker:
        fill(broker)
        with connect(broker) as opened:
            channel = opened.channel()
            channel.basic_consume("kept", lambda *_: None)
            opened.process_data_events(time_limit=0)
            with pytest.raises(NotQuiet, match="consumers of kept have 2 messages"):
                broker.settle(seconds=0.05)


def test_a_stopped_broker_tells_its_clients() -> None:
    """320, as RabbitMQ does."""
    with LocalAmqp() as broker:
        opened = connect(broker)
        broker.stop()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            opened.channel()
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        assert (320, text) == caught.value.args
        broker.start()
        connect(broker).close()


def test_a_broker_that_does_not_run_says_so() -> None:
    """Before `with`, after it and while it is stopped."""
    broker = LocalAmqp()
    uses: list[Callable[[], object]] = [
        lambda: broker.message_count("q"),
        broker.settle,
        lambda: broker.http_url,
    ]
    for use in [*uses, lambda: broker.url, broker.crash, broker.power_cut, broker.advance]:
        with pytest.raises(RuntimeError, match="the broker does not run: use it under `with`"):
            use()
    with broker:
        with pytest.raises(RuntimeError, match="runs already"):
            broker.start()
        broker.stop()
        for use in uses:
            with pytest.raises(RuntimeError, match="does not run"):
                use()
    for use in uses:
        with pytest.raises(RuntimeError, match="does not run"):
            use()


def test_a_wrong_question_is_answered_by_what_is_there() -> None:
    """A queue and a virtual host that are missing, and a step back in time."""
    with LocalAmqp() as broker:
        with pytest.raises(KeyError, match="there is no queue 'kpet' in '/', but no queue"):
            broker.message_count("kpet")
        fill(broker)
        with pytest.raises(KeyError, match="there is no queue 'kpet' in '/', but gone, kept"):
            broker.message_count("kpet")
        with pytest.raises(KeyError, match="there is no virtual host 'v'"):
            broker.message_count("kept", "v")
        with pytest.raises(ValueError, match="cannot go on by -5000 ms; clock"):
            broker.advance(seconds=-5)
