"""The file `checkpoint`: up to which store time everything is durable.

After a crash recovery need not check what is older. The layout is RocketMQ's; see
docs/formats/checkpoint.md. Source: RocketMQ `StoreCheckpoint`.
"""

import os
import struct
from dataclasses import dataclass

from sprocket.base.disk import Disk
from sprocket.base.errors import FileMissing

CHECKPOINT_BYTES = 4096
SAFETY_MS = 3_000
"""Taken off by the reader, since a message's time is set a little before it is written."""

_FIELDS = struct.Struct(">5q")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Times are store times of messages, ms since 1970; 0 is "nothing yet".

    Attributes:
        log_at_ms: All log records up to then are durable.
        queues_at_ms: All queue units up to then are.
        index_at_ms: All index entries up to then are. RocketMQ advances it per full file only.
        master_flushed_offset: On a slave, what the master said.
        confirmed_offset: Start of the last record that recovery found.
    """

    log_at_ms: int = 0
    queues_at_ms: int = 0
    index_at_ms: int = 0
    master_flushed_offset: int = 0
    confirmed_offset: int = 0

    def safe_at_ms(self) -> int:
        """Return the time up to which log and queues need no look after a crash."""
        return max(0, min(self.log_at_ms, self.queues_at_ms) - SAFETY_MS)


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the 40 bytes that lead the file; the rest of it is zero."""
    return _FIELDS.pack(
        checkpoint.log_at_ms,
        checkpoint.queues_at_ms,
        checkpoint.index_at_ms,
        checkpoint.master_flushed_offset,
        checkpoint.confirmed_offset,
    )


def decode(data: bytes) -> Checkpoint:
    """Decode the leading bytes; RocketMQ 4 writes 24 of them, and what is missing is 0.

    Negative numbers, which nobody writes, count as 0: recovery then begins earlier.
    """
    values = _FIELDS.unpack((data + bytes(_FIELDS.size))[: _FIELDS.size])
    return Checkpoint(*(max(0, value) for value in values))


def load(disk: Disk, path: str) -> Checkpoint:
    """Read the file; a missing one is all zeros."""
    try:
        file = disk.open(path)
    except FileMissing:
        return Checkpoint()
    try:
        return decode(file.read(0, _FIELDS.size))
    finally:
        file.close()


def save(disk: Disk, path: str, checkpoint: Checkpoint) -> None:
    """Write the file in place: its 40 bytes lie in one block, which a disk writes whole.

    Durability: on return it is on the disk.
    """
    is_new = not disk.exists(path)
    file = disk.open(path, write=True, create=True, size=CHECKPOINT_BYTES)
    try:
        if file.size() != CHECKPOINT_BYTES:
            file.resize(CHECKPOINT_BYTES)
        file.write([encode(checkpoint)], 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(os.path.dirname(path))
