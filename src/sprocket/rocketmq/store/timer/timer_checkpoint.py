"""The file `config/timercheck`: up to where timer log and wheel are durable.

The first 56 bytes are RocketMQ's; it leaves the others as they are, and two more numbers of ours
lie there. See docs/formats/timer-files.md. Source: RocketMQ `TimerCheckpoint`.
"""

import os
import struct

from msgspec import Struct

from sprocket.base.disk import Disk
from sprocket.base.errors import FileMissing

FILE_BYTES = 4096
SHARED_BYTES = 56
_FIELDS = struct.Struct(">9q")


class TimerCheckpoint(Struct, frozen=True, gc=False):
    """How far everything is, durably.

    Attributes:
        read_at_ms: Messages of all slots before this time are delivered. ms since 1970.
        log_end: Where the timer log ends.
        queue_offset: Messages of the wheel topic before this one have a record in the timer log.
        master_queue_offset: On a slave, what its master said; else the same.
        state_version, version_at_ms, version: RocketMQ's data version.
        deliveries_from: From where on the commit log may have copies of messages of the other
            slots; 0 if that is not known. RocketMQ does not note it.
        precision_ms: What a slot of the wheel takes; 0 if that is not known.
    """

    read_at_ms: int = 0
    log_end: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    version_at_ms: int = 0
    version: int = 0
    deliveries_from: int = 0
    precision_ms: int = 0


def encode(checkpoint: TimerCheckpoint) -> bytes:
    """Return the 72 bytes that lead the file; a slave gets the first 56 of them."""
    return _FIELDS.pack(
        checkpoint.read_at_ms,
        checkpoint.log_end,
        checkpoint.queue_offset,
        checkpoint.master_queue_offset,
        checkpoint.state_version,
        checkpoint.version_at_ms,
        checkpoint.version,
        checkpoint.deliveries_from,
        checkpoint.precision_ms,
    )


def decode(data: bytes) -> TimerCheckpoint:
    """Decode the leading bytes; what is missing is 0, and so is what is negative."""
    values = _FIELDS.unpack((data + bytes(_FIELDS.size))[: _FIELDS.size])
    return TimerCheckpoint(*(max(0, value) for value in values))


def load(disk: Disk, path: str) -> TimerCheckpoint:
    """Read the file; a missing one is all zeros."""
    try:
        file = disk.open(path)
    except FileMissing:
        return TimerCheckpoint()
    try:
        return decode(file.read(0, _FIELDS.size))
    finally:
        file.close()


def save(disk: Disk, path: str, checkpoint: TimerCheckpoint) -> None:
    """Write the file in place: its 72 bytes lie in one block, which a disk writes whole.

    Durability: on return it is on the disk.
    Threads: any.
    """
    is_new = not disk.exists(path)
    file = disk.open(path, write=True, create=True, size=FILE_BYTES)
    try:
        if file.size() != FILE_BYTES:
            file.resize(FILE_BYTES)
        file.write([encode(checkpoint)], 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(os.path.dirname(path))
