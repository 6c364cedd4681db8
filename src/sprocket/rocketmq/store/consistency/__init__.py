"""Whether log, queues and index agree, over the whole of a store or a part of it.

`LogCheck` scans a range of the log and gives its records in rounds; `UnitCheck`, `QueueCheck`,
`BatchCheck` and `IndexCheck` hold what is derived against them and report each broken `Rule` as a
`Finding`. `compare` has those go along with a scan that are `Comparison`s.
A check of a store runs all of them from its first record to its last; recovery runs the first two
over the last part of what it would trust (`range_check`). Nothing is changed here.
"""

from sprocket.rocketmq.store.consistency import range_check
from sprocket.rocketmq.store.consistency.batch_check import BatchCheck
from sprocket.rocketmq.store.consistency.comparison import Comparison, compare, unread
from sprocket.rocketmq.store.consistency.finding import Finding, Rule, row
from sprocket.rocketmq.store.consistency.index_check import (
    EntryPlace,
    IndexCheck,
    IndexFolder,
    IndexRun,
    IndexRunCheck,
)
from sprocket.rocketmq.store.consistency.log_check import (
    CheckedLog,
    LogCheck,
    Moment,
    ScannedBefore,
    log_segments,
)
from sprocket.rocketmq.store.consistency.queue_check import QueueCheck, UnitCheck, UnitRun
from sprocket.rocketmq.store.consistency.unit_files import (
    StoredUnits,
    UnitFiles,
    Units,
    queues_in,
)

__all__ = [
    "BatchCheck",
    "CheckedLog",
    "Comparison",
    "EntryPlace",
    "Finding",
    "IndexCheck",
    "IndexFolder",
    "IndexRun",
    "IndexRunCheck",
    "LogCheck",
    "Moment",
    "QueueCheck",
    "Rule",
    "ScannedBefore",
    "StoredUnits",
    "UnitCheck",
    "UnitFiles",
    "UnitRun",
    "Units",
    "compare",
    "log_segments",
    "queues_in",
    "range_check",
    "row",
    "unread",
]
