"""The commit log: every record of every topic, one after the other, in files of one size.

`Appender` takes records up and gives each its place in its queue (`OffsetAssigner`), `CommitLog`
writes them, `Flusher` makes them durable and prepares the disk ahead. `LogScanner` scans
what is there, past damage. Only the log counts; every other file can be made from it.
"""

from sprocket.rocketmq.store.log import log_repair
from sprocket.rocketmq.store.log.appender import Appended, AppendedBatch, Appender
from sprocket.rocketmq.store.log.commit_log import CommitLog, RunWrite
from sprocket.rocketmq.store.log.flusher import FillJob, Flusher, LogSync
from sprocket.rocketmq.store.log.log_repair import PADDING_TOPIC
from sprocket.rocketmq.store.log.log_scanner import (
    PROBE_BYTES,
    Damage,
    LogScanner,
    Misplaced,
    glance,
    intact_entry,
)
from sprocket.rocketmq.store.log.log_stream import LogStream, StoredRecords
from sprocket.rocketmq.store.log.offset_assigner import OffsetAssigner, check_queue
from sprocket.rocketmq.store.log.page_cache import PageCache, memory_bytes
from sprocket.rocketmq.store.log.tail import KEPT_BYTES_MAX, Tail

__all__ = [
    "KEPT_BYTES_MAX",
    "PADDING_TOPIC",
    "PROBE_BYTES",
    "Appended",
    "AppendedBatch",
    "Appender",
    "CommitLog",
    "Damage",
    "FillJob",
    "Flusher",
    "LogScanner",
    "LogStream",
    "LogSync",
    "Misplaced",
    "OffsetAssigner",
    "PageCache",
    "RunWrite",
    "StoredRecords",
    "Tail",
    "check_queue",
    "glance",
    "intact_entry",
    "log_repair",
    "memory_bytes",
]
