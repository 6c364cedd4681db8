"""Where the files of one compacted queue lie, and how long they are."""

from msgspec import Struct

from sprocket.base.disk import segment_name
from sprocket.rocketmq.geometry import BATCH_UNIT_BYTES, CompactionGeometry
from sprocket.rocketmq.store.layout import COMPACTING, StoreLayout, check_topic
from sprocket.rocketmq.store.queue import QueueKey


class QueueFolders(Struct, frozen=True):
    """The folders of records and of units, with the lengths of their files."""

    log: str
    units: str
    log_bytes: int
    units_bytes: int

    @classmethod
    def of(cls, layout: StoreLayout, geometry: CompactionGeometry, key: QueueKey) -> "QueueFolders":
        """Return those of a queue.

        Raises:
            CorruptRecord: Its topic cannot be a folder's name.
        """
        return cls.at(layout, f"{check_topic(key[0])}/{key[1]}", geometry)

    @classmethod
    def at(
        cls,
        layout: StoreLayout,
        place: str,
        geometry: CompactionGeometry = CompactionGeometry(),  # noqa: B008 - it is frozen
    ) -> "QueueFolders":
        """Return those at `topic/queue id`; who looks at names alone need not know the lengths."""
        return cls(
            f"{layout.compaction_log}/{place}",
            f"{layout.compaction_units}/{place}",
            geometry.log_file_bytes,
            geometry.units_file_bytes,
        )

    @property
    def compacting(self) -> "QueueFolders":
        """Those where a round writes."""
        log, units = f"{self.log}/{COMPACTING}", f"{self.units}/{COMPACTING}"
        return QueueFolders(log, units, self.log_bytes, self.units_bytes)

    @property
    def count_max(self) -> int:
        """Records of a file at most: the last unit of a full file says that it is full."""
        return self.units_bytes // BATCH_UNIT_BYTES - 1

    def log_path(self, start: int) -> str:
        """Return the file of records that begins at an address."""
        return f"{self.log}/{segment_name(start)}"

    def units_path(self, start: int) -> str:
        """Return the file of its units."""
        return f"{self.units}/{segment_name(start)}"
