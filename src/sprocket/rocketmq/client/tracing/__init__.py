"""What clients tell of messages: traces (`TraceWriter`), and spans of OpenTelemetry."""

from sprocket.rocketmq.client.tracing.spans import SYSTEM, tracer_if_used
from sprocket.rocketmq.client.tracing.trace_writer import TraceSender, TraceWriter

__all__ = ["SYSTEM", "TraceSender", "TraceWriter", "tracer_if_used"]
