"""Messages that are to be delivered at a time.

`TimedMessages` takes them from the wheel topic into the files of `store.timer`, and delivers a copy
of each when its time has come.
"""

from sprocket.rocketmq.broker.timers.timed_messages import TimedMessages
from sprocket.rocketmq.broker.timers.waiting_counts import TimerFigures

__all__ = ["TimedMessages", "TimerFigures"]
