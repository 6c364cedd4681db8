"""The broker as a client of NameServers, which it asks and tells by remoting.

`Registration` tells every one of them which broker this is and which topics it has; `RouteLookup`
asks them which queues a topic has on other brokers.
"""

from sprocket.rocketmq.server.nameservers.registration import (
    BrokerNameServers,
    Identity,
    MasterAddresses,
    Registration,
)
from sprocket.rocketmq.server.nameservers.route_lookup import FRESH_SECONDS, RouteLookup

__all__ = [
    "FRESH_SECONDS",
    "BrokerNameServers",
    "Identity",
    "MasterAddresses",
    "Registration",
    "RouteLookup",
]
