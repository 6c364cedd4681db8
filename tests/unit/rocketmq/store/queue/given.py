"""What tests of queues begin with."""

from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.store.queue import FileQueues, QueueKey, Queues
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.testing.disk import SimulatedDisk

SMALL = QueueGeometry.small()
FOLDER = "/store/consumequeue"
FIRST = f"{FOLDER}/T/0/{0:020d}"


def entry(offset: int, *, at: int | None = None, queue: int = 0, sys_flag: int = 0) -> Entry:
    """Return the entry of a record of 100 bytes; by default the log holds only this queue."""
    place = 100 * offset if at is None else at
    return Entry("T", queue, offset, place, 100, 7 * offset, 0, sys_flag=sys_flag)


def opened(disk: SimulatedDisk, *, clean: bool = True) -> FileQueues:
    """Return the queues that are on the disk."""
    queues = FileQueues(disk, FOLDER, SMALL)
    queues.load(clean=clean)
    return queues


def only(queues: FileQueues) -> FileQueue:
    """Return the queue T/0."""
    queue = queues.by_key.get(("T", 0))
    assert isinstance(queue, FileQueue)
    return queue


def next_offsets(queues: Queues) -> dict[QueueKey, int]:
    """Return where each queue goes on."""
    return {key: queue.max_offset for key, queue in queues.by_key.items()}


def oldest(_count: int) -> int:
    """Choose what was last synced of everything."""
    return 0
