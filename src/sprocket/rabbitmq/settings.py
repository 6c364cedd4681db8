"""Settings of the RabbitMQ column. `VhostGeometry` fixes files; the rest may change.

Each group is a frozen dataclass; a component is given its group and nothing else.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from sprocket.base.units import KIB, MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class VhostGeometry:
    """What is written into the folder of a virtual host when it is made, and stays."""

    segment_entries: Annotated[int, Meta(ge=1, le=16384)] = 2048
    """Messages of a segment of a queue's index; queue_index_segment_entry_count. A segment is
    removed when the last of them is acknowledged. A folder that is there keeps what it has."""

    @staticmethod
    def small() -> "VhostGeometry":
        """Return one under which a few messages fill a segment."""
        return VhostGeometry(segment_entries=4)


@dataclass(frozen=True, kw_only=True, slots=True)
class VhostStoreSettings:
    """How the messages of durable queues are kept."""

    embed_bytes_below: Annotated[int, Meta(ge=0, le=16 * MIB)] = 4096
    """A message whose body and properties have fewer bytes lies in the index of each queue that
    has it, a larger one once in the message store; queue_index_embed_msgs_below. 0 puts all there.
    """
    store_file_bytes: Annotated[int, Meta(ge=1)] = 16 * MIB
    """From which size on the message store begins its next file; msg_store_file_size_limit."""
    journal_records_max: Annotated[int, Meta(ge=1)] = 32768
    """After so many publishes, deliveries and acknowledgements a queue's are brought into its
    segments; queue_index_max_journal_entries. They are kept in memory until then."""
    flush_idle_ms: Annotated[int, Meta(ge=1)] = 1000
    """So long a queue does nothing before they are, however few."""
    journal_bytes_max: Annotated[int, Meta(ge=1)] = 64 * MIB
    """When such messages of all queues of a virtual host take more than this in memory, those of
    the fullest queues are brought into segments at once."""
    log_bytes_max: Annotated[int, Meta(ge=1)] = 256 * MIB
    """When the write-ahead log of a virtual host is larger, the queues that need its oldest file
    are flushed. What is in it is read at the start after a crash."""
    log_file_bytes: Annotated[int, Meta(ge=1)] = 16 * MIB
    """From which size on that log begins its next file."""

    @staticmethod
    def small() -> "VhostStoreSettings":
        """Return some under which files are tiny and everything happens often."""
        return VhostStoreSettings(
            embed_bytes_below=200,
            store_file_bytes=2 * KIB,
            journal_records_max=12,
            flush_idle_ms=1000,
            journal_bytes_max=4 * KIB,
            log_bytes_max=8 * KIB,
            log_file_bytes=2 * KIB,
        )
