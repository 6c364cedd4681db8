"""A virtual host's folder brought into a state to continue from, whatever its last end was.

`recover` does it, `dry_run` says what would be done; both give a report. After a clean stop of ours
`open_clean` takes what that left, if it is right in every point.
"""

from sprocket.rabbitmq.store.recovery.clean import clean_file, open_clean
from sprocket.rabbitmq.store.recovery.recovery import dry_run, recover
from sprocket.rabbitmq.store.recovery.report import RecoveredQueue, RecoveredVhost, VhostReport

__all__ = [
    "RecoveredQueue",
    "RecoveredVhost",
    "VhostReport",
    "clean_file",
    "dry_run",
    "open_clean",
    "recover",
]
