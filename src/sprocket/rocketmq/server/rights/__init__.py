"""Lets requests through that are signed and allowed: reads from the wire who asks, and for what.

What users may do, `broker.rights` decides.
"""

from sprocket.rocketmq.server.rights.guard import Guard

__all__ = ["Guard"]
