"""OpenTelemetry in programs that use it.

A program uses it if it has set a tracer provider when a producer or a consumer is opened. In others
nothing of OpenTelemetry is imported, and nothing is done.
"""

import sys
from typing import TYPE_CHECKING

from sprocket import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SYSTEM = "rocketmq"
"""The attribute `messaging.system`."""


def tracer_if_used() -> "Tracer | None":
    """Return what makes spans, if this program uses OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer("sprocket", __version__)
