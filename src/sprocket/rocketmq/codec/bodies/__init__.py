"""Bodies of requests and answers: JSON, as RocketMQ's classes write and read it.

A module for each subject; what they share lies in `body_parts`.
"""

from sprocket.rocketmq.codec.bodies import (
    admin_bodies,
    body_parts,
    broker_bodies,
    client_bodies,
    consumer_bodies,
    group_bodies,
    progress_bodies,
    relay_bodies,
    stats_bodies,
)
from sprocket.rocketmq.codec.bodies.admin_bodies import (
    QueueStats,
    QueueUnit,
    QueueUnits,
    TopicsOfGroup,
    TopicStats,
    TopicTable,
)
from sprocket.rocketmq.codec.bodies.broker_bodies import ClusterInfo, DataVersion
from sprocket.rocketmq.codec.bodies.client_bodies import ConsumerData, HeartbeatData
from sprocket.rocketmq.codec.bodies.consumer_bodies import (
    DirectOutcome,
    DirectResult,
    QueueInfo,
    RunningInfo,
    TopicInfo,
)
from sprocket.rocketmq.codec.bodies.group_bodies import (
    ClientConnection,
    ConsumerConnection,
    GroupSubscription,
    GroupTable,
    ProducerInfo,
)
from sprocket.rocketmq.codec.bodies.progress_bodies import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpan,
    DelayOffsets,
    OffsetTable,
    QueueProgress,
)
from sprocket.rocketmq.codec.bodies.relay_bodies import PULL, AssignmentQuery, RequestMode
from sprocket.rocketmq.codec.bodies.stats_bodies import Rate, ReplicaStatus, StatsData

__all__ = [
    "PULL",
    "AssignmentQuery",
    "BrokerConsumeStats",
    "ClientConnection",
    "ClusterInfo",
    "ConsumeStats",
    "ConsumeTimeSpan",
    "ConsumerConnection",
    "ConsumerData",
    "DataVersion",
    "DelayOffsets",
    "DirectOutcome",
    "DirectResult",
    "GroupSubscription",
    "GroupTable",
    "HeartbeatData",
    "OffsetTable",
    "ProducerInfo",
    "QueueInfo",
    "QueueProgress",
    "QueueStats",
    "QueueUnit",
    "QueueUnits",
    "Rate",
    "ReplicaStatus",
    "RequestMode",
    "RunningInfo",
    "StatsData",
    "TopicInfo",
    "TopicStats",
    "TopicTable",
    "TopicsOfGroup",
    "admin_bodies",
    "body_parts",
    "broker_bodies",
    "client_bodies",
    "consumer_bodies",
    "group_bodies",
    "progress_bodies",
    "relay_bodies",
    "stats_bodies",
]
