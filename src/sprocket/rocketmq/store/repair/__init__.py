"""For a store that is closed: check it, salvage what is intact, change its engine.

`check` reports each broken rule and changes nothing; `parts_check` does the same in parts, which
may be checked at the same time; `salvage` copies every intact record into a
new store; `convert` moves queues from one engine to the other. `back_up_store` copies one that is
open.
"""

from sprocket.rocketmq.store.consistency import Finding, Rule, row
from sprocket.rocketmq.store.repair import check, parts_check
from sprocket.rocketmq.store.repair.backup import back_up_store
from sprocket.rocketmq.store.repair.converter import ConvertReport, convert
from sprocket.rocketmq.store.repair.salvager import salvage

__all__ = [
    "ConvertReport",
    "Finding",
    "Rule",
    "back_up_store",
    "check",
    "convert",
    "parts_check",
    "row",
    "salvage",
]
