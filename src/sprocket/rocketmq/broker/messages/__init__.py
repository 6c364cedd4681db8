"""From a send request to its answer.

`Sender` checks a request in RocketMQ's order and makes the record; `GroupCommit` has the records
of all who send written and synced together; `PendingAcks` tells them. A message that comes back
from a consumer is a message, too (`retry`).
"""

from sprocket.rocketmq.broker.messages.delay_levels import DelayLevels
from sprocket.rocketmq.broker.messages.group_commit import GroupCommit
from sprocket.rocketmq.broker.messages.message_copy import MessageOriginal
from sprocket.rocketmq.broker.messages.pending_acks import Ready, longest_ms
from sprocket.rocketmq.broker.messages.retry import RetryService
from sprocket.rocketmq.broker.messages.send import REGION, Sender

__all__ = [
    "REGION",
    "DelayLevels",
    "GroupCommit",
    "MessageOriginal",
    "Ready",
    "RetryService",
    "Sender",
    "longest_ms",
]
