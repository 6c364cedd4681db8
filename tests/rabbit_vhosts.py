"""Stores of a virtual host on a simulated disk, and small messages for them."""

from collections.abc import Sequence

from sprocket.base.disk import steps
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store.layout import VhostLayout, queue_folder
from sprocket.rabbitmq.store.stored_queue import StoredQueue
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import SimulatedDisk

ROOT = "/vhosts/628WB79CIFDYO9LJI6DKMI09L"
PATHS = VhostLayout(ROOT)
Q = QueueName("/", "q")
LARGE = 500
"""Bytes of a body that goes to the message store."""


def message(number: int, size: int = 20) -> BasicMessage:
    """Return the message with a number, whose body begins with it."""
    body = f"body {number} ".encode().ljust(size, b".")
    return BasicMessage(
        b"%016d" % number, "/", "", ("q",), b"\x10\0\2", (body,), is_persistent=True
    )


def opened(
    disk: SimulatedDisk,
    settings: VhostStoreSettings | None = None,
    geometry: VhostGeometry | None = None,
) -> VhostStore:
    """Return the store, with tiny files unless told otherwise."""
    return VhostStore.open(
        VhostPlace(disk, ROOT, "/"),
        settings or VhostStoreSettings.small(),
        geometry or VhostGeometry.small(),
    )


def publish(queue: StoredQueue, *numbers: int, size: int = 20) -> None:
    """Publish messages under their numbers."""
    for number in numbers:
        queue.publish(number, [message(number, size)], expires_at_us=None, is_delivered=False)


def flush(store: VhostStore, *queues: StoredQueue) -> None:
    """Flush some queues."""
    steps.run(store.flush_steps(queues))


def close(store: VhostStore) -> None:
    """Stop cleanly."""
    steps.run(store.close_steps())


def ids(queue: StoredQueue) -> list[int]:
    """Return the numbers of the messages of a queue; each is the one that was published."""
    found = steps.run(queue.read(0, 1 << 40))
    for one in found:
        assert one.message == message(one.seq_id, one.message.body_size)
    assert queue.unacked_count() == len(found)
    return [one.seq_id for one in found]


def delivered(queue: StoredQueue) -> list[int]:
    """Return the numbers of those that are redelivered."""
    return [one.seq_id for one in steps.run(queue.read(0, 1 << 40)) if one.is_delivered]


def flip(disk: SimulatedDisk, path: str, text: bytes) -> None:
    """Change a bit in the first place of a file where some text is."""
    position = disk.contents()[path].index(text)
    file = disk.open(path, write=True)
    byte = file.read(position, 1)[0]
    file.write([bytes((byte ^ 1,))], position)
    file.sync()
    file.close()


def segment(number: int, name: QueueName = Q) -> str:
    """Return the path of a segment of a queue."""
    return PATHS.queue(queue_folder(name)).segment(number)


def journal(name: QueueName = Q) -> str:
    """Return the path of a queue's journal.jif."""
    return PATHS.queue(queue_folder(name)).journal


def put(disk: SimulatedDisk, path: str, data: bytes) -> None:
    """Write a file, durably."""
    folder = path.rpartition("/")[0]
    disk.make_folder(folder)
    file = disk.open(path, write=True, create=True)
    file.resize(0)
    file.write([data], 0)
    file.sync()
    file.close()
    disk.sync_folder(folder)


def log_files(disk: SimulatedDisk) -> Sequence[str]:
    """Return the names of the write-ahead log's files."""
    return [name for name in disk.list(ROOT) if name.startswith("sprocket.wal.")]
