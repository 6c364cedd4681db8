"""The geometry of a store: what fixes its files. It is written into the store when it is made.

Each group is a frozen dataclass; a component is given its group and nothing else.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from sprocket.base.units import GIB, KIB, MIB

QUEUE_UNIT_BYTES = 20
"""A unit of a queue."""
BATCH_UNIT_BYTES = 46
"""A unit of a queue of batches."""
INDEX_HEADER_BYTES = 40
INDEX_SLOT_BYTES = 4
INDEX_UNIT_BYTES = 20
"""The parts of an index file."""
GEOMETRY_GROUPS = ("log.", "queue.", "index.", "compaction_files.")
"""How the settings of a geometry begin."""
_UNIT_FILES_MIN = 5
"""A file of records is as long as so many files of their units, at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogGeometry:
    """Files of the CommitLog."""

    segment_bytes: Annotated[int, Meta(ge=512, le=2 * GIB - 1)] = GIB
    """Length of a log file; RocketMQ's mappedFileSizeCommitLog."""

    @classmethod
    def small(cls) -> "LogGeometry":
        """Return files so small that tests roll."""
        return cls(segment_bytes=4 * KIB)


Engine = Literal["files", "rocksdb"]
"""What keeps the queues of a store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueGeometry:
    """What the ConsumeQueues are kept in."""

    engine: Engine = "files"
    """What a new store's queues are kept in: `files`, or one `rocksdb`, which suits very many
    queues and needs the extra of that name; storeType. `sprocket store convert` changes it."""
    units_per_file: Annotated[int, Meta(ge=1, le=100_000_000)] = 300_000
    """Units of 20 bytes in a queue file; mappedFileSizeConsumeQueue / 20."""
    batch_units_per_file: Annotated[int, Meta(ge=1, le=40_000_000)] = 300_000
    """Units of 46 bytes in a batch queue file; mapperFileSizeBatchConsumeQueue / 46."""
    extension_bytes: Annotated[int, Meta(ge=64, le=2 * GIB - 1)] = 48 * MIB
    """Length of a file of extended units; mappedFileSizeConsumeQueueExt."""

    @property
    def file_bytes(self) -> int:
        """The length of a queue file."""
        return self.units_per_file * QUEUE_UNIT_BYTES

    @classmethod
    def small(cls) -> "QueueGeometry":
        """Return files so small that tests roll."""
        return cls(units_per_file=10, batch_units_per_file=6, extension_bytes=256)


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexGeometry:
    """Files of the key index."""

    slots: Annotated[int, Meta(ge=1, le=500_000_000)] = 5_000_000
    """Hash slots of an index file; maxHashSlotNum."""
    units: Annotated[int, Meta(ge=2, le=100_000_000)] = 20_000_000
    """Units of an index file, the unused unit 0 included; maxIndexNum."""

    @property
    def file_bytes(self) -> int:
        """The length of an index file: header, slots, units."""
        slots, units = self.slots * INDEX_SLOT_BYTES, self.units * INDEX_UNIT_BYTES
        return INDEX_HEADER_BYTES + slots + units

    @classmethod
    def small(cls) -> "IndexGeometry":
        """Return files so small that tests fill them and slots collide."""
        return cls(slots=7, units=40)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionGeometry:
    """Files of what is kept of compaction topics."""

    log_bytes: Annotated[int, Meta(ge=1, le=GIB)] = 104_857_600
    """About the length of a file of records, which is a multiple of that of units and at least five
    times as long; compactionMappedFileSize. What was sent last is compacted when its file is full.
    """
    units_bytes: Annotated[int, Meta(ge=3 * BATCH_UNIT_BYTES, le=256 * MIB)] = 10_485_760
    """About the length of a file of their units, of 46 bytes each; compactionCqMappedFileSize."""

    @property
    def units_file_bytes(self) -> int:
        """The length of a file of units: whole units."""
        return self.units_bytes - self.units_bytes % BATCH_UNIT_BYTES

    @property
    def log_file_bytes(self) -> int:
        """The length of a file of records, as RocketMQ rounds it."""
        unit = self.units_file_bytes
        count, rest = divmod(self.log_bytes, unit)
        if count < _UNIT_FILES_MIN:
            return _UNIT_FILES_MIN * unit
        return count * unit if 0 < rest < unit // 2 else (count + 1) * unit

    @classmethod
    def small(cls) -> "CompactionGeometry":
        """Return files so small that tests roll."""
        return cls(log_bytes=4417, units_bytes=8 * BATCH_UNIT_BYTES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Geometry:
    """What fixes the files of a store; written into it when it is made, compared at each open."""

    log: LogGeometry = field(default_factory=LogGeometry)
    queue: QueueGeometry = field(default_factory=QueueGeometry)
    index: IndexGeometry = field(default_factory=IndexGeometry)
    compaction: CompactionGeometry = field(default_factory=CompactionGeometry)

    @classmethod
    def small(cls) -> "Geometry":
        """Return the small geometry of every part."""
        return cls(
            log=LogGeometry.small(),
            queue=QueueGeometry.small(),
            index=IndexGeometry.small(),
            compaction=CompactionGeometry.small(),
        )
