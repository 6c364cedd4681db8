"""RabbitMQ's HTTP API, and its metrics for Prometheus: paths, permissions, JSON.

A request goes through `api`, which finds its route, asks whether its user may, and gives it to the
routes of what it is about: users, queues, … (`resources`). What a request, a caller, a list and an
answer are is in `requests`; what the answers say is in `services` and `views`.
"""

from sprocket.rabbitmq.server.management.api import ManagementApi
from sprocket.rabbitmq.server.management.requests import ApiError
from sprocket.rabbitmq.server.management.sampler import sample_for_ever
from sprocket.rabbitmq.server.management.services import Listener, NodeFacts, NodeServices

__all__ = ["ApiError", "Listener", "ManagementApi", "NodeFacts", "NodeServices", "sample_for_ever"]
