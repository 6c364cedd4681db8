"""What a consumer finds when it comes: its group, and the topic where its messages come again."""

from sprocket.rocketmq.broker.groups.groups import Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.errors import Refused
from sprocket.rocketmq.model.group import Membership
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.topic import UNIT_SUBSCRIPTION


def make_group_of(consumer: Membership, groups: Groups, topics: Topics) -> bool:
    """Make group and retry topic of a consumer; False if the group may not exist."""
    try:
        group = groups.find(consumer.group)
    except Refused:
        return False
    retry_topic = RETRY_PREFIX + consumer.group
    if group.retry_queues > 0 and topics.get(retry_topic) is None:
        subscribed = (topics.get(one.topic) for one in consumer.subscriptions)
        topics.make_internal(
            retry_topic,
            group.retry_queues,
            order=any(topic is not None and topic.order for topic in subscribed),
            sys_flag=UNIT_SUBSCRIPTION if consumer.unit_mode else 0,
        )
    return True
