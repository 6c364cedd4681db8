"""Compaction topics: the last message of each key, kept when the log is cleaned.

`Compactions` has all of them: it copies new messages (`following`), lets rounds drop what newer
ones replaced (`rounds`), and takes up what a crash left (`loading`). `compacted_reader` reads a
queue as consumers see it, `checking` says what is wrong, `copies` are for backups; `swap`
says which files count in the middle of a round. The files are
RocketMQ's, see `docs/formats/compaction-files.md`.
"""

from sprocket.rocketmq.store.compaction import checking, compacted_reader, swap
from sprocket.rocketmq.store.compaction.compacted_queue import CompactedQueue
from sprocket.rocketmq.store.compaction.compactions import Compactions
from sprocket.rocketmq.store.compaction.copies import copy_kept, copy_without
from sprocket.rocketmq.store.compaction.loading import LastEnd
from sprocket.rocketmq.store.compaction.queue_folders import QueueFolders

__all__ = [
    "CompactedQueue",
    "Compactions",
    "LastEnd",
    "QueueFolders",
    "checking",
    "compacted_reader",
    "copy_kept",
    "copy_without",
    "swap",
]
