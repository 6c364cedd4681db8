"""A span of OpenTelemetry for each send; its context goes along in the message's properties.

Source: OpenTelemetry, semantic conventions for messaging spans, and for RocketMQ.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.producer.outgoing import TIMERS, Outgoing, Reply
from sprocket.rocketmq.client.tracing import SYSTEM
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import Message

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue


class SendSpans:
    """Makes messages ready, each send or batch with a span that ends with its outcome.

    Args:
        tracer: The program's.
        client_id: The client's.
        group: The producer's.
    """

    def __init__(self, tracer: "Tracer", client_id: str, group: str) -> None:
        self._tracer = tracer
        self._common: dict[str, AttributeValue] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.client.id": client_id,
            "messaging.rocketmq.client_group": group,
        }

    def prepared(
        self, messages: Sequence[Message], prepare: Callable[[Sequence[Message]], Outgoing]
    ) -> Outgoing:
        """Return what `prepare` makes of messages that have the span's context.

        Args:
            messages: As the user gave them, checked. One that has a context keeps it.
            prepare: Makes one message, or a batch, ready to send.

        Raises:
            ClientError: As of `prepare`.
        """
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind, set_span_in_context

        first = messages[0]
        attributes = {
            **self._common,
            "messaging.destination.name": first.topic,
            "messaging.message.body.size": sum(len(one.body) for one in messages),
        }
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = len(messages)
        else:
            attributes |= _of_message(first)
        span = self._tracer.start_span(
            f"send {first.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        context: dict[str, str] = {}
        propagate.inject(context, set_span_in_context(span))
        marked = [replace(one, properties={**context, **one.properties}) for one in messages]
        try:
            one = prepare(marked)
        except ClientError as error:
            _fail(span, error)
            raise
        one.ended = partial(_end, span)
        return one


def _end(span: "Span", reply: Reply | None) -> None:
    """End a span with what came of its send; None where nobody replies."""
    if reply is None:
        span.end()
    elif reply.cancelled():
        _fail(span, asyncio.CancelledError())
    elif (error := reply.exception()) is not None:
        _fail(span, error)
    else:
        told = reply.result()
        result = told[0] if isinstance(told, list) else told
        span.set_attribute("messaging.message.id", result.message_id)
        span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
        span.end()


def _fail(span: "Span", error: BaseException) -> None:
    from opentelemetry.trace import StatusCode

    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(StatusCode.ERROR, str(error))
    span.end()


def _of_message(message: Message) -> "dict[str, AttributeValue]":
    """Return what is said of a message that goes alone."""
    found: dict[str, AttributeValue] = {"messaging.rocketmq.message.type": _kind(message)}
    if message.tag:
        found["messaging.rocketmq.message.tag"] = message.tag
    if message.keys:
        found["messaging.rocketmq.message.keys"] = list(message.keys)
    if message.delay_level:
        found["messaging.rocketmq.message.delay_time_level"] = message.delay_level
    return found


def _kind(message: Message) -> str:
    if properties.TRAN_MSG in message.properties:
        return "transaction"
    is_delayed = message.delay_level or not TIMERS.isdisjoint(message.properties)
    return "delay" if is_delayed else "normal"
