"""A span of OpenTelemetry for each call of a listener, which goes on where the sends ended.

Source: OpenTelemetry, semantic conventions for messaging spans, and for RocketMQ.
"""

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sprocket.rocketmq.client.consumer.delivery.listener import Withdrawn
from sprocket.rocketmq.client.consumer.plan import Listener
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.tracing import SYSTEM

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue


class ConsumeSpans:
    """Spans of one consumer.

    Args:
        tracer: The program's.
        client_id: The client's.
        group: The consumer's.
        message_model: What brokers call it.
    """

    def __init__(self, tracer: "Tracer", client_id: str, group: str, message_model: str) -> None:
        self._tracer = tracer
        self._common: dict[str, AttributeValue] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.client.id": client_id,
            "messaging.consumer.group.name": group,
            "messaging.rocketmq.client_group": group,
            "messaging.rocketmq.consumption_model": message_model.lower(),
        }

    def following(self, listener: Listener) -> Listener:
        """Return the listener as one whose calls are spans, each the current one meanwhile.

        The span of one message is a child of that of its send; the span of many has links to all.
        """

        async def followed(messages: list[ReceivedMessage]) -> None:
            from opentelemetry import propagate, trace

            first = messages[0]
            contexts = [propagate.extract(one.properties) for one in messages]
            found = [trace.get_current_span(one).get_span_context() for one in contexts]
            sends = {(one.trace_id, one.span_id): one for one in found if one.is_valid}
            with self._tracer.start_as_current_span(
                f"process {first.topic}",
                context=contexts[0] if len(messages) == 1 else None,
                kind=trace.SpanKind.CONSUMER,
                attributes={**self._common, **_of_messages(messages)},
                links=[trace.Link(one) for one in sends.values()],
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    result = listener(messages)
                    if result is not None and inspect.isawaitable(result):
                        await result
                except Withdrawn:
                    raise
                except BaseException as error:
                    span.record_exception(error)
                    span.set_attribute("error.type", type(error).__qualname__)
                    span.set_status(trace.StatusCode.ERROR, str(error))
                    raise

        return followed


def _of_messages(messages: Sequence[ReceivedMessage]) -> "dict[str, AttributeValue]":
    first = messages[0]
    found: dict[str, AttributeValue] = {
        "messaging.destination.name": first.topic,
        "messaging.destination.partition.id": str(first.queue.queue_id),
    }
    if len(messages) > 1:
        found["messaging.batch.message_count"] = len(messages)
        return found
    found["messaging.message.id"] = first.message_id
    if first.tag:
        found["messaging.rocketmq.message.tag"] = first.tag
    if first.keys:
        found["messaging.rocketmq.message.keys"] = list(first.keys)
    return found
