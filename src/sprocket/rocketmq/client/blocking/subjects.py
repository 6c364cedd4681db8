"""The parts of a blocking admin, a class for each subject; see `client.admin`."""

from sprocket.rocketmq.client.admin import (
    BrokerAdmin,
    GroupAdmin,
    MessageAdmin,
    NameServerAdmin,
    OffsetAdmin,
    TopicAdmin,
)
from sprocket.rocketmq.client.blocking.portal import Twin, calling


class BlockingTopicAdmin(Twin[TopicAdmin]):
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


class BlockingGroupAdmin(Twin[GroupAdmin]):
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


class BlockingBrokerAdmin(Twin[BrokerAdmin]):
    """What can be done with brokers, by name; see `client.Admin`."""

    status = calling(BrokerAdmin.status)
    config = calling(BrokerAdmin.config)
    update_config = calling(BrokerAdmin.update_config)
    stats = calling(BrokerAdmin.stats)
    consume_stats = calling(BrokerAdmin.consume_stats)
    producers = calling(BrokerAdmin.producers)
    queue_units = calling(BrokerAdmin.queue_units)
    clean_expired_queues = calling(BrokerAdmin.clean_expired_queues)
    clean_unused_topics = calling(BrokerAdmin.clean_unused_topics)
    delete_expired_log = calling(BrokerAdmin.delete_expired_log)


class BlockingNameServerAdmin(Twin[NameServerAdmin]):
    """What can be done with NameServers; see `client.Admin`."""

    put = calling(NameServerAdmin.put)
    get = calling(NameServerAdmin.get)
    delete = calling(NameServerAdmin.delete)
    values = calling(NameServerAdmin.values)
    config = calling(NameServerAdmin.config)
    update_config = calling(NameServerAdmin.update_config)
    wipe_write_permission = calling(NameServerAdmin.wipe_write_permission)
    add_write_permission = calling(NameServerAdmin.add_write_permission)


class BlockingMessageAdmin(Twin[MessageAdmin]):
    """How single messages are found; see `client.Admin`."""

    by_key = calling(MessageAdmin.by_key)
    by_id = calling(MessageAdmin.by_id)


class BlockingOffsetAdmin(Twin[OffsetAdmin]):
    """What can be asked of single queues; see `client.Admin`."""

    max = calling(OffsetAdmin.max)
    min = calling(OffsetAdmin.min)
    by_time = calling(OffsetAdmin.by_time)
    earliest_at_ms = calling(OffsetAdmin.earliest_at_ms)
    committed = calling(OffsetAdmin.committed)
    commit = calling(OffsetAdmin.commit)
