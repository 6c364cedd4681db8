"""Looking after a cluster: topics, groups, offsets, brokers, NameServers, messages."""

from sprocket.rocketmq.client.admin.admin import Admin

__all__ = ["Admin"]
