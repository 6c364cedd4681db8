"""POP: messages are given to whoever asks, and come again unless they are acknowledged in time."""

from sprocket.rocketmq.broker.pop.in_flight import InFlight, Pop, PopId, PoppedQueue
from sprocket.rocketmq.broker.pop.pop_hold import HeldPop, PopHold
from sprocket.rocketmq.broker.pop.pop_service import (
    AckOutcome,
    PopOutcome,
    Popped,
    PoppedPart,
    PopService,
    retry_topics,
)
from sprocket.rocketmq.broker.pop.reviver import Reviver

__all__ = [
    "AckOutcome",
    "HeldPop",
    "InFlight",
    "Pop",
    "PopHold",
    "PopId",
    "PopOutcome",
    "PopService",
    "Popped",
    "PoppedPart",
    "PoppedQueue",
    "Reviver",
    "retry_topics",
]
