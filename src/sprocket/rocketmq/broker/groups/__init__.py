"""Consumer groups: their settings, who is connected, who may read which queue, how far they are.

`Groups` keeps the settings, `ClientManager` the connected clients, `QueueLocks` who reads a queue
alone, `ConsumerOffsets` what was committed, and `progress` compares that with the queues.
`Assignments` divides queues for clients that do not do it themselves.
"""

from sprocket.rocketmq.broker.groups.assignments import Assignments
from sprocket.rocketmq.broker.groups.client_manager import (
    ClientManager,
    ConnectedClient,
    ConnectedGroup,
    Link,
)
from sprocket.rocketmq.broker.groups.groups import READ_FORBIDDEN, Groups
from sprocket.rocketmq.broker.groups.membership import make_group_of
from sprocket.rocketmq.broker.groups.offsets import ConsumerOffsets
from sprocket.rocketmq.broker.groups.progress import Progress
from sprocket.rocketmq.broker.groups.queue_locks import QueueLocks
from sprocket.rocketmq.broker.groups.request_modes import RequestModes

__all__ = [
    "READ_FORBIDDEN",
    "Assignments",
    "ClientManager",
    "ConnectedClient",
    "ConnectedGroup",
    "ConsumerOffsets",
    "Groups",
    "Link",
    "Progress",
    "QueueLocks",
    "RequestModes",
    "make_group_of",
]
