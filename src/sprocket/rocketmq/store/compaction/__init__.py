"""Compaction topics: the last message of each key, kept when the log is cleaned.

`Compactions` has all of them: it copies new messages (`following`), lets rounds drop what newer
ones replaced (`rounds`), and takes up what a crash left (`loading`). `compacted_reader` reads a
queue as consumers see it, `checking` says what is wrong, `copies` are for backups. The files are
RocketMQ's, see `docs/formats/compaction-files.md`.
"""

from sprocket.rocketmq.store.compaction import checking, compacted_reader
from sprocket.rocketmq.store.compaction.compacted_queue import CompactedQueue
from sprocket.rocketmq.store.compaction.compactions import Compactions
from sprocket.rocketmq.store.compaction.copies import copy_kept, copy_without
from sprocket.rocketmq.store.compaction.loading import LastEnd

__all__ = [
    "CompactedQueue",
    "Compactions",
    "LastEnd",
    "checking",
    "compacted_reader",
    "copy_kept",
    "copy_without",
]
