"""A store directory as a table: tasks planned, files read in slices, rows of each task.

`plan` cuts a folder into slices, `scan` turns each into Arrow batches, `reader` and `stream` are
what Spark calls; jobs use the rest.
"""

from sprocket.spark.rocketmq.folder.beyond_end import FoundRecord, IsTaken, records_behind
from sprocket.spark.rocketmq.folder.compacted import CompactedReader
from sprocket.spark.rocketmq.folder.copied import copy_records
from sprocket.spark.rocketmq.folder.known_topics import topics_of
from sprocket.spark.rocketmq.folder.lost_end import closed_log
from sprocket.spark.rocketmq.folder.plan import (
    likely_starts,
    log_files,
    require_store,
    task_bytes,
)
from sprocket.spark.rocketmq.folder.queue_files import queue_files
from sprocket.spark.rocketmq.folder.reader import DirectoryReader
from sprocket.spark.rocketmq.folder.stored import Stored, start_of
from sprocket.spark.rocketmq.folder.stream import DirectoryStream, starting_place
from sprocket.spark.rocketmq.folder.tail import GrowingLog
from sprocket.spark.rocketmq.rows.damage import DamagedRange, LeftOut

__all__ = [
    "CompactedReader",
    "DamagedRange",
    "DirectoryReader",
    "DirectoryStream",
    "FoundRecord",
    "GrowingLog",
    "IsTaken",
    "LeftOut",
    "Stored",
    "closed_log",
    "copy_records",
    "likely_starts",
    "log_files",
    "queue_files",
    "records_behind",
    "require_store",
    "start_of",
    "starting_place",
    "task_bytes",
    "topics_of",
]
