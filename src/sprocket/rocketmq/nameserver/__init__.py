"""The NameServer: which broker serves which topic."""

from sprocket.rocketmq.nameserver import key_values
from sprocket.rocketmq.nameserver.key_values import ORDER_NAMESPACE, KeyValues
from sprocket.rocketmq.nameserver.lookup import Lookup
from sprocket.rocketmq.nameserver.nameserver import NameServer
from sprocket.rocketmq.nameserver.routes import BrokerRegistration, RouteTables

__all__ = [
    "ORDER_NAMESPACE",
    "BrokerRegistration",
    "KeyValues",
    "Lookup",
    "NameServer",
    "RouteTables",
    "key_values",
]
