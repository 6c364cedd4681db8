"""Spans of OpenTelemetry: sends and calls of a listener are one trace, in programs that use it."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sprocket.base.errors import BrokerRefused, InvalidMessage
from sprocket.rocketmq.client import (
    ConsumerSettings,
    DeliverLater,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
)
from sprocket.rocketmq.client.blocking.listener_threads import ListenerThreads
from sprocket.rocketmq.client.tracing import spans
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.record import record


class Exported:
    """Spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def named(self, prefix: str) -> Sequence[ReadableSpan]:
        """Return those whose name begins so, in the order in which they ended."""
        return [one for one in self._exporter.get_finished_spans() if one.name.startswith(prefix)]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    """Have this program use OpenTelemetry."""
    found = Exported()
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: found.provider)
    return found


def stored_properties(world: Any, topic: str) -> list[dict[str, str]]:
    """Return the properties of what is stored in a topic."""
    return [
        dict(record.decode(one).properties)
        for (name, _), queue in world.cluster.log.items()
        for one in (queue if name == topic else [])
    ]


def test_a_send_is_a_span_of_the_current_trace(world: Any, exported: Exported) -> None:
    """Its context is in the message; the message itself is as the user has it."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        message = Message("t", b"abc", tag="A", keys=["k"], properties={"mine": "1"})
        tracer = exported.provider.get_tracer("test")
        async with Producer(world.names, group="g", **world.reach) as producer:
            with tracer.start_as_current_span("order"):
                sent = await producer.send(message)
        (order,) = exported.named("order")
        (send,) = exported.named("send t")
        assert send.parent == order.context
        assert send.kind is trace.SpanKind.PRODUCER
        assert dict(send.attributes or {}) == {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.client.id": send.attributes["messaging.client.id"],  # type: ignore[index]
            "messaging.rocketmq.client_group": "g",
            "messaging.destination.name": "t",
            "messaging.destination.partition.id": "0",
            "messaging.message.id": sent.message_id,
            "messaging.message.body.size": 3,
            "messaging.rocketmq.message.type": "normal",
            "messaging.rocketmq.message.tag": "A",
            "messaging.rocketmq.message.keys": ("k",),
        }
        (found,) = stored_properties(world, "t")
        assert send.context is not None
        assert f"{send.context.span_id:016x}" in found["traceparent"]
        assert found["mine"] == "1"
        assert message.properties == {"mine": "1"}

    world.run(main)


def test_a_batch_is_one_span(world: Any, exported: Exported) -> None:
    """All of its messages have the context, but for one that has brought its own."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        async with Producer(world.names, **world.reach) as producer:
            await producer.send_batch(
                [Message("t", b"a"), Message("t", b"bc", properties={"traceparent": own})]
            )
        (send,) = exported.named("send t")
        assert send.attributes is not None
        assert send.attributes["messaging.batch.message_count"] == 2
        assert send.attributes["messaging.message.body.size"] == 3
        first, second = stored_properties(world, "t")
        assert send.context is not None
        assert f"{send.context.trace_id:032x}" in first["traceparent"]
        assert second["traceparent"] == own

    world.run(main)


def test_every_span_ends(world: Any, exported: Exported) -> None:
    """Of what is refused here or there, with the error; of what nobody answers."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with Producer(world.names, **world.reach) as producer:
            with pytest.raises(InvalidMessage):
                await producer.send(Message("t", b""))
            await producer.send_oneway(Message("t", b"x"))
            world.cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda peer, command: (
                world.cluster.refuse(peer, command, ResponseCode.MESSAGE_ILLEGAL, "so")
            )
            with pytest.raises(BrokerRefused):
                await producer.send(Message("t", b"x", delay_level=1))
        found = exported.named("send t")
        assert [(one.attributes or {}).get("error.type") for one in found] == [
            "InvalidMessage",
            None,
            "BrokerRefused",
        ]
        assert [one.status.is_ok for one in found] == [False, True, False]

    world.run(main)


def test_a_listeners_call_goes_on_where_the_send_was(world: Any, exported: Exported) -> None:
    """What the listener does is below it; how it failed is told."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        calls: list[int] = []
        tracer = exported.provider.get_tracer("test")

        async def listener(messages: list[ReceivedMessage]) -> None:
            calls.append(len(messages))
            with tracer.start_as_current_span("work"):
                if len(calls) == 1:
                    raise DeliverLater("closed")

        reading = PushConsumer(
            world.names, group="g", listener=listener, start="first", orderly=True, **world.reach
        )
        async with Producer(world.names, **world.reach) as producer, reading:
            sent = await producer.send(Message("t", b"abc", tag="A", keys=["k"]))
            await reading.subscribe("t")
            await world.until(lambda: len(calls) == 2)
        (send,) = exported.named("send")
        failed, done = exported.named("process t")
        works = exported.named("work")
        assert [one.parent for one in works] == [failed.context, done.context]
        for one in (failed, done):
            assert one.parent is not None
            assert send.context is not None
            assert one.parent.span_id == send.context.span_id
            assert [link.context.span_id for link in one.links] == [send.context.span_id]
            assert one.kind is trace.SpanKind.CONSUMER
        assert (failed.status.is_ok, done.status.is_ok) == (False, True)
        assert done.attributes is not None
        assert done.attributes["messaging.message.id"] == sent.message_id
        assert done.attributes["messaging.consumer.group.name"] == "g"
        assert done.attributes["messaging.rocketmq.consumption_model"] == "clustering"

    world.run(main)


def test_a_call_with_many_messages_has_links(world: Any, exported: Exported) -> None:
    """One for each send; those without a context have none."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        got: list[ReceivedMessage] = []
        async with Producer(world.names, **world.reach) as producer:
            await producer.send(Message("t", b"a"))
            await producer.send(Message("t", b"b"))
        world.cluster.store("t", 0, b"c")
        async with PushConsumer(
            world.names, group="g", listener=got.extend, start="first", **world.reach
        ) as reading:
            await reading.subscribe("t")
            await world.until(lambda: len(got) == 3)
        (call,) = exported.named("process t")
        sends = [one.context.span_id for one in exported.named("send t") if one.context]
        assert [link.context.span_id for link in call.links] == sends
        assert call.attributes is not None
        assert call.attributes["messaging.batch.message_count"] == 3

    world.run(main)


def test_a_sampler_that_raises_stops_no_consumer(world: Any, exported: Exported) -> None:
    """Its call counts as one that failed; the message comes again."""

    async def main() -> None:
        got: list[ReceivedMessage] = []
        world.cluster.store("t", 0, b"a")
        start = exported.provider.sampler.should_sample
        failures = [ValueError("no")]

        def should_sample(*given: Any, **more: Any) -> Any:
            if failures:
                raise failures.pop()
            return start(*given, **more)

        exported.provider.sampler.should_sample = should_sample  # type: ignore[method-assign]
        async with PushConsumer(
            world.names, group="g", listener=got.extend, start="first", orderly=True, **world.reach
        ) as reading:
            await reading.subscribe("t")
            await world.until(lambda: len(got) == 1)
        assert failures == []
        assert len(exported.named("process t")) == 1

    world.run(main)


def test_a_thread_of_a_listener_has_the_context() -> None:
    """What a blocking listener does is below the span of its call."""
    value: ContextVar[str] = ContextVar("value", default="")

    async def main() -> str:
        value.set("mine")
        threads: ListenerThreads[None, str] = ListenerThreads(lambda _: value.get())
        try:
            return await threads.call(None)
        finally:
            await threads.close()

    assert asyncio.run(main()) == "mine"


def test_without_a_provider_or_if_it_is_not_wanted_there_are_none(
    world: Any, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages are as they are without OpenTelemetry; nor do traces of ours have spans."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        settings = ProducerSettings(telemetry=False, trace=True)
        async with Producer(world.names, settings=settings, **world.reach) as producer:
            await producer.send(Message("t", b"a"))
        got: list[ReceivedMessage] = []
        reading = PushConsumer(
            world.names, group="g", listener=got.extend, start="first",
            settings=ConsumerSettings(telemetry=False), **world.reach
        )  # fmt: skip
        async with reading:
            await reading.subscribe("t")
            await world.until(lambda: got)
        assert exported.named("") == []
        assert "traceparent" not in stored_properties(world, "t")[0]
        assert spans.tracer_if_used() is not None
        monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", trace.NoOpTracerProvider)
        assert spans.tracer_if_used() is None
        monkeypatch.delitem(sys.modules, "opentelemetry.trace")
        assert spans.tracer_if_used() is None

    world.run(main)


def test_programs_without_it_import_nothing_of_it() -> None:
    """The client alone knows its name only."""
    code = (
        "import sys, sprocket.rocketmq.client.blocking as b\n"
        "from sprocket.rocketmq.client.tracing.spans import tracer_if_used\n"
        "assert tracer_if_used() is None\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
