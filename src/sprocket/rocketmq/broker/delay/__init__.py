"""Messages that wait for a time before they are delivered.

`Delays` copies each to where it wants to go when its level's time has passed; how far
each level is lies in `delayOffset.json` and a journal.
"""

from sprocket.rocketmq.broker.delay.delay import Delays
from sprocket.rocketmq.broker.delay.delay_progress import DelayProgress

__all__ = ["DelayProgress", "Delays"]
