"""Which messages of the wheel topic are due when: RocketMQ's timer log, timer wheel and checkpoint.

`TimerFiles` is all three: records of the log are chained by the slot of their time, and the wheel
has the ends of the chains. All of it can be made again from the topic.
"""

from sprocket.rocketmq.store.timer import timer_checkpoint, timer_counts
from sprocket.rocketmq.store.timer.timer_checkpoint import TimerCheckpoint
from sprocket.rocketmq.store.timer.timer_counts import TimerCount, TimerCounts
from sprocket.rocketmq.store.timer.timer_files import NewTimer, TimerFiles
from sprocket.rocketmq.store.timer.timer_log import (
    DEFAULT,
    DELETE,
    ROLL,
    TimerLog,
    TimerRecord,
)
from sprocket.rocketmq.store.timer.timer_wheel import SLOT, SLOT_BYTES, TimerWheel

__all__ = [
    "DEFAULT",
    "DELETE",
    "ROLL",
    "SLOT",
    "SLOT_BYTES",
    "NewTimer",
    "TimerCheckpoint",
    "TimerCount",
    "TimerCounts",
    "TimerFiles",
    "TimerLog",
    "TimerRecord",
    "TimerWheel",
    "timer_checkpoint",
    "timer_counts",
]
