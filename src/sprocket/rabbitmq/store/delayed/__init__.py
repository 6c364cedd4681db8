"""Messages that exchanges keep until they are due, of one virtual host.

`DelayedStore` is it while we run, `recover` brings what a crash left in the log into files,
`open_clean` takes what a clean stop left, `dry_run` changes nothing. Runs are sorted files.
`WaitingMessages` shows what is in a folder that nobody has open.
"""

from sprocket.rabbitmq.store.delayed.delayed_store import DelayedMessage, DelayedStore
from sprocket.rabbitmq.store.delayed.opening import (
    DelayedContents,
    check,
    dry_run,
    open_clean,
    recover,
)
from sprocket.rabbitmq.store.delayed.runs import check_run
from sprocket.rabbitmq.store.delayed.waiting import WaitingMessages

__all__ = [
    "DelayedContents",
    "DelayedMessage",
    "DelayedStore",
    "WaitingMessages",
    "check",
    "check_run",
    "dry_run",
    "open_clean",
    "recover",
]
