"""Virtual hosts, and their exchanges, queues and bindings: what there is and where messages go.

`Vhosts` has them all, `VhostTopology` is one of them. `Requester` says who wants something.
"""

from sprocket.rabbitmq.broker.topology.arguments import EXPIRY_MS_MAX, check_consumption
from sprocket.rabbitmq.broker.topology.matching import Headers
from sprocket.rabbitmq.broker.topology.router import DELAY, Routed, no_headers
from sprocket.rabbitmq.broker.topology.vhost_topology import (
    EXCHANGE_TYPES,
    QueueDeclared,
    Removed,
    Requester,
    VhostTopology,
)
from sprocket.rabbitmq.broker.topology.vhosts import Vhosts

__all__ = [
    "DELAY",
    "EXCHANGE_TYPES",
    "EXPIRY_MS_MAX",
    "Headers",
    "QueueDeclared",
    "Removed",
    "Requester",
    "Routed",
    "VhostTopology",
    "Vhosts",
    "check_consumption",
    "no_headers",
]
