"""Looking after a cluster, from programs without an event loop."""

from typing import Unpack

from sprocket.rocketmq.client import admin as _admin
from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, calling
from sprocket.rocketmq.client.blocking.subjects import (
    BlockingBrokerAdmin,
    BlockingGroupAdmin,
    BlockingMessageAdmin,
    BlockingNameServerAdmin,
    BlockingOffsetAdmin,
    BlockingTopicAdmin,
)
from sprocket.rocketmq.client.network import ClientOptions


class BlockingAdmin(OpenedTwin[_admin.Admin]):
    """Creates topics and groups, watches them, finds messages; see `client.Admin`."""

    def __init__(self, where: Where, **options: Unpack[ClientOptions]) -> None:
        super().__init__("admin", where, lambda at: _admin.Admin(at, **options))
        self.topic = BlockingTopicAdmin(self._run, self._awaited.topic)
        self.group = BlockingGroupAdmin(self._run, self._awaited.group)
        self.broker = BlockingBrokerAdmin(self._run, self._awaited.broker)
        self.nameserver = BlockingNameServerAdmin(self._run, self._awaited.nameserver)
        self.message = BlockingMessageAdmin(self._run, self._awaited.message)
        self.offset = BlockingOffsetAdmin(self._run, self._awaited.offset)

    create_topic = calling(_admin.Admin.create_topic)
    route = calling(_admin.Admin.route)
    queues = calling(_admin.Admin.queues)
    topics = calling(_admin.Admin.topics)
    cluster = calling(_admin.Admin.cluster)
    max_offset = calling(_admin.Admin.max_offset)
    min_offset = calling(_admin.Admin.min_offset)
    offset_by_time = calling(_admin.Admin.offset_by_time)
    query_by_key = calling(_admin.Admin.query_by_key)
    view = calling(_admin.Admin.view)
