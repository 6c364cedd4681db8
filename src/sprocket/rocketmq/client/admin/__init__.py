"""Looking after a cluster: topics, groups, offsets, brokers, NameServers, messages, users."""

from sprocket.rocketmq.client.admin.admin import Admin
from sprocket.rocketmq.client.admin.brokers import BrokerAdmin, BrokerStatus
from sprocket.rocketmq.client.admin.failover import FailoverAdmin
from sprocket.rocketmq.client.admin.groups import GroupAdmin
from sprocket.rocketmq.client.admin.messages import MessageAdmin
from sprocket.rocketmq.client.admin.nameservers import NameServerAdmin
from sprocket.rocketmq.client.admin.offsets import OffsetAdmin
from sprocket.rocketmq.client.admin.rights import RightsAdmin
from sprocket.rocketmq.client.admin.topics import TopicAdmin

__all__ = [
    "Admin",
    "BrokerAdmin",
    "BrokerStatus",
    "FailoverAdmin",
    "GroupAdmin",
    "MessageAdmin",
    "NameServerAdmin",
    "OffsetAdmin",
    "RightsAdmin",
    "TopicAdmin",
]
