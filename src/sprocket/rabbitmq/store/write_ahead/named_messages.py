"""Whether the message store has the messages that the log names.

The store is synced before the log is, but until then the disk may keep any of what was written.
"""

from collections.abc import Mapping

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk
from sprocket.base.errors import DiskFailed
from sprocket.rabbitmq.codec.checksums import TermSum
from sprocket.rabbitmq.codec.store import StoreEntry, entries
from sprocket.rabbitmq.store.layout import STORE_FILE, MessageStoreLayout, numbers


def missing_messages(
    disk: Disk, layout: MessageStoreLayout, named: Mapping[bytes, TermSum]
) -> set[bytes]:
    """Return the ids of those that no file has whole; one that cannot be read is not missing.

    The newest file is looked at first, and only as many as it takes.

    Args:
        disk: Where the store lies.
        layout: Its paths.
        named: What each must be, by its id.
    """
    missing = set(named)
    there = numbers(disk.list(layout.root), STORE_FILE) if disk.is_folder(layout.root) else []
    for number in reversed(there):
        if not missing:
            break
        file = disk.open(layout.file(number))
        try:
            for one in entries.scan(file.read, file.size()):
                if isinstance(one, StoreEntry) and one.id in missing:
                    known = named[one.id]
                    if one.term_size != known.size:
                        continue
                    if crc32(file.read(one.term_position, known.size)) == known.crc:
                        missing.discard(one.id)
        except DiskFailed:  # a reader that needs it fails again, and reports it
            return set()
        finally:
            file.close()
    return missing
