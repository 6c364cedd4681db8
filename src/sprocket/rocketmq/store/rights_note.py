"""What the databases of users and policies must at least hold: a note beside them.

RocksDB takes a record that is cut at the end of its manifest for one that was being written, and
goes on without it. So damage there could bring back a user that was deleted. The note is replaced,
durably, after each change of ours and before that is answered.

    config/sprocket.rights = crc LF json LF      ; crc is CRC-32 of the JSON, in decimal

A damaged note says nothing, as if there were none: a database that is whole needs none.

Source: docs/formats/rights.md.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from sprocket.base import log
from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import FileMissing, WireError

_log = log.get_logger(__name__)

_SUM_BYTES = 16


class TableNote(msgspec.Struct, frozen=True, kw_only=True):
    """What one database holds.

    Attributes:
        manifest: The name of its newest manifest; "" while it is being opened.
        change: Its sequence number: that of its last change.
        rows: How many there are.
        sum: Those of all rows together by exclusive or, 32 hexadecimal digits.
    """

    manifest: str = ""
    change: int = 0
    rows: int = 0
    sum: str = f"{0:032x}"


NOTHING = TableNote()
"""That of a database which nobody has changed."""


def load(disk: Disk, path: str) -> Mapping[str, TableNote]:
    """Return the notes of a file by the names of the databases; none if it is missing or damaged.

    Raises:
        DiskFailed: It cannot be read.
    """
    try:
        return _decode(read_file(disk, path))
    except FileMissing:
        return {}
    except (WireError, ValueError, TypeError) as error:
        _log.error("a file is damaged", path=path, why=str(error))
        return {}


def replace(disk: Disk, path: str, notes: Mapping[str, TableNote]) -> None:
    """Put others in the place of a file's notes, durably. Raises DiskFull, DiskFailed."""
    data = msgspec.json.encode(notes)
    replace_file(disk, path, b"%d\n%b\n" % (crc32(data), data))


def row_sum(key: bytes, value: bytes) -> int:
    """Return the sum of one row, a number of 128 bits."""
    data = len(key).to_bytes(4, "big") + key + value
    return int.from_bytes(hashlib.blake2b(data, digest_size=_SUM_BYTES).digest(), "big")


def _decode(content: bytes) -> Mapping[str, TableNote]:
    crc, _, rest = content.partition(b"\n")
    data = rest.removesuffix(b"\n")
    if not crc.isdigit() or int(crc) != crc32(data):
        raise WireError(f"the checksum of its content is {crc32(data)}, not {crc[:30]!r}")
    return msgspec.json.decode(data, type=dict[str, TableNote])
