"""RabbitMQ's HTTP API, and its metrics for Prometheus: paths, permissions, JSON.

A request goes through `api`, which finds its route, asks `callers` whether its user may, and gives
it to one of the modules named after what they answer about (`queues`, `users`, …). Those turn
values of the broker's services into JSON, and nothing else does.
"""

from sprocket.rabbitmq.server.management.answers import ApiError
from sprocket.rabbitmq.server.management.api import ManagementApi
from sprocket.rabbitmq.server.management.served import Listener, NodeFacts, Served

__all__ = ["ApiError", "Listener", "ManagementApi", "NodeFacts", "Served"]
