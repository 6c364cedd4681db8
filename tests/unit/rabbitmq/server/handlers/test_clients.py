"""Other clients than pika, unmodified: each publishes with confirms, consumes and acknowledges."""

import asyncio

import aio_pika
import kombu
import pytest
from tests.waits import LONG_SECONDS

import amqp
from sprocket.testing.local_amqp import LocalAmqp


def test_aio_pika(shared: LocalAmqp) -> None:
    """Robust connection, topic exchange, confirms, an iterator over a queue, a transaction."""

    async def main() -> None:
        async with await aio_pika.connect_robust(shared.url) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            exchange = await channel.declare_exchange("aio", aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue("aio", durable=True)
            await queue.bind(exchange, "a.#")
            sent = [b"%d" % number for number in range(50)]
            for body in sent:
                message = aio_pika.Message(body, delivery_mode=2, headers={"n": 1})
                await exchange.publish(message, "a.b")
            got = []
            async with queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        got.append(message.body)
                    if len(got) == len(sent):
                        break
            assert sent == got
            committing = await connection.channel(publisher_confirms=False)
            async with committing.transaction():
                await committing.default_exchange.publish(aio_pika.Message(b"tx"), "aio")
            found = await queue.get()
            assert found.body == b"tx"
            await found.ack()
            await queue.delete()

    asyncio.run(main())


def test_py_amqp(shared: LocalAmqp) -> None:
    """Confirms, a consumer, nack with requeue, and an error by its class."""
    with amqp.Connection(f"{shared.host}:{shared.port}", confirm_publish=True) as connection:
        channel = connection.channel()
        channel.queue_declare("py-amqp", durable=True, auto_delete=False)
        channel.basic_publish_confirm(amqp.Message("x", delivery_mode=2), routing_key="py-amqp")
        got: list[amqp.Message] = []
        tag = channel.basic_consume("py-amqp", callback=got.append)
        while not got:
            connection.drain_events(timeout=LONG_SECONDS)
        channel.basic_reject(got[0].delivery_tag, requeue=True)
        while len(got) < 2:
            connection.drain_events(timeout=LONG_SECONDS)
        assert [one.delivery_info["redelivered"] for one in got] == [False, True]
        channel.basic_ack(got[1].delivery_tag)
        channel.basic_cancel(tag)
        assert channel.queue_delete("py-amqp") == 0
        with pytest.raises(amqp.NotFound, match="no queue 'py-amqp'"):
            channel.queue_declare("py-amqp", passive=True)


def test_who_deletes_a_queue_is_answered_before_its_consumers_are_told(shared: LocalAmqp) -> None:
    """On the same channel; py-amqp raises inside `queue_delete` if the notice comes first."""
    with amqp.Connection(f"{shared.host}:{shared.port}") as connection:
        channel = connection.channel()
        for durable in (True, False):
            channel.queue_declare("own", durable=durable, auto_delete=False)
            channel.basic_consume("own")
            assert channel.queue_delete("own") == 0
            with pytest.raises(amqp.ConsumerCancelled):
                connection.drain_events(timeout=LONG_SECONDS)


def test_kombu(shared: LocalAmqp) -> None:
    """What Celery stands on: declares with each publish, consumes, and a simple queue."""
    url = shared.url.replace("amqp://", "pyamqp://")
    with kombu.Connection(url) as connection:
        exchange = kombu.Exchange("media", "direct", durable=True)
        queue = kombu.Queue("video", exchange=exchange, routing_key="video")
        producer = connection.Producer(serializer="json")
        for number in range(5):
            producer.publish({"n": number}, exchange=exchange, routing_key="video", declare=[queue])
        got: list[object] = []

        def take(body: object, message: kombu.Message) -> None:
            got.append(body)
            message.ack()

        with connection.Consumer(queue, callbacks=[take]):
            while len(got) < 5:
                connection.drain_events(timeout=LONG_SECONDS)
        assert [{"n": number} for number in range(5)] == got
        with connection.SimpleQueue("simple") as simple:
            simple.put("hello")
            message = simple.get(timeout=LONG_SECONDS)
            message.ack()
            assert message.payload == "hello"
