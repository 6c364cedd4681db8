"""Publishing, consuming and acknowledging, as pika does it."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError
from tests.unit.rabbitmq.server.handlers.conftest import connect
from tests.waits import LONG_SECONDS

from sprocket.testing.local_amqp import LocalAmqp

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def taken(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """Return some bodies by consuming, each acknowledged."""
    found: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=LONG_SECONDS):
        assert method is not None, f"only {found} came"
        found.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_messages_come_in_order_and_unchanged(channel: BlockingChannel, name: str) -> None:
    """Bodies of every size, from none to several frames, with all properties."""
    channel.queue_declare(name, durable=True)
    sizes = [0, 1, 4095, 4096, 131_064, 131_065, 400_000]
    given = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"a": 1, "b": "text", "c": [1, {"d": None}], "e": True},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="100000",
        message_id="m",
        timestamp=12,
        type="t",
        user_id="guest",
        app_id="app",
    )
    for size in sizes:
        channel.basic_publish("", name, b"x" * size, given)
    for size in sizes:
        method, properties, body = channel.basic_get(name, auto_ack=True)
        assert (size, given) == (len(body), properties)
        assert ("", name, False) == (method.exchange, method.routing_key, method.redelivered)


def test_consumers_share_a_queue_by_turns(channel: BlockingChannel, name: str) -> None:
    """A B A B, as RabbitMQ does."""
    channel.queue_declare(name)
    got: list[tuple[str, bytes]] = []
    for tag in ("a", "b"):
        channel.basic_consume(
            name, lambda _, m, __, body: got.append((m.consumer_tag, body)), True, consumer_tag=tag
        )
    for number in range(6):
        channel.basic_publish("", name, b"%d" % number)
    while len(got) < 6:
        channel.connection.process_data_events(time_limit=1)
    assert [(tag, b"%d" % at) for at, tag in enumerate("ababab")] == sorted(got, key=lambda p: p[1])


def test_no_more_is_delivered_than_prefetch_allows(channel: BlockingChannel, name: str) -> None:
    """And an acknowledgement brings the next one."""
    channel.queue_declare(name)
    for number in range(4):
        channel.basic_publish("", name, b"%d" % number)
    channel.basic_qos(prefetch_count=2)
    got: list[int] = []
    channel.basic_consume(name, lambda _, m, __, ___: got.append(m.delivery_tag))
    channel.connection.process_data_events(time_limit=0.01)
    while channel.queue_declare(name, passive=True).method.message_count > 2:
        channel.connection.process_data_events(time_limit=0.01)
    assert got == [1, 2]
    channel.basic_ack(1)
    while len(got) < 3:
        channel.connection.process_data_events(time_limit=1)
    assert channel.queue_declare(name, passive=True).method.message_count == 1


def test_what_is_given_back_returns_to_its_place(channel: BlockingChannel, name: str) -> None:
    """Rejected in any order; then it says that it was delivered before."""
    channel.queue_declare(name, durable=True)
    for number in range(4):
        channel.basic_publish("", name, b"%d" % number, PERSISTENT)
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(3)]
    for tag in (tags[2], tags[0], tags[1]):
        channel.basic_reject(tag, requeue=True)
    found = [channel.basic_get(name, auto_ack=True) for _ in range(4)]
    assert [body for _, _, body in found] == [b"0", b"1", b"2", b"3"]
    assert [method.redelivered for method, _, _ in found] == [True, True, True, False]


def test_an_unknown_delivery_tag_closes_the_channel(channel: BlockingChannel, name: str) -> None:
    """406 with RabbitMQ's text."""
    channel.queue_declare(name)
    channel.basic_ack(99)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name)
    assert caught.value.args == (406, "PRECONDITION_FAILED - unknown delivery tag 99")


def test_what_no_queue_gets_is_returned_before_its_confirm(
    channel: BlockingChannel, name: str
) -> None:
    """With NO_ROUTE and all of the message; without `mandatory` it is confirmed alone."""
    channel.confirm_delivery()
    channel.basic_publish("", name, b"lost")
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", name, b"back", PERSISTENT, mandatory=True)
    (returned,) = caught.value.messages
    told = (returned.method.reply_code, returned.method.reply_text, returned.body)
    assert told == (312, "NO_ROUTE", b"back")
    assert returned.properties == PERSISTENT


def test_a_full_queue_refuses_with_a_nack(channel: BlockingChannel, name: str) -> None:
    """As `x-overflow` says."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"2")


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"expiration": "abc"}, "invalid expiration 'abc': no_integer"),
        ({"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
        ({"expiration": "10foo"}, "invalid expiration '10foo': {leftover_string,\"foo\"}"),
        (
            {"expiration": "315360000001"},
            "invalid expiration '315360000001': {value_too_large,315360000001}",
        ),
        ({"user_id": "bob"}, "user_id property set to 'bob' but authenticated user was 'guest'"),
        ({"delivery_mode": 3}, "invalid message: {delivery_mode_unknown,3}"),
        (
            {"headers": {"CC": "k"}},
            'invalid message: {unacceptable_type_in_header,"CC",longstr}',
        ),
        ({"reply_to": "amq.rabbitmq.reply-to"}, "fast reply consumer does not exist"),
    ],
)
def test_wrong_properties_close_the_channel(
    channel: BlockingChannel, properties: dict[str, object], text: str
) -> None:
    """406 with RabbitMQ's text."""
    channel.basic_publish("", "q", b"", pika.BasicProperties(**properties))
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("")
    assert (406, f"PRECONDITION_FAILED - {text}") == caught.value.args


def test_copies_get_into_their_queues_too(channel: BlockingChannel, name: str) -> None:
    """By CC, which stays, and by BCC, which nobody is told of."""
    for part in "abc":
        channel.queue_declare(f"{name}-{part}")
    headers = {"CC": [f"{name}-b"], "BCC": [f"{name}-c"], "x": 1}
    channel.basic_publish("", f"{name}-a", b"x", pika.BasicProperties(headers=headers))
    for part in "abc":
        method, properties, _ = channel.basic_get(f"{name}-{part}", auto_ack=True)
        assert {"CC": [f"{name}-b"], "x": 1} == properties.headers
        assert f"{name}-a" == method.routing_key


def test_a_transaction_is_all_or_nothing(channel: BlockingChannel, name: str) -> None:
    """A rollback forgets what was published and leaves what was acknowledged with the client."""
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"first", PERSISTENT)
    channel.tx_select()
    tag = channel.basic_get(name)[0].delivery_tag
    channel.basic_publish("", name, b"never", PERSISTENT)
    channel.basic_ack(tag)
    channel.tx_rollback()
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    channel.basic_publish("", name, b"second", PERSISTENT)
    channel.basic_ack(tag)
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    channel.tx_commit()
    assert channel.basic_get(name)[2] == b"second"


def test_a_channel_has_one_of_the_two_modes(channel: BlockingChannel) -> None:
    """406 with RabbitMQ's text."""
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.tx_select()
    text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    assert (406, text) == caught.value.args


def test_a_request_is_answered_without_a_queue(
    shared: LocalAmqp, channel: BlockingChannel, name: str
) -> None:
    """By `amq.rabbitmq.reply-to`: the server sees an address that leads to the client."""
    channel.queue_declare(name)
    answers: list[bytes] = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *a: answers.append(a[3]), auto_ack=True)
    asking = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    channel.basic_publish("", name, b"2 + 2", asking)
    with connect(shared) as server:
        its = server.channel()
        _, properties, _ = its.basic_get(name, auto_ack=True)
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        assert its.queue_declare(properties.reply_to, passive=True).method.consumer_count == 1
        its.basic_publish("", properties.reply_to, b"4")
    while not answers:
        channel.connection.process_data_events(time_limit=1)
    assert answers == [b"4"]


@pytest.mark.parametrize("passive", [False, True])
def test_who_answers_sees_whether_the_asker_is_there(
    shared: LocalAmqp, channel: BlockingChannel, name: str, passive: bool
) -> None:
    """By declaring the address, as RabbitMQ's guide says: it is there, or NOT_FOUND."""
    channel.queue_declare(name)
    asking = connect(shared)
    its = asking.channel()
    its.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    its.basic_publish("", name, b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    its.queue_declare(name, passive=True)
    _, properties, _ = channel.basic_get(name, auto_ack=True)
    for address in (properties.reply_to, "amq.rabbitmq.reply-to"):
        answer = channel.queue_declare(address, passive=passive).method
        assert (answer.queue, answer.message_count, answer.consumer_count) == (address, 0, 1)
    asking.close()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(properties.reply_to, passive=passive)
    text = f"NOT_FOUND - no queue '{properties.reply_to}' in vhost '/'"
    assert (404, text) == caught.value.args


def test_a_passive_declaration_names_its_queue(channel: BlockingChannel) -> None:
    """An empty name is not the queue that was declared before, as it is elsewhere."""
    channel.queue_declare("", exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("", passive=True)
    assert caught.value.args == (404, "NOT_FOUND - no queue '' in vhost '/'")


def test_consumers_are_told_that_their_queue_is_gone(
    shared: LocalAmqp, channel: BlockingChannel, name: str
) -> None:
    """By basic.cancel, if they understand it."""
    channel.queue_declare(name)
    told: list[str] = []
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    channel.basic_consume(name, lambda *_: None, consumer_tag="me")
    with connect(shared) as other:
        other.channel().queue_delete(name)
    while not told:
        channel.connection.process_data_events(time_limit=1)
    assert told == ["me"]


def test_higher_priorities_come_first(channel: BlockingChannel, name: str) -> None:
    """In a durable queue of priorities; one above the highest counts as that."""
    channel.queue_declare(name, durable=True, arguments={"x-max-priority": 5})
    for priority in (0, 9, 3, None, 5):
        kept = pika.BasicProperties(delivery_mode=2, priority=priority)
        channel.basic_publish("", name, str(priority).encode(), kept)
    assert taken(channel, name, 5) == [b"9", b"5", b"3", b"0", b"None"]


def test_what_a_queue_cannot_do_ends_the_connection(shared: LocalAmqp) -> None:
    """540: immediate, prefetch by size, recover without requeue."""
    opened = connect(shared)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        opened.channel().basic_qos(prefetch_size=10)
    assert caught.value.args == (540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")


def test_messages_expire_into_another_queue(own: LocalAmqp) -> None:
    """With `x-death`, when the broker's clock has come so far."""
    with connect(own) as opened:
        channel = opened.channel()
        channel.queue_declare("dead", durable=True)
        arguments = {
            "x-message-ttl": 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        }
        channel.queue_declare("q", durable=True, arguments=arguments)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"x", PERSISTENT)
        own.advance(999)
        assert own.message_count("dead") == 0
        own.advance(1)
        own.settle()
        method, properties, body = channel.basic_get("dead", auto_ack=True)
        (death,) = properties.headers["x-death"]
        told = {key: death[key] for key in ("count", "reason", "queue", "exchange", "routing-keys")}
        expected = {
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "exchange": "",
            "routing-keys": ["q"],
        }
        assert (b"x", "dead", expected) == (body, method.routing_key, told)


def test_an_unused_queue_is_deleted(own: LocalAmqp) -> None:
    """After `x-expires`, and not while it has a consumer."""
    with connect(own) as opened:
        channel = opened.channel()
        channel.queue_declare("q", arguments={"x-expires": 1000})
        tag = channel.basic_consume("q", lambda *_: None)
        own.advance(2000)
        channel.queue_declare("q", passive=True)
        channel.basic_cancel(tag)
        own.advance(1000)
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare("q", passive=True)


def test_an_overdue_acknowledgement_closes_the_channel(own: LocalAmqp) -> None:
    """After half an hour, and the message is ready again."""
    with connect(own) as opened:
        channel = opened.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        channel.basic_get("q")
        own.advance(seconds=1801)
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.queue_declare("q")
        assert caught.value.args[0] == 406
        assert "delivery acknowledgement on channel 1 timed out" in caught.value.args[1]
        assert own.message_count("q") == 1
