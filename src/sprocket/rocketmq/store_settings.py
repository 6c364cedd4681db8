"""Settings of a store that may change: how it keeps messages, and for how long."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from sprocket.base.units import GIB, KIB, MIB

FOUND_MESSAGES_MAX = 64
"""RocketMQ's default `maxMsgsNumBatch`."""

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's default `messageDelayLevel`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreSettings:
    """How a store keeps messages."""

    flush: Literal["sync", "async"] = "sync"
    """When a message counts as stored: `sync` when it is on the disk, `async` when the operating
    system has it (a power failure may lose the last moments)."""
    flush_interval_ms: Annotated[int, Meta(ge=10, le=60_000)] = 500
    """Async flush: how often it is checked whether a sync is due; flushIntervalCommitLog."""
    flush_bytes_min: Annotated[int, Meta(ge=0, le=GIB)] = 16 * KIB
    """Async flush: a sync is due when so much was written since the last one;
    flushCommitLogLeastPages, of 4 KiB each."""
    flush_thorough_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000
    """Async flush: so long after the last sync, a sync is due if anything was written. A power
    failure takes nothing older. flushCommitLogThoroughInterval."""
    crc_tail: bool = True
    """Append a checksum over the whole record, not only its body; costs 20 bytes and about 0.3 µs a
    message. RocketMQ's enabledAppendPropCRC."""
    message_bytes_max: Annotated[int, Meta(ge=1, le=GIB)] = 4 * MIB
    """Largest body; RocketMQ's maxMessageSize."""
    fill_ahead_bytes: Annotated[int, Meta(ge=0, le=GIB)] = 64 * MIB
    """How far the log is filled with zeros ahead of the writer, so that a sync need not write
    metadata; under async flush space is only allocated there, which makes writes cheaper. Takes
    that much disk space. 0 is off."""
    cached_bytes: Annotated[int, Meta(ge=0)] = 64 * MIB
    """How much of the log's newest part stays in the system's page cache, besides what consumers
    will soon read. What is older is dropped once it is synced, so that other programs have the
    memory; to read it again takes the disk. 0 leaves all to the system, as RocketMQ does."""
    index_messages: bool = True
    """Keep the key index, which queries by key need; messageIndexEnable."""
    found_messages_max: Annotated[int, Meta(ge=1, le=1024)] = FOUND_MESSAGES_MAX
    """Most messages that a query by key gives, the newest, whatever a client asks for; RocketMQ's
    maxMsgsNumBatch."""
    extended_units: bool = False
    """Keep store time and filter bits of each message beside its queue unit, in 20 to 34 bytes
    more; enableConsumeQueueExt. A store that has some continues with them."""
    light_queues: bool = False
    """Also put messages into the light queues that they name; enableLmq and enableMultiDispatch.
    Any producer can make as many as it likes."""
    delay_levels: Annotated[str, Meta(min_length=2)] = DELAY_LEVELS
    """How long the messages of each delay level wait, level 1 first; messageDelayLevel. A message
    that waits already keeps its time, unless that is more than the level's new wait ahead: then it
    is delivered at once."""
    bytes_in_memory: Annotated[int, Meta(ge=0)] = 0
    """Messages within so many bytes of the log's end count as in memory; of older ones an answer
    has 8 or 64 KiB at most. 0 is 40 % of the machine's memory; accessMessageInMemoryMaxRatio."""

    @classmethod
    def small(cls) -> "StoreSettings":
        """Return limits that fit the small geometry."""
        return cls(message_bytes_max=2 * KIB, fill_ahead_bytes=2 * KIB)


Hour: TypeAlias = Annotated[int, Meta(ge=0, le=23)]
"""An hour of the day on the machine's clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionSettings:
    """How long messages are kept, and what happens when the disk fills."""

    keep_hours: Annotated[int, Meta(ge=0, le=876_000)] = 72
    """A log file to which nothing was written for so long is expired; fileReservedTime."""
    clean_hours: Annotated[tuple[Hour, ...], Meta(max_length=24)] = (4,)
    """Hours of the day, local time, in which expired files are deleted; deleteWhen."""
    round_files_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Most log files deleted in one round; there is a round every 10 s; deleteFileBatchMax."""
    clean_percent: Annotated[int, Meta(ge=1, le=100)] = 75
    """While more of the disk's space is used, expired files are deleted at any hour; between 10 and
    95. diskMaxUsedSpaceRatio."""
    force: bool = True
    """Delete the oldest files, expired or not, while more than `force_percent` of the disk's space
    is used: messages may be lost that nobody has read. If off, the disk fills and appends are
    refused. cleanFileForciblyEnable."""
    force_percent: Annotated[int, Meta(ge=1, le=100)] = 85
    """See `force`; between 30 and 85. Appends that were refused are accepted again when no more
    than this is used. diskSpaceCleanForciblyRatio."""
    refuse_percent: Annotated[int, Meta(ge=1, le=100)] = 90
    """While more of the disk's space is used, appends are refused; between 35 and 90.
    diskSpaceWarningLevelRatio."""
