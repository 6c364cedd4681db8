"""Policies: which are there, which of them is in force for a queue or an exchange, and as what.

`Policies` keeps them, `options` puts them together with the arguments of a queue.
"""

from sprocket.rabbitmq.broker.policies.options import queue_options
from sprocket.rabbitmq.broker.policies.policies import (
    NOTHING_IN_FORCE,
    InForce,
    Policies,
    VhostPolicies,
)
from sprocket.rabbitmq.broker.policies.validation import check_vhost_limits

__all__ = [
    "NOTHING_IN_FORCE",
    "InForce",
    "Policies",
    "VhostPolicies",
    "check_vhost_limits",
    "queue_options",
]
