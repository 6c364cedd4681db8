"""What fixes the files of a virtual host: its name, and how many entries a segment has.

Both are RabbitMQ's files, `.vhost` and `.config`. A folder that has queues and no `.config` is one
of a RabbitMQ before 3.8.17, whose segments had 16,384 entries.

Source: RabbitMQ 3.10.8 `rabbit_vhost`.
"""

from sprocket.base.disk import Disk, read_file, replace_file
from sprocket.base.errors import CorruptRecord, FileMissing, ForeignStore
from sprocket.rabbitmq.codec.store import clean_stop
from sprocket.rabbitmq.model.names import name_bytes, name_text
from sprocket.rabbitmq.settings import VhostGeometry
from sprocket.rabbitmq.store.layout import VhostLayout


def found(disk: Disk, layout: VhostLayout, wanted: VhostGeometry) -> VhostGeometry:
    """Return the geometry of a folder; `wanted` if it is yet to be made.

    Raises:
        ForeignStore: The folder's own cannot be understood.
    """
    try:
        count = clean_stop.decode_config(read_file(disk, layout.config))
    except FileMissing:
        if disk.folders(layout.queues):
            return VhostGeometry(segment_entries=clean_stop.SEGMENT_ENTRIES_MAX)
        return wanted
    except CorruptRecord as error:
        raise ForeignStore(
            f"{layout.config}: {error}; without it nobody knows what the segments hold"
        ) from error
    return VhostGeometry(segment_entries=count)


def require_vhost(disk: Disk, layout: VhostLayout, vhost: str) -> None:
    """See that a folder is that of a virtual host, or of none yet; nobody may know its name.

    Raises:
        ForeignStore: It is another one's.
    """
    try:
        name = read_file(disk, layout.name)
    except FileMissing:
        return
    if vhost and name not in (b"", name_bytes(vhost)):  # a crash may have left an empty file
        raise ForeignStore(
            f"{layout.root}: expected the virtual host {vhost!r}, found {name_text(name)!r}"
        )


def keep(disk: Disk, layout: VhostLayout, vhost: str, geometry: VhostGeometry) -> None:
    """Write both files, if they are not there, and make the folders."""
    disk.make_folder(layout.queues)
    disk.make_folder(layout.persistent.root)
    if not disk.exists(layout.config):
        replace_file(disk, layout.config, clean_stop.encode_config(geometry.segment_entries))
    if vhost and (not disk.exists(layout.name) or not disk.size(layout.name)):
        replace_file(disk, layout.name, name_bytes(vhost))
