"""Reading messages: from a queue offset on, by key, by id, by time.

`queue_reader` answers with the records as they are in the log; `key_search` and `time_search` find
where to read.
"""

from sprocket.rocketmq.store.read import key_search, queue_reader, time_search
from sprocket.rocketmq.store.read.key_search import FindResult
from sprocket.rocketmq.store.read.queue_reader import (
    GetResult,
    GetStatus,
    LogReader,
    OffsetRange,
    Reading,
)
from sprocket.rocketmq.store.read.time_search import Boundary

__all__ = [
    "Boundary",
    "FindResult",
    "GetResult",
    "GetStatus",
    "LogReader",
    "OffsetRange",
    "Reading",
    "key_search",
    "queue_reader",
    "time_search",
]
