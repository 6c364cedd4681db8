"""What clients note about messages: `TraceWriter` sends it to the trace topic."""

from sprocket.rocketmq.client.tracing.trace_writer import TraceSender, TraceWriter

__all__ = ["TraceSender", "TraceWriter"]
