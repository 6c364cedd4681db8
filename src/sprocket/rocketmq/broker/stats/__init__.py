"""How much goes through a broker: counters and their rates, of each topic and group.

`meters` counts by key over the last minute, hour and day; `stats` says what is counted.
"""

from sprocket.rocketmq.broker.stats.stats import Stats

__all__ = ["Stats"]
