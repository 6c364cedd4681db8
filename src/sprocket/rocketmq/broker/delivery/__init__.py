"""Messages on their way out.

`PullService` checks a pull in RocketMQ's order and reads; `PullHold` keeps those that found
nothing until something arrives; `OffsetService` tells and moves where groups go on; `query` finds
messages by key, id and time; `ReplicaChoice` says where consumers read on when several brokers
have the same log.
"""

from sprocket.rocketmq.broker.delivery.offset_service import CommitOutcome, OffsetService
from sprocket.rocketmq.broker.delivery.pull import Pulled, PullForbidden, PullOutcome, PullService
from sprocket.rocketmq.broker.delivery.pull_hold import HeldPull, PullHold
from sprocket.rocketmq.broker.delivery.query import Queries
from sprocket.rocketmq.broker.delivery.replica_choice import ReplicaChoice

__all__ = [
    "CommitOutcome",
    "HeldPull",
    "OffsetService",
    "PullForbidden",
    "PullHold",
    "PullOutcome",
    "PullService",
    "Pulled",
    "Queries",
    "ReplicaChoice",
]
