"""Looking after a cluster: topics, groups, offsets, brokers, NameServers, messages."""

from sprocket.rocketmq.client.admin.admin import Admin
from sprocket.rocketmq.client.admin.brokers import BrokerStatus
from sprocket.rocketmq.client.admin.messages import FOREVER_MS

__all__ = ["FOREVER_MS", "Admin", "BrokerStatus"]
