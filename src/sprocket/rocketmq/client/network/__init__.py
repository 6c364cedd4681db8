"""What every client shares: connections, routes, and the requests to brokers.

`ClientInstance` has an identity and sends heartbeats; several producers and consumers may hold a
share of one (`lease`). `Routes` knows which broker serves which topic.
"""

from sprocket.rocketmq.client.network.answers import granted, read
from sprocket.rocketmq.client.network.broker_calls import BrokerCalls, Pull, PullResult, PullStatus
from sprocket.rocketmq.client.network.client_instance import ClientInstance, JoinedGroup
from sprocket.rocketmq.client.network.connections import Connections
from sprocket.rocketmq.client.network.lease import Client, ClientOptions, Lease, Where
from sprocket.rocketmq.client.network.retry import Backoff
from sprocket.rocketmq.client.network.routes import Routes

__all__ = [
    "Backoff",
    "BrokerCalls",
    "Client",
    "ClientInstance",
    "ClientOptions",
    "Connections",
    "JoinedGroup",
    "Lease",
    "Pull",
    "PullResult",
    "PullStatus",
    "Routes",
    "Where",
    "granted",
    "read",
]
