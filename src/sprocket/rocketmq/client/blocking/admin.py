"""Looking after a cluster, from programs without an event loop; a class for each subject."""

from typing import Unpack

from sprocket.rocketmq.client.admin import (
    Admin,
    BrokerAdmin,
    FailoverAdmin,
    GroupAdmin,
    MessageAdmin,
    NameServerAdmin,
    OffsetAdmin,
    RightsAdmin,
    TopicAdmin,
)
from sprocket.rocketmq.client.blocking.wrapper import OpenedWrapper, Where, Wrapper, calling
from sprocket.rocketmq.client.network import ClientOptions


class BlockingTopicAdmin(Wrapper[TopicAdmin]):
    """What can be done with topics; see `client.Admin`."""

    create = calling(TopicAdmin.create)
    set_permission = calling(TopicAdmin.set_permission)
    delete = calling(TopicAdmin.delete)
    names = calling(TopicAdmin.names)
    route = calling(TopicAdmin.route)
    queues = calling(TopicAdmin.queues)
    config = calling(TopicAdmin.config)
    configs = calling(TopicAdmin.configs)
    stats = calling(TopicAdmin.stats)
    groups = calling(TopicAdmin.groups)


class BlockingGroupAdmin(Wrapper[GroupAdmin]):
    """What can be done with groups; see `client.Admin`."""

    create = calling(GroupAdmin.create)
    delete = calling(GroupAdmin.delete)
    names = calling(GroupAdmin.names)
    get = calling(GroupAdmin.get)
    topics = calling(GroupAdmin.topics)
    progress = calling(GroupAdmin.progress)
    consumers = calling(GroupAdmin.consumers)
    producers = calling(GroupAdmin.producers)
    running_info = calling(GroupAdmin.running_info)
    consume_directly = calling(GroupAdmin.consume_directly)
    reset_offsets = calling(GroupAdmin.reset_offsets)
    clone_offsets = calling(GroupAdmin.clone_offsets)


class BlockingBrokerAdmin(Wrapper[BrokerAdmin]):
    """What can be done with brokers, by name; see `client.Admin`."""

    status = calling(BrokerAdmin.status)
    replicas = calling(BrokerAdmin.replicas)
    record = calling(BrokerAdmin.record)
    config = calling(BrokerAdmin.config)
    update_config = calling(BrokerAdmin.update_config)
    stats = calling(BrokerAdmin.stats)
    consume_stats = calling(BrokerAdmin.consume_stats)
    producers = calling(BrokerAdmin.producers)
    queue_units = calling(BrokerAdmin.queue_units)
    clean_expired_queues = calling(BrokerAdmin.clean_expired_queues)
    clean_unused_topics = calling(BrokerAdmin.clean_unused_topics)
    delete_expired_log = calling(BrokerAdmin.delete_expired_log)


class BlockingNameServerAdmin(Wrapper[NameServerAdmin]):
    """What can be done with NameServers; see `client.Admin`."""

    put = calling(NameServerAdmin.put)
    get = calling(NameServerAdmin.get)
    delete = calling(NameServerAdmin.delete)
    values = calling(NameServerAdmin.values)
    config = calling(NameServerAdmin.config)
    update_config = calling(NameServerAdmin.update_config)
    wipe_write_permission = calling(NameServerAdmin.wipe_write_permission)
    add_write_permission = calling(NameServerAdmin.add_write_permission)


class BlockingMessageAdmin(Wrapper[MessageAdmin]):
    """How single messages are found; see `client.Admin`."""

    by_key = calling(MessageAdmin.by_key)
    by_id = calling(MessageAdmin.by_id)
    halves = calling(MessageAdmin.halves)
    resume_check = calling(MessageAdmin.resume_check)


class BlockingOffsetAdmin(Wrapper[OffsetAdmin]):
    """What can be asked of single queues; see `client.Admin`."""

    max = calling(OffsetAdmin.max)
    min = calling(OffsetAdmin.min)
    by_time = calling(OffsetAdmin.by_time)
    earliest_at_ms = calling(OffsetAdmin.earliest_at_ms)
    committed = calling(OffsetAdmin.committed)
    commit = calling(OffsetAdmin.commit)


class BlockingFailoverAdmin(Wrapper[FailoverAdmin]):
    """What can be done with sets of machines with the same log; see `client.Admin`."""

    views = calling(FailoverAdmin.views)
    begin = calling(FailoverAdmin.begin)
    hand_over = calling(FailoverAdmin.hand_over)
    designate = calling(FailoverAdmin.designate)
    master = calling(FailoverAdmin.master)
    next_master = calling(FailoverAdmin.next_master)


class BlockingRightsAdmin(Wrapper[RightsAdmin]):
    """What can be done with users and policies; see `client.Admin`."""

    create_user = calling(RightsAdmin.create_user)
    update_user = calling(RightsAdmin.update_user)
    delete_user = calling(RightsAdmin.delete_user)
    users = calling(RightsAdmin.users)
    put_policy = calling(RightsAdmin.put_policy)
    delete_policy = calling(RightsAdmin.delete_policy)
    policies = calling(RightsAdmin.policies)


class BlockingAdmin(OpenedWrapper[Admin]):
    """Creates topics and groups, watches them, finds messages; see `client.Admin`."""

    def __init__(self, where: Where, **options: Unpack[ClientOptions]) -> None:
        super().__init__("admin", where, lambda at: Admin(at, **options))
        self.topic = BlockingTopicAdmin(self._run, self._awaited.topic)
        self.group = BlockingGroupAdmin(self._run, self._awaited.group)
        self.broker = BlockingBrokerAdmin(self._run, self._awaited.broker)
        self.failover = BlockingFailoverAdmin(self._run, self._awaited.failover)
        self.nameserver = BlockingNameServerAdmin(self._run, self._awaited.nameserver)
        self.message = BlockingMessageAdmin(self._run, self._awaited.message)
        self.offset = BlockingOffsetAdmin(self._run, self._awaited.offset)
        self.rights = BlockingRightsAdmin(self._run, self._awaited.rights)

    create_topic = calling(Admin.create_topic)
    route = calling(Admin.route)
    queues = calling(Admin.queues)
    topics = calling(Admin.topics)
    cluster = calling(Admin.cluster)
    max_offset = calling(Admin.max_offset)
    min_offset = calling(Admin.min_offset)
    offset_by_time = calling(Admin.offset_by_time)
    query_by_key = calling(Admin.query_by_key)
    view = calling(Admin.view)
