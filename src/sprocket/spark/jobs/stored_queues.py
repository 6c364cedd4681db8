"""The queues of a store's folder, for jobs that look at a few messages and not at the whole log.

Nothing in the folder is changed, and a broker may run on it.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sprocket.base.disk import Disk
from sprocket.base.errors import ForeignStore, SettingsError, WireError
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.store import committed_offsets, geometry
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import Queue, Queues, engines
from sprocket.spark.files import local_path
from sprocket.spark.jobs.job_files import StoreFolder


class FolderQueues:
    """The queues, and what groups have committed in them.

    Attributes:
        disk: Where the folder lies.
        layout: Where its files are.
        offsets: The committed offset of each queue, by `topic@group` and queue id.
    """

    def __init__(
        self, disk: Disk, layout: StoreLayout, queues: Queues, offsets: dict[str, dict[int, int]]
    ) -> None:
        self.disk = disk
        self.layout = layout
        self.offsets = offsets
        self._queues = queues

    def get(self, topic: str, queue_id: int = 0) -> Queue | None:
        """Return a queue, None if it never had a message."""
        return self._queues.by_key.get((topic, queue_id))

    def message(self, queue: Queue, offset: int) -> StoredMessage | None:
        """Return a message, None if it is not in the log any more, or is damaged."""
        place, size, _code = queue.unit(offset)
        starts = [int(name) for name in self.disk.list(self.layout.commitlog) if name.isdecimal()]
        start = max((one for one in starts if one <= place), default=-1)
        if start < 0:
            return None
        with closing(self.disk.open(f"{self.layout.commitlog}/{start:020d}")) as file:
            data = file.read(place - start, size)
        try:
            return record.decode(data, 0, check_crc=False)
        except WireError:
            return None  # a filler, or damage, which `fsck` is for


@contextmanager
def opened(source: StoreFolder) -> Iterator[FolderQueues]:
    """Open the queues of a folder.

    Raises:
        ForeignStore: It is not a store.
        SettingsError: Its queues or offsets are in a RocksDB that is on no local disk.
        StoreError: It cannot be read.
    """
    disk, layout, folder = source.disk(), source.layout, source.path
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{folder} is not a store directory: it has no folder commitlog")
    try:
        offsets = committed_offsets.read(disk, layout)
    except EngineMissing as error:
        if local_path(folder) is not None:
            raise
        raise SettingsError(
            f"{folder} has its offsets in a RocksDB, which can be read on the local disk only"
        ) from error
    settled = geometry.resolve(disk, layout, None).queue
    if settled.engine != "files" and local_path(folder) is None:
        raise SettingsError(
            f"{folder} has its queues in a RocksDB, which can be read on the local disk only"
        )
    queues = engines.make(disk, layout, settled, write=False)
    try:
        _take_up(disk, layout, queues)
        yield FolderQueues(disk, layout, queues, offsets)
    finally:
        queues.close()


def _take_up(disk: Disk, layout: StoreLayout, queues: Queues) -> None:
    """Load queues with the bounds that a broker gives them."""
    from sprocket.rocketmq.store.recovery import Deletions, load_to_read  # few jobs need it

    starts = (int(name) for name in disk.list(layout.commitlog) if name.isdecimal())
    load_to_read(queues, Deletions(disk, layout, write=False), min(starts, default=0))
