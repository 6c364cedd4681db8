"""What the end of a round of compaction writes down: which files go, and which come.

    CRC-32 in decimal digits, line feed, {"old":[0],"new":[104857460]}

See docs/formats/compaction-files.md; RocketMQ has no such file.
"""

from collections.abc import Iterable

import msgspec

from sprocket.base.checksum import crc32
from sprocket.base.errors import WireError


class Swap(msgspec.Struct, frozen=True):
    """Addresses of the files that go, and of those that come."""

    old: tuple[int, ...]
    new: tuple[int, ...]

    def counted(self, starts: Iterable[int]) -> list[int]:
        """Return the addresses of the files that count while the swap is under way.

        Args:
            starts: Those of all files that are there, old and new.
        """
        there = list(starts)
        gone = self.new if set(self.old) <= set(there) else self.old
        return [start for start in there if start not in gone]


def encode(swap: Swap) -> bytes:
    """Return the content of the file."""
    content = msgspec.json.encode(swap)
    return b"%d\n%b" % (crc32(content), content)


def decode(stored: bytes) -> Swap:
    """Return what the file says. Raises WireError if it is damaged."""
    crc, _, content = stored.partition(b"\n")
    if crc != b"%d" % crc32(content):
        raise WireError("damaged, which says what a round of compaction was to replace")
    return msgspec.json.decode(content, type=Swap)
