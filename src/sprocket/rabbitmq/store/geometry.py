"""What fixes the files of a virtual host: its name, and how many entries a segment has.

Both are RabbitMQ's files, `.vhost` and `.config`. A folder that has queues and no `.config` is one
of a RabbitMQ before 3.8.17, whose segments had 16,384 entries. Neither file has a checksum. The
folder is called after the name's hash, so that says whether the name is right; of the number we
keep a second copy, with a checksum, in `sprocket.geometry`. What is wrong is written anew.

Source: RabbitMQ 3.10.8 `rabbit_vhost`; docs/formats/rabbitmq-folder.md.
"""

from typing import NamedTuple

from sprocket.base.checksum import crc32
from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import CorruptRecord, FileMissing, ForeignStore
from sprocket.rabbitmq.codec.store import clean_stop
from sprocket.rabbitmq.model.names import name_bytes, name_text
from sprocket.rabbitmq.settings import VhostGeometry
from sprocket.rabbitmq.store.layout import VhostLayout, vhost_folder


class FoundGeometry(NamedTuple):
    """What a folder says, and what is wrong with its files, a sentence each."""

    fixed: VhostGeometry
    damage: tuple[str, ...] = ()


def found(disk: Disk, layout: VhostLayout, wanted: VhostGeometry) -> FoundGeometry:
    """Return the geometry of a folder; `wanted` if it is yet to be made.

    Raises:
        ForeignStore: The folder's own cannot be understood, and there is no copy of it.
    """
    copy, damage = _copy(disk, layout)
    try:
        count = clean_stop.decode_config(read_file(disk, layout.config))
    except FileMissing:
        if copy is not None:
            return FoundGeometry(VhostGeometry(segment_entries=copy), damage)
        if disk.folders(layout.queues):
            largest = VhostGeometry(segment_entries=clean_stop.SEGMENT_ENTRIES_MAX)
            return FoundGeometry(largest, damage)
        return FoundGeometry(wanted, damage)
    except CorruptRecord as error:
        if copy is None:
            raise ForeignStore(
                f"{layout.config}: {error}; without it nobody knows what the segments hold"
            ) from error
        damage = (*damage, f"{layout.config}: {error}; it says {copy} segment entries again")
        return FoundGeometry(VhostGeometry(segment_entries=copy), damage)
    if copy is not None and copy != count:
        what = f"expected {copy} segment entries, found {count}; it says {copy} again"
        damage = (*damage, f"{layout.config}: {what}")
    return FoundGeometry(VhostGeometry(segment_entries=copy or count), damage)


def _copy(disk: Disk, layout: VhostLayout) -> tuple[int | None, tuple[str, ...]]:
    """Return what the copy says, and what is wrong with it."""
    try:
        data = read_file(disk, layout.geometry)
    except FileMissing:
        return None, ()
    number, _, _ = data.partition(b" ")
    if number.isdigit() and data == _encoded(int(number)):
        return int(number), ()
    return None, (f"{layout.geometry}: expected a number with its checksum, found {data[:40]!r}",)


def _encoded(count: int) -> bytes:
    number = b"%d" % count
    return b"%s %d\n" % (number, crc32(number))


def require_vhost(disk: Disk, layout: VhostLayout, vhost: str) -> list[str]:
    """Check that a folder is that of a virtual host, or of none yet; its name may be unknown.

    Returns:
        What is wrong with the file that says so, a sentence each.

    Raises:
        ForeignStore: It is another one's.
    """
    try:
        name = read_file(disk, layout.name)
    except FileMissing:
        return []
    if not vhost or name in (b"", name_bytes(vhost)):  # a crash may have left an empty file
        return []
    what = f"expected the virtual host {vhost!r}, found {name_text(name)!r}"
    folder = layout.root.rpartition("/")[2]
    if folder == vhost_folder(vhost) != vhost_folder(name_text(name)):
        return [f"{layout.name}: {what}; it is written anew"]
    raise ForeignStore(f"{layout.root}: {what}")


def keep(disk: Disk, layout: VhostLayout, vhost: str, geometry: VhostGeometry) -> None:
    """Write the files, if they are not there or do not say so, and make the folders."""
    disk.make_folder(layout.queues)
    disk.make_folder(layout.persistent.root)
    count = geometry.segment_entries
    if not _says(disk, layout.config, count):
        replace_file(disk, layout.config, clean_stop.encode_config(count))
    if _copy(disk, layout)[0] != count:
        replace_file(disk, layout.geometry, _encoded(count))
    if vhost and (
        not disk.exists(layout.name) or read_file(disk, layout.name) != name_bytes(vhost)
    ):
        replace_file(disk, layout.name, name_bytes(vhost))


def _says(disk: Disk, path: str, count: int) -> bool:
    """Say whether a `.config` is there and has this number."""
    try:
        return clean_stop.decode_config(read_file(disk, path)) == count
    except (CorruptRecord, FileMissing):
        return False
