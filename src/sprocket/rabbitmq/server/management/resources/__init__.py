"""What the API is asked about: a class of routes for each family of paths.

Each turns values of the broker's services into JSON, and what is sent into calls of them.
"""

from sprocket.rabbitmq.server.management.resources.access import AccessRoutes
from sprocket.rabbitmq.server.management.resources.connections import ConnectionRoutes
from sprocket.rabbitmq.server.management.resources.exchanges import ExchangeRoutes
from sprocket.rabbitmq.server.management.resources.nodes import NodeRoutes
from sprocket.rabbitmq.server.management.resources.policies import PolicyRoutes
from sprocket.rabbitmq.server.management.resources.queues import QueueRoutes

__all__ = [
    "AccessRoutes",
    "ConnectionRoutes",
    "ExchangeRoutes",
    "NodeRoutes",
    "PolicyRoutes",
    "QueueRoutes",
]
