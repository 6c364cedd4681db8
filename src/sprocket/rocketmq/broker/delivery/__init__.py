"""From a pull request to its answer.

`PullService` checks a request in RocketMQ's order and reads; `PullHold` keeps those that found
nothing until something arrives; `query` finds messages by key, id and time.
"""

from sprocket.rocketmq.broker.delivery.pull import Pulled, PullForbidden, PullService
from sprocket.rocketmq.broker.delivery.pull_hold import HeldPull, PullHold
from sprocket.rocketmq.broker.delivery.query import Queries

__all__ = ["HeldPull", "PullForbidden", "PullHold", "PullService", "Pulled", "Queries"]
