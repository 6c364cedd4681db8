"""What a read gives, and what it needs of the log; see `read`."""

import struct
from enum import Enum
from typing import NamedTuple, Protocol

from msgspec import Struct

from sprocket.base.disk import SegmentWindow
from sprocket.rocketmq.codec.record import RECORD_BYTES_MIN
from sprocket.rocketmq.model.offsets import PhysicalOffset, QueueOffset

head_of = struct.Struct(">iI4xi4xqq").unpack_from
"""Size, magic, queue id, queue offset, physical offset at the start of a record."""


class LogReader(Protocol):
    """What reading needs of the log."""

    @property
    def end(self) -> PhysicalOffset:
        """Where the next record goes."""

    @property
    def warm_from(self) -> int:
        """From where on the log is in memory, and is not copied to be looked at."""

    def slice(self, offset: int, size: int) -> memoryview:
        """Return stored bytes without a look at them; OffsetTooSmall, OffsetTooLarge."""

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return what one file has from `offset` on, `size` bytes at least; errors as `slice`."""


class GetStatus(Enum):
    """What came of a read."""

    FOUND = "at least one message"
    NO_MATCHED_MESSAGE = "messages are there, none passed the filter"
    MESSAGE_WAS_REMOVING = "a unit is there, its message is gone from the log"
    NO_MATCHED_LOGIC_QUEUE = "there is no such queue"
    NO_MESSAGE_IN_QUEUE = "the queue never had a message"
    OFFSET_TOO_SMALL = "the offset is before the first message kept"
    OFFSET_OVERFLOW_ONE = "the offset is that of the next message"
    OFFSET_OVERFLOW_BADLY = "the offset is behind that of the next message"
    OFFSET_FOUND_NULL = "the offset is in range but its unit cannot be read"
    OFFSET_RESET = "an administrator has sent the group elsewhere; brokers say so, reads never"

    __hash__ = object.__hash__  # Enum's is slow, and each pull looks up what its status means


class GetResult(Struct, gc=False):
    """What a read gives.

    Attributes:
        status: What came of it.
        next_offset: Where to go on.
        min_offset: First offset of the queue that can be read.
        max_offset: Offset of the queue's next message.
        runs: Stored bytes of the messages, views of the log; what lies there back to back is mostly
            one.
        count: How many messages they are.
        bytes: Their sizes together.
        suggest_slave: The last message looked at lies far behind the end of the log.
    """

    status: GetStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    runs: list[memoryview]
    count: int = 0
    bytes: int = 0
    suggest_slave: bool = False

    @property
    def records(self) -> list[memoryview]:
        """Stored bytes of each record, views of the log; an inner batch is one."""
        found = []
        for run in self.runs:
            at = 0
            while at <= len(run) - RECORD_BYTES_MIN:
                size, *_ = head_of(run, at)
                if size < RECORD_BYTES_MIN:
                    break  # it was damaged since this process wrote it
                found.append(run[at : at + size])
                at += size
        return found


class OffsetRange(NamedTuple):
    """First offset that can be read, and offset of the next message."""

    min: QueueOffset
    max: QueueOffset
