"""Who a store is, in a file of it: what a member has acknowledged is true of this disk only.

The file has 32 hexadecimal digits, a space, the CRC-32 of these in decimal, and a newline.
"""

import re
import secrets
from typing import Final

from sprocket.base import log
from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import FileMissing
from sprocket.rocketmq.failover.values import Incarnation

INCARNATION_BYTES: Final = 16

_CONTENT = re.compile(rb"([0-9a-f]{32}) ([0-9]{1,10})\n")
_log = log.get_logger(__name__)


def incarnation_of(disk: Disk, path: str, *, may_lack_acknowledged: bool) -> Incarnation:
    """Return the incarnation of a store, a new one if it has none yet.

    Args:
        disk: Where it lies.
        path: The file.
        may_lack_acknowledged: Whether it may have lost what it had told others to have: after an
            end without a stop, if it told so before it was on the disk. It is another member then,
            and so is one whose file is damaged.

    Raises:
        StoreError: The file cannot be read, or not be written.
    Durability: on the disk when this returns.
    """
    known = _known(disk, path)
    if known is not None and not may_lack_acknowledged:
        return known
    made = Incarnation(secrets.token_hex(INCARNATION_BYTES))
    if known is not None:
        _log.warning(
            "this store may lack what it had acknowledged: it is another member of its set",
            before=known,
            now=made,
        )
    text = made.encode()
    replace_file(disk, path, b"%s %d\n" % (text, crc32(text)))
    return made


def _known(disk: Disk, path: str) -> Incarnation | None:
    try:
        content = read_file(disk, path)
    except FileMissing:
        return None
    found = _CONTENT.fullmatch(content)
    if found is None or crc32(found[1]) != int(found[2]):
        _log.error("who this store is cannot be read: it is another member of its set", file=path)
        return None
    return Incarnation(found[1].decode())
