"""The shared store of larger messages: opened, added to, read, collected, closed.

`MessageStore` is it while we run, `collect_steps` gives back room, `close_steps` leaves what the
next start needs, `open_clean` takes that if it is right; else `recover` looks at every file.
"""

from sprocket.rabbitmq.store.message_store.collecting import collect_steps, is_collect_due
from sprocket.rabbitmq.store.message_store.message_store import (
    KeptMessage,
    MessageStore,
    StoreContents,
    StoreFile,
)
from sprocket.rabbitmq.store.message_store.opening import (
    RecoveredStore,
    clean_crc,
    close_steps,
    dry_run,
    dry_run_clean,
    open_clean,
    recover,
)

__all__ = [
    "KeptMessage",
    "MessageStore",
    "RecoveredStore",
    "StoreContents",
    "StoreFile",
    "clean_crc",
    "close_steps",
    "collect_steps",
    "dry_run",
    "dry_run_clean",
    "is_collect_due",
    "open_clean",
    "recover",
]
