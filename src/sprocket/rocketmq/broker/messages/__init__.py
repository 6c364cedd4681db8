"""From a send request to its answer.

`Sender` checks a request in RocketMQ's order, asks its `diverters` where it goes and makes the
record; `DurableAppender` has the records of all who send written and synced together
(`runtime.group_commit`); `pending_acks` tells them; `ReputRounds` puts them into queues and index.
A message that comes back from a consumer is a message, too (`retry`).
"""

from sprocket.rocketmq.broker.messages import pending_acks
from sprocket.rocketmq.broker.messages.delay_levels import DelayLevels
from sprocket.rocketmq.broker.messages.half_messages import hide, refuse_transactional
from sprocket.rocketmq.broker.messages.message_copy import copy_of
from sprocket.rocketmq.broker.messages.pending_acks import (
    Commits,
    DurableAppender,
    OutgoingAnswer,
    Release,
    longest_ms,
)
from sprocket.rocketmq.broker.messages.recalls import Recalls
from sprocket.rocketmq.broker.messages.reput_rounds import ReputRounds
from sprocket.rocketmq.broker.messages.retry import RetryLimit, RetryService
from sprocket.rocketmq.broker.messages.send import REGION, Sender, Stamp
from sprocket.rocketmq.broker.messages.send_results import real_queue_id, recall_handle_of
from sprocket.rocketmq.broker.messages.timer_requests import TimerRequests
from sprocket.rocketmq.broker.messages.waits import EXAMINED, Waits

__all__ = [
    "EXAMINED",
    "REGION",
    "Commits",
    "DelayLevels",
    "DurableAppender",
    "OutgoingAnswer",
    "Recalls",
    "Release",
    "ReputRounds",
    "RetryLimit",
    "RetryService",
    "Sender",
    "Stamp",
    "TimerRequests",
    "Waits",
    "copy_of",
    "hide",
    "longest_ms",
    "pending_acks",
    "real_queue_id",
    "recall_handle_of",
    "refuse_transactional",
]
