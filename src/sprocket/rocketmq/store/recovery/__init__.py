"""What happens between the last life of a store and the next one.

`recovery.recover` brings queues and index into agreement with the log and reports what it did;
`Checkpointer` makes derived files durable while a store is open and leaves the checkpoint from
which the next recovery begins. `Deletions` keeps what became of deleted topics.
"""

from sprocket.rocketmq.store.recovery import checkpoint, recovery
from sprocket.rocketmq.store.recovery.checkpoint import CHECKPOINT_BYTES, Checkpoint
from sprocket.rocketmq.store.recovery.checkpointer import Checkpointer
from sprocket.rocketmq.store.recovery.deletions import Deleter, Deletions
from sprocket.rocketmq.store.recovery.recovery import (
    RecoveryReport,
    StoreParts,
    keep_report,
    load_to_read,
)

__all__ = [
    "CHECKPOINT_BYTES",
    "Checkpoint",
    "Checkpointer",
    "Deleter",
    "Deletions",
    "RecoveryReport",
    "StoreParts",
    "checkpoint",
    "keep_report",
    "load_to_read",
    "recovery",
]
