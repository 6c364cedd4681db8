"""The queues that a consumer has: what was pulled of each, and how far the group is.

`Assignment` takes and gives them up, a `QueuePuller` fills each `ProcessQueue`, and `Offsets` are
written down by a ledger: at the brokers, or in a file.
"""

from sprocket.rocketmq.client.consumer.queues.assignment import Assignment, Locks
from sprocket.rocketmq.client.consumer.queues.offset_file import FileLedger
from sprocket.rocketmq.client.consumer.queues.offsets import BrokerLedger, Ledger, Offsets
from sprocket.rocketmq.client.consumer.queues.process_queue import NEVER, Chunk, ProcessQueue
from sprocket.rocketmq.client.consumer.queues.queue_puller import Consumption, QueuePuller

__all__ = [
    "NEVER",
    "Assignment",
    "BrokerLedger",
    "Chunk",
    "Consumption",
    "FileLedger",
    "Ledger",
    "Locks",
    "Offsets",
    "ProcessQueue",
    "QueuePuller",
]
