"""A log in memory with queues, for the tests of what reads them."""

from tests.stores import overwrite

from sprocket.base.disk import SegmentFiles, SegmentWindow
from sprocket.base.errors import OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.codec.record import ids, record, record_scan
from sprocket.rocketmq.geometry import QueueGeometry
from sprocket.rocketmq.model.filters import TagFilter
from sprocket.rocketmq.model.message import INNER_BATCH, NewRecord
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.queue import QUEUE_UNIT, UNIT_BYTES, FileQueues, OtherKinds, Queue
from sprocket.rocketmq.store.queue.file_queue import FileQueue
from sprocket.rocketmq.store.read import GetResult, GetStatus, Reading, queue_reader
from sprocket.testing.disk import SimulatedDisk

HOST = ids.host_bytes("127.0.0.1", 10911)


class Log:
    """A log in memory, with its queues; `first` is where the oldest byte lies that is kept."""

    def __init__(self, units_per_file: int = 1000) -> None:
        self.data = bytearray()
        self.first = 0
        self.disk = SimulatedDisk()
        self.geometry = QueueGeometry(units_per_file=units_per_file)
        self.queues = FileQueues(self.disk, "/q", self.geometry)

    @property
    def end(self) -> PhysicalOffset:
        """Where the next record goes."""
        return PhysicalOffset(len(self.data))

    def slice(self, offset: int, size: int) -> memoryview:
        """Return stored bytes."""
        if offset < self.first:
            raise OffsetTooSmall(offset, self.first)
        if offset + size > len(self.data):
            raise OffsetTooLarge(offset, len(self.data))
        return memoryview(bytes(self.data[offset : offset + size]))

    @property
    def warm_from(self) -> int:
        """All of it is."""
        return 0

    def window(self, offset: int, size: int) -> SegmentWindow:
        """Return all that is kept."""
        assert size > 0
        self.slice(offset, 1)
        return SegmentWindow(memoryview(bytes(self.data[self.first :])), self.first, len(self.data))

    def add(
        self,
        *,
        tag: str = "",
        at_ms: int = 0,
        body: bytes = b"x",
        six: bool = False,
        pairs: bytes = b"",
    ) -> None:
        """Add a message to the queue T/0."""
        born = ids.host_bytes("::1", 1) if six else HOST
        pairs += f"TAGS\x01{tag}\x02".encode() if tag else b""
        new = NewRecord("T", 0, body, pairs, born, HOST)
        queue = self.queues.by_key.get(("T", 0))
        offset = 0 if queue is None else queue.max_offset
        place = len(self.data)
        data = record.encode(
            new, queue_offset=offset, physical_offset=place, stored_at_ms=at_ms, crc_tail=False
        )
        self.data += data
        self.queues.put_round([record.entry(data)])

    def put_unit(self, offset: int, place: int, size: int, code: int) -> None:
        """Change a unit of the queue T/0, as a bad disk would."""
        files = SegmentFiles(self.disk, "/q/T/0", self.geometry.file_bytes)
        files.load()
        overwrite(files, offset * UNIT_BYTES, QUEUE_UNIT.pack(place, size, code))
        self.queue.files.close()  # what it has read before is forgotten

    @property
    def queue(self) -> FileQueue:
        """The queue T/0."""
        queue = self.queues.by_key.get(("T", 0))
        assert isinstance(queue, FileQueue)
        return queue

    def get(
        self,
        offset: int,
        *,
        max_count: int = 32,
        tags: frozenset[int] | None = None,
        max_bytes: int = 1 << 18,
        bytes_in_memory: int | None = None,
        own_from: int | None = None,
    ) -> GetResult:
        """Read the queue T/0; `tags` are the hashes that pass."""
        wanted = None if tags is None else TagFilter(codes=tags)
        return queue_reader.get_messages(
            self.queue,
            self,
            offset,
            Reading(max_count, max_bytes, wanted),
            bytes_in_memory=bytes_in_memory,
            own_from=own_from,
        )


def filled(count: int, **options: int) -> Log:
    """Return a log of messages, stored 10 ms after each other."""
    log = Log(**options)
    for n in range(count):
        log.add(at_ms=10 * n, tag="AB"[n % 2], six=n % 3 == 0)
    return log


def outcome(result: GetResult) -> tuple[GetStatus, int, int]:
    """Return what a client acts on."""
    return result.status, result.next_offset, result.count


def unit_of(log: Log, number: int) -> tuple[int, int]:
    """Return place and size of a record, by scanning the log."""
    places = list(record_scan.Scan(memoryview(bytes(log.data)), 0, 0, len(log.data)))
    return places[number]


def log_size(log: Log, number: int) -> int:
    """Return the size of a record."""
    return unit_of(log, number)[1]


def batches(*counts: int) -> tuple[Log, Queue]:
    """Return a log of inner batches, 10 ms after each other, and their queue."""
    log = Log()
    others = OtherKinds("/ext", "/batches", batch_topics={"T"})
    log.queues = FileQueues(SimulatedDisk(), "/q", QueueGeometry(), others=others)
    first = 0
    for number, count in enumerate(counts):
        new = NewRecord(
            "T", 0, b"x", b"INNER_NUM\x01%d\x02" % count, HOST, HOST, sys_flag=INNER_BATCH
        )
        data = record.encode(
            new,
            queue_offset=first,
            physical_offset=len(log.data),
            stored_at_ms=10 * number,
            crc_tail=False,
        )
        log.data += data
        log.queues.put_round([record.entry(data)])
        first += count
    queue = log.queues.by_key.get(("T", 0))
    assert queue is not None
    return log, queue
