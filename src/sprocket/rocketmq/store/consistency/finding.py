"""What a check of a store may find."""

from enum import Enum
from typing import TypeAlias

from sprocket.base import finding


class Rule(Enum):
    """What must hold of a store that was stopped; the member's name stands in JSON."""

    FILE_SIZE = "a file has the length that the store's geometry says"
    FILE_READ = "the disk gives what it was given"
    FILE_NAME = "files are named by where they begin, one following the other"
    LOG_RECORD = "the log is a row of intact records, each at its own place"
    LOG_ROOM = "behind each record there is room for a blank one in its file"
    LOG_TIME = "no record's store time is out of line with both its neighbours'"
    QUEUE_UNIT = "a queue unit, with what it has an address of, agrees with its record"
    QUEUE_MISSING = "each queueable record has a unit in its queue"
    QUEUE_STRAY = "a queue unit points at a record of its queue, before the end of the log"
    QUEUE_FILLER = "fillers stand for messages that are gone from the log, and for no others"
    INDEX_HEADER = "the header of an index file agrees with its slots, its units and the log"
    INDEX_CHAIN = "each slot of an index file leads through all its units, the newest first"
    INDEX_STRAY = "an index entry points at a record that has its key"
    INDEX_MISSING = "each key of each record can be found by the index"
    CHECKPOINT = "the checkpoint is one page of times and places, none of them below zero"
    OFFSET_BEYOND = "a group's committed offset does not lie behind the end of its queue"
    COMPACTION = "each message that is kept of a compaction topic is intact, and has its unit"
    CONFIG = "the tables in the folder config can be read"


Finding: TypeAlias = finding.Finding[Rule]
"""One broken rule of a store; its `record` is a physical offset."""


def row(found: Finding) -> dict[str, object]:
    """Return a finding as JSON shows it."""
    return found.row() | {"physical_offset": found.record if found.record >= 0 else None}
