"""Exchanges, queues and bindings, as pika declares them."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from tests.unit.rabbitmq.server.handlers.conftest import connect

from sprocket.testing.local_amqp import LocalAmqp


def refused(code: int, text: str) -> "pytest.RaisesExc[ChannelClosedByBroker]":
    """Expect that the channel is closed with this code and text."""
    return pytest.raises(ChannelClosedByBroker, check=lambda error: error.args == (code, text))


def test_a_message_takes_the_way_of_its_bindings(channel: BlockingChannel, name: str) -> None:
    """Direct, topic, headers, fanout and exchange to exchange lead into one queue, once each."""
    channel.queue_declare(name)
    for kind, key in (("direct", "k"), ("topic", "a.*"), ("fanout", ""), ("headers", "")):
        channel.exchange_declare(f"{name}-{kind}", kind)
        arguments = {"x-match": "any", "h": 1} if kind == "headers" else None
        channel.queue_bind(name, f"{name}-{kind}", key, arguments)
    channel.exchange_declare(f"{name}-source", "fanout")
    channel.exchange_bind(f"{name}-topic", f"{name}-source", "x")
    for kind, key in (("direct", "k"), ("direct", "no"), ("topic", "a.b"), ("topic", "a.b.c")):
        channel.basic_publish(f"{name}-{kind}", key, f"{kind} {key}".encode())
    channel.basic_publish(f"{name}-fanout", "any", b"fanout")
    with_header = pika.BasicProperties(headers={"h": 1})
    channel.basic_publish(f"{name}-headers", "any", b"headers", with_header)
    channel.basic_publish(f"{name}-headers", "any", b"no headers")
    channel.basic_publish(f"{name}-source", "a.z", b"through two")
    bodies = [body for _, _, body in iter(lambda: channel.basic_get(name, True), NOTHING)]
    assert bodies == [b"direct k", b"topic a.b", b"fanout", b"headers", b"through two"]


NOTHING = (None, None, None)


def test_a_message_that_nobody_gets_goes_to_the_alternate_exchange(
    channel: BlockingChannel, name: str
) -> None:
    """It is there, and not returned."""
    channel.exchange_declare(f"{name}-other", "fanout")
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": f"{name}-other"})
    channel.queue_declare(name)
    channel.queue_bind(name, f"{name}-other")
    channel.confirm_delivery()
    channel.basic_publish(name, "nowhere", b"here", mandatory=True)
    assert channel.basic_get(name, True)[2] == b"here"


def test_a_queue_that_is_not_there_is_told_by_name(channel: BlockingChannel, name: str) -> None:
    """404 with RabbitMQ's text, for a passive declare, a consume, a get and a bind."""
    with refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.queue_declare(name, passive=True)


def test_a_second_declaration_has_to_be_the_same(channel: BlockingChannel, name: str) -> None:
    """406, with the argument, what was received, and what is current."""
    channel.queue_declare(name, arguments={"x-message-ttl": 1000})
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{name}' in vhost '/': "
        "received '2000' but current is '1000'"
    )
    with refused(406, text):
        channel.queue_declare(name, arguments={"x-message-ttl": 2000})


def test_another_connection_may_not_use_an_exclusive_queue(
    shared: LocalAmqp, channel: BlockingChannel
) -> None:
    """405; and when its connection ends the queue is gone."""
    name = "mine"
    with connect(shared) as owner:
        owner.channel().queue_declare(name, exclusive=True)
        text = (
            f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost "
            "'/'. It could be originally declared on another connection or the exclusive property "
            "value does not match that of the original declaration."
        )
        with refused(405, text):
            channel.queue_declare(name, exclusive=True)
        channel = channel.connection.channel()
    with refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.queue_declare(name, passive=True)


def test_queues_without_a_name_are_given_one(channel: BlockingChannel) -> None:
    """It begins as RabbitMQ's, and stands for the queue where no name is given afterwards."""
    given = channel.queue_declare("").method.queue
    assert given.startswith("amq.gen-")
    assert len(given) == len("amq.gen-") + 22
    channel.basic_publish("", given, b"x")
    assert channel.basic_get("", True)[2] == b"x"


def test_a_queue_is_deleted_with_what_is_in_it(channel: BlockingChannel, name: str) -> None:
    """Durable or not: its count is told, and a new one of the name is empty."""
    for durable in (True, False):
        channel.queue_declare(name, durable=durable)
        channel.basic_publish("", name, b"x", pika.BasicProperties(delivery_mode=2))
        assert channel.queue_delete(name).method.message_count == 1
        assert channel.queue_declare(name, durable=durable).method.message_count == 0
        channel.queue_delete(name)
    assert channel.queue_delete(name).method.message_count == 0


def test_a_queue_of_priorities_can_be_declared_again_at_once(shared: LocalAmqp, name: str) -> None:
    """Its files go meanwhile; what is published to the new one stays."""
    with connect(shared) as one, connect(shared) as other:
        for _ in range(5):
            first, second = one.channel(), other.channel()
            arguments = {"x-max-priority": 3}
            first.queue_declare(name, durable=True, arguments=arguments)
            first.queue_delete(name)
            second.queue_declare(name, durable=True, arguments=arguments)
            second.confirm_delivery()
            for priority in (3, 0):
                kept = pika.BasicProperties(delivery_mode=2, priority=priority)
                second.basic_publish("", name, b"x", kept)
            assert second.queue_delete(name).method.message_count == 2


def test_deletion_asks_for_conditions(channel: BlockingChannel, name: str) -> None:
    """406 if it is not empty or in use."""
    channel.queue_declare(name)
    channel.basic_publish("", name, b"x")
    with refused(406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty"):
        channel.queue_delete(name, if_empty=True)


def test_an_unknown_type_of_exchanges_ends_the_connection(shared: LocalAmqp, name: str) -> None:
    """503; so does one that a delayed exchange is to behave like."""
    for kind, arguments in (("zz", {}), ("x-delayed-message", {"x-delayed-type": "zz"})):
        opened = connect(shared)
        with pytest.raises(ConnectionClosedByBroker) as caught:
            opened.channel().exchange_declare(name, kind, arguments=arguments)
        assert caught.value.args == (503, "COMMAND_INVALID - unknown exchange type 'zz'")


def test_purging_leaves_what_is_unacknowledged(channel: BlockingChannel, name: str) -> None:
    """Ready messages are gone and counted."""
    channel.queue_declare(name, durable=True)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2))
    method, _, _ = channel.basic_get(name)
    assert channel.queue_purge(name).method.message_count == 2
    channel.basic_nack(method.delivery_tag)
    assert channel.basic_get(name, True)[2] == b"1"
