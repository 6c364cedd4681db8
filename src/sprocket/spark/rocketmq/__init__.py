"""The data source `rocketmq`: a store's folder as a DataFrame, topics as streams.

`source` is what Spark calls, `plan` cuts a folder into slices, `scan` and `decode` turn each into
Arrow batches; `live` and `stream` read topics over the wire, `sink` writes to them.
"""

from sprocket.spark.rocketmq.folder.beyond_end import FoundRecord, IsTaken, records_behind
from sprocket.spark.rocketmq.folder.copied import copy_records
from sprocket.spark.rocketmq.folder.known_topics import topics_of
from sprocket.spark.rocketmq.folder.plan import (
    likely_starts,
    log_files,
    require_store,
    task_bytes,
)
from sprocket.spark.rocketmq.folder.queue_files import queue_files
from sprocket.spark.rocketmq.folder.scan import DamagedRange
from sprocket.spark.rocketmq.folder.stored import Stored, start_of
from sprocket.spark.rocketmq.options import read_sink
from sprocket.spark.rocketmq.rows.batches import columns_of_view
from sprocket.spark.rocketmq.source import RocketMQSource

__all__ = [
    "DamagedRange",
    "FoundRecord",
    "IsTaken",
    "RocketMQSource",
    "Stored",
    "columns_of_view",
    "copy_records",
    "likely_starts",
    "log_files",
    "queue_files",
    "read_sink",
    "records_behind",
    "require_store",
    "start_of",
    "task_bytes",
    "topics_of",
]
