"""The file of a log's epochs; see docs/formats/epochs.md.

    count LF crc31 LF (epoch "-" start LF)*

The checksum is that of all that follows it; 0 says that there is none. RocketMQ ends lines as its
platform does; lines of both kinds are read, ours end in LF.

Source: RocketMQ `CheckpointFile`, `EpochFileCache`.
"""

import re

from sprocket.base.checksum import crc31
from sprocket.base.errors import WireError
from sprocket.rocketmq.model.epochs import Epoch, Epochs

UNCHECKED = 0
"""The checksum of a file that has none."""

_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_NUMBER = re.compile(rb"[0-9]{1,19}")


def encode(epochs: Epochs) -> bytes:
    """Return the content of the file; RocketMQ knows none for a log without epochs."""
    lines = b"".join(b"%d-%d\n" % (one.number, one.start) for one in epochs.entries)
    return b"%d\n%d\n" % (len(epochs.entries), crc31(lines)) + lines


def decode(content: bytes) -> Epochs:
    """Return what a file says.

    Raises:
        WireError: It is damaged, or its epochs do not follow each other.
    """
    head = content.split(b"\n", 2)
    if len(head) < 3:
        raise WireError(f"a file of epochs has {len(head)} lines: {content[:40]!r}")
    count, crc = (_number(line, _INT_MAX) for line in head[:2])
    lines = head[2].splitlines()
    if len(lines) != count:
        raise WireError(f"a file of {count} epochs has {len(lines)}")
    if crc not in (UNCHECKED, crc31(head[2])):
        raise WireError(f"the checksum of epochs is {crc31(head[2])}, not {crc}")
    try:
        return Epochs.of([_epoch(line) for line in lines])
    except ValueError as error:
        raise WireError(str(error)) from None


def _epoch(line: bytes) -> Epoch:
    number, separator, start = line.partition(b"-")
    if not separator:
        raise WireError(f"an epoch is {line[:40]!r}, without a start")
    return Epoch(_number(number, _INT_MAX), _number(start, _LONG_MAX))


def _number(text: bytes, most: int) -> int:
    text = text.removesuffix(b"\r")
    if not _NUMBER.fullmatch(text) or int(text) > most:
        raise WireError(f"expected a number up to {most} in a file of epochs, found {text[:40]!r}")
    return int(text)
