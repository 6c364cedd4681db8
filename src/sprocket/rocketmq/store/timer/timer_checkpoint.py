"""The file `config/timercheck`: up to where timer log and wheel are durable.

The first 56 bytes are RocketMQ's; it leaves the others as they are. Two more numbers of ours lie
there, and after them the same once more with checksums, so that a wrong bit in any of the three
files is found: none of them has checksums of its own. See docs/formats/timer-files.md. Source:
RocketMQ `TimerCheckpoint`.
"""

import os
import struct

from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk
from sprocket.base.errors import FileMissing

FILE_BYTES = 4096
SHARED_BYTES = 56
_FIELDS = struct.Struct(">9q")
_NOTE_HEAD = struct.Struct(">4sI")
_NOTE = struct.Struct(f">{_FIELDS.size}sqqqI")
_NOTE_MAGIC = b"SPR1"
_NOTE_AT = _FIELDS.size
SUMS_MAX = 64
"""Files of the timer log, the newest, of which there is a checksum: 129 million records. With these
all is in the first 512 bytes of the file, which a disk writes together."""
_WRITTEN_BYTES = _NOTE_AT + _NOTE_HEAD.size + _NOTE.size + 4 * SUMS_MAX
assert _WRITTEN_BYTES <= 512


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


class TimerSums(Struct, frozen=True, gc=False):
    """Checksums of what a checkpoint covers.

    Attributes:
        start: Where the first file of the timer log begins of which there is one.
        end: Up to where in the timer log they go.
        files: CRC-32 of each file from `start` on, of the last one up to `end`.
        wheel: That of the wheel, −1 while the store is open.
    """

    start: int
    end: int
    files: tuple[int, ...]
    wheel: int = -1


class KnownCheckpoint(Struct, frozen=True, gc=False):
    """What the file says.

    Attributes:
        checkpoint: The checkpoint.
        sums: Checksums; None if there are none.
        is_ours: Whether the file is as it was when these were made.
    """

    checkpoint: TimerCheckpoint
    sums: TimerSums | None
    is_ours: bool


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
    """Read the checkpoint; that of a missing file is all zeros."""
    return load_with_sums(disk, path).checkpoint


def load_with_sums(disk: Disk, path: str) -> KnownCheckpoint:
    """Read the file.

    RocketMQ gives each of its checkpoints another version. Where the version is that of ours and
    the rest is not, the disk has changed a bit, and our second copy counts.
    """
    try:
        file = disk.open(path)
    except FileMissing:
        return KnownCheckpoint(TimerCheckpoint(), None, is_ours=False)
    try:
        data = file.read(0, _WRITTEN_BYTES)
    finally:
        file.close()
    found, noted = decode(data), _decode_note(data)
    if noted is None:
        return KnownCheckpoint(found, None, is_ours=False)
    ours, sums = noted
    if _version(found) == _version(ours) or _rest(found) == _rest(ours):
        return KnownCheckpoint(ours, sums, is_ours=True)
    return KnownCheckpoint(found, sums, is_ours=False)


def _version(one: TimerCheckpoint) -> tuple[int, int, int]:
    return one.state_version, one.version_at_ms, one.version


def _rest(one: TimerCheckpoint) -> tuple[int, int, int, int]:
    return one.read_at_ms, one.log_end, one.queue_offset, one.master_queue_offset


def _encode_note(checkpoint: TimerCheckpoint, sums: TimerSums | None) -> bytes:
    if sums is None:
        return bytes(_WRITTEN_BYTES - _NOTE_AT)
    files = sums.files
    said = _NOTE.pack(encode(checkpoint), sums.start, sums.end, sums.wheel, len(files))
    said += struct.pack(f">{SUMS_MAX}I", *files, *[0] * (SUMS_MAX - len(files)))
    return _NOTE_HEAD.pack(_NOTE_MAGIC, crc32(said)) + said


def _decode_note(data: bytes) -> tuple[TimerCheckpoint, TimerSums] | None:
    """Return what lies after a checkpoint; None if that is nothing whole."""
    said = data[_NOTE_AT + _NOTE_HEAD.size :]
    if len(data) < _WRITTEN_BYTES:
        return None
    if _NOTE_HEAD.unpack_from(data, _NOTE_AT) != (_NOTE_MAGIC, crc32(said)):
        return None
    fields, start, end, wheel, count = _NOTE.unpack_from(said)
    files = struct.unpack_from(f">{count}I", said, _NOTE.size)
    return decode(fields), TimerSums(start, end, files, wheel)


def save(disk: Disk, path: str, checkpoint: TimerCheckpoint, sums: TimerSums | None = None) -> None:
    """Write the file in place: what is written lies in one block, which a disk writes whole.

    Args:
        disk: Where it lies.
        path: Its path.
        checkpoint: What it is to say.
        sums: Checksums of what that covers; without them the other files count as they are.

    Durability: on return it is on the disk.
    Threads: any.
    """
    is_new = not disk.exists(path)
    file = disk.open(path, write=True, create=True, size=FILE_BYTES)
    try:
        if file.size() != FILE_BYTES:
            file.resize(FILE_BYTES)
        file.write([encode(checkpoint) + _encode_note(checkpoint, sums)], 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(os.path.dirname(path))
