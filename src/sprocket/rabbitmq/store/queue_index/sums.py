"""Checksums beside a queue's index files: read, written, and whether they are valid.

They are appended with what they cover, and synced with it. A RabbitMQ that runs on a folder
changes segments and journals, and not these: then they are void, and created again.
"""

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, remove_if_there
from sprocket.base.errors import CorruptRecord, FileMissing
from sprocket.rabbitmq.codec import clean_summary, index
from sprocket.rabbitmq.codec.index import CheckedIndex, IndexSum
from sprocket.rabbitmq.codec.store import recovery_terms
from sprocket.rabbitmq.store.layout import SUMS, QueueLayout, VhostLayout


def are_void(disk: Disk, layout: VhostLayout) -> bool:
    """Say whether somebody else has had the folder since the checksums were written.

    It is a RabbitMQ's recovery.dets that says so: a wrong bit in ours, or in `sprocket.clean`, does
    not make them void.

    Raises:
        DiskFailed: A file cannot be read.
    """
    try:
        terms = read_file(disk, layout.recovery_terms)
    except FileMissing:
        return False  # we have it open, or a kill has left it
    if recovery_terms.is_ours(terms):
        return False
    try:
        return clean_summary.decode(read_file(disk, layout.clean)).terms_crc != crc32(terms)
    except (CorruptRecord, FileMissing):
        return True


def remove_all(disk: Disk, layout: QueueLayout) -> None:
    """Remove the checksums of a queue; durable after a sync of its folder. Raises DiskFailed."""
    for name in disk.list(layout.root):
        if name.endswith(SUMS):
            remove_if_there(disk, f"{layout.root}/{name}")


def read(disk: Disk, path: str) -> list[IndexSum]:
    """Return what there is beside an index file. Raises DiskFailed."""
    try:
        return index.decode_sums(read_file(disk, QueueLayout.sums(path)))
    except FileMissing:
        return []


def read_checked(disk: Disk, path: str) -> CheckedIndex:
    """Return a segment, compared; nothing if it is not there. Raises DiskFailed."""
    try:
        data = read_file(disk, path)
    except FileMissing:
        return CheckedIndex(b"")
    return index.check_index(data, read(disk, path), is_segment=True)


def append(disk: Disk, path: str, some: list[IndexSum]) -> None:
    """Put checksums after those beside an index file; one of its beginning replaces all.

    Raises:
        DiskFull, DiskFailed: It may be called again.
    Durability: after a sync.
    """
    file = disk.open(QueueLayout.sums(path), write=True, create=True)
    try:
        if not some[0].position:
            file.resize(0)
        file.write([one.encode() for one in some], file.size())
    finally:
        file.close()
