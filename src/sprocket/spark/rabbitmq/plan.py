"""Which task reads what: queues are put together up to a size, large ones divided by segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, ForeignStore, SettingsError
from sprocket.base.nearest import hint
from sprocket.base.units import KIB
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store import layout
from sprocket.rabbitmq.store.reading import FoundQueue, QueuePart, VhostReader, vhost_folders
from sprocket.spark.files import open_disk
from sprocket.spark.mode import Mode
from sprocket.spark.rabbitmq.columns import name_text
from sprocket.spark.rabbitmq.options import RabbitOptions, read_options

QUEUE_BYTES = 64 * KIB
"""What a queue counts besides its files: to find and open them costs as much."""


@dataclass(frozen=True, slots=True)
class QueueShare:
    """What a task reads of a queue, or of one of its priorities.

    Attributes:
        root: The folder of the virtual host.
        queue: Whose messages.
        folder: The name of the queue's folder.
        is_v2: Whether it has an index of version 2.
        redelivered_below: Messages with a smaller sequence id were delivered; None for all, as
            after a crash; -1 where the records themselves say.
        number: Of all segments those are read whose number, counted from 0, leaves this rest
            when divided by `count`.
        count: How many tasks share the queue.
        tells_vhost: The task also reports what is wrong with the virtual host.
    """

    root: str
    queue: QueueName
    folder: str
    is_v2: bool
    redelivered_below: int | None
    number: int
    count: int
    tells_vhost: bool

    @property
    def part(self) -> QueuePart:
        """The same for a `VhostReader`."""
        return QueuePart(self.queue, self.folder, self.is_v2, None)


def open_folder(options: RabbitOptions) -> Disk:
    """Return the disk that the folder is on, to read from."""
    return open_disk(options.path, dict(options.file_system))


def plan(options: RabbitOptions) -> list[list[QueueShare]]:
    """Return what each task reads.

    Raises:
        ForeignStore: The folder has no virtual host.
        SettingsError: A virtual host or a queue that is named is not there.
        CorruptRecord: What names the queues is damaged, and the mode is FAILFAST.
    """
    disk = open_folder(options)
    readers = [VhostReader(disk, folder) for folder in vhost_folders(disk, options.path)]
    if not readers:
        raise ForeignStore(f"{options.path}: no folder of a virtual host of RabbitMQ")
    _require("virtual host", options.vhosts, [reader.name for reader in readers])
    chosen = [one for one in readers if not options.vhosts or one.name in options.vhosts]
    queues = [(reader, reader.queues()) for reader in chosen]
    _require("queue", options.queues, [queue.name for _, some in queues for queue in some])
    weighed: list[tuple[int, list[QueueShare]]] = []
    for reader, found in queues:
        wanted = [
            queue
            for queue in found
            if options.names_queue(queue.name)
            and options.may_pass(name_text(queue.vhost), name_text(queue.name))
        ]
        weighed += _shares(disk, reader, wanted, options)
        reader.tell_missing_queues()
        if reader.faults and options.mode is Mode.FAILFAST:
            raise CorruptRecord(str(reader.faults[0]))
    return _grouped(weighed, options)


def require_queues(folder: str, given: Mapping[str, str]) -> None:
    """Check that a folder has the queues that options of the format `rabbitmq` name.

    Args:
        folder: The folder.
        given: The other options.

    Raises:
        SettingsError, ForeignStore, CorruptRecord: As `plan`, or an option is wrong.
    """
    plan(read_options({"path": folder, **given}))


def _require(what: str, wanted: Sequence[str], names: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            meant = hint(name, names) or f"; there are {len(set(names))}"
            raise SettingsError(f"there is no {what} {name!r}{meant}")


def _shares(
    disk: Disk, reader: VhostReader, queues: Sequence[FoundQueue], options: RabbitOptions
) -> list[tuple[int, list[QueueShare]]]:
    """Return for each part of the queues its bytes a share, and its shares."""
    paths = reader.layout
    parts = [(queue, part) for queue in queues for part in queue.parts]
    sizes = {part.folder: disk.sizes(paths.queue(part.folder).root) for _, part in parts}
    # How much of the store a queue has is not known before it is read: as much as of all indexes.
    stored = sum(disk.sizes(paths.persistent.root).values())
    indexed = sum(sum(one.values()) for one in sizes.values()) or 1
    wanted_bytes = options.partition_bytes_max
    if options.partitions_min > 1:
        whole = stored + indexed + QUEUE_BYTES * len(parts)
        wanted_bytes = max(1, min(wanted_bytes, whole // options.partitions_min))
    found = []
    for number, (queue, part) in enumerate(parts):
        own = sum(sizes[part.folder].values())
        weight = own + stored * own // indexed + QUEUE_BYTES
        segments = sum(
            len(layout.numbers(sizes[part.folder], suffix))
            for suffix in (layout.SEGMENT, layout.SEGMENT_V2)
        )
        count = max(1, min(segments, -(-weight // wanted_bytes)))
        shares = [
            QueueShare(
                paths.root,
                QueueName(queue.vhost, queue.name, part.queue.priority),
                part.folder,
                part.is_v2,
                _redelivered_below(part),
                share,
                count,
                tells_vhost=not number and not share,
            )
            for share in range(count)
        ]
        found.append((weight // count, shares))
    return found


def _redelivered_below(part: QueuePart) -> int | None:
    if part.terms is None:
        return None
    known = part.terms.next_deliver_seq_id
    return -1 if known is None else known


def _grouped(
    weighed: Sequence[tuple[int, list[QueueShare]]], options: RabbitOptions
) -> list[list[QueueShare]]:
    """Put small shares together."""
    total = sum(weight * len(shares) for weight, shares in weighed)
    limit = min(options.partition_bytes_max, -(-total // options.partitions_min))
    groups: list[list[QueueShare]] = []
    size = limit
    for weight, shares in weighed:
        for share in shares:
            if size + weight > limit:
                groups.append([])
                size = 0
            groups[-1].append(share)
            size += weight
    return groups
