"""Which engine a store's queues have.

The content of `consumequeue/` decides: the file `CURRENT` of a RocksDB, or folders of topics. If it
is empty, the geometry decides. `convert` changes from one engine to the other.
"""

from sprocket.base.disk import Disk
from sprocket.rocketmq.geometry import Engine, QueueGeometry
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue.engine import Queues
from sprocket.rocketmq.store.queue.file_queues import FileQueues, OtherKinds
from sprocket.rocketmq.store.queue.rocks_database import is_database
from sprocket.rocketmq.store.queue.rocks_queues import RocksQueues


def found(disk: Disk, layout: StoreLayout) -> Engine | None:
    """Return the engine of the queues that are there, None if there are none.

    RocketMQ leaves the files of one engine where they are when it is told to use the other; a
    RocksDB counts first, as it was made later: `files` is RocketMQ's default.
    """
    folder = layout.consumequeue
    if is_database(disk, folder):
        return "rocksdb"
    if any(disk.is_folder(f"{folder}/{name}") for name in disk.list(folder)):
        return "files"
    return None


def make(
    disk: Disk,
    layout: StoreLayout,
    geometry: QueueGeometry,
    others: OtherKinds | None = None,
    *,
    write: bool,
) -> Queues:
    """Return the queues of a store, not loaded yet.

    Args:
        disk: Where the store lies.
        layout: Its folders.
        geometry: Its queues' engine and files.
        others: Extended and batch queues, which only files hold; None takes what is there.
        write: Whether anything may be changed on the disk.
    """
    if geometry.engine == "rocksdb":
        return RocksQueues(disk, layout.consumequeue, write=write)
    others = others or OtherKinds(layout.extension, layout.batch_queues)
    return FileQueues(
        disk,
        layout.consumequeue,
        geometry,
        note=layout.queue_ends,
        write=write,
        others=others,
    )
