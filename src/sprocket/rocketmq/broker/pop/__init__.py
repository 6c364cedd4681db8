"""POP: messages are given to whoever asks, and come again unless they are acknowledged in time."""

from sprocket.rocketmq.broker.pop.in_flight import COUNT_MAX, InFlight, Pop, PopId, PoppedQueue
from sprocket.rocketmq.broker.pop.orders import Orders, PopAttempt
from sprocket.rocketmq.broker.pop.pop_hold import HeldPop, PopHold
from sprocket.rocketmq.broker.pop.pop_service import (
    ALL_QUEUES,
    AckOutcome,
    PopOutcome,
    Popped,
    PoppedPart,
    PopService,
    Visibility,
    retry_topics,
)
from sprocket.rocketmq.broker.pop.revive_log import Names, ReviveLog
from sprocket.rocketmq.broker.pop.reviver import Reviver

__all__ = [
    "ALL_QUEUES",
    "COUNT_MAX",
    "AckOutcome",
    "HeldPop",
    "InFlight",
    "Names",
    "Orders",
    "Pop",
    "PopAttempt",
    "PopHold",
    "PopId",
    "PopOutcome",
    "PopService",
    "Popped",
    "PoppedPart",
    "PoppedQueue",
    "ReviveLog",
    "Reviver",
    "Visibility",
    "retry_topics",
]
