"""Group commit over the log of RabbitMQ's journals: one sync confirms a turn of all queues."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.timers import FakeTimers

from sprocket.base.disk import PendingSync
from sprocket.base.errors import DiskFull, DiskRefused, StoreError
from sprocket.rabbitmq.codec import index
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.message_store import MessageStore, StoreContents
from sprocket.rabbitmq.store.queue_index import IndexLimits, QueueIndex
from sprocket.rabbitmq.store.write_ahead import Origin, WriteAheadLog, read_log
from sprocket.runtime.group_commit import FlushMode, GroupCommit, Machine
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

PATHS = VhostLayout("/v")


class Publish:
    """A message that somebody waits for the confirm of."""

    records = waiting_count = 1

    def __init__(self, queue: int, seq_id: int) -> None:
        self.queue = queue
        self.seq_id = seq_id


class Publisher:
    """Publishes to some queues; it is its own responder, follower and thread."""

    def __init__(self, queues: int, file_bytes: int = 4096) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_folder(PATHS.queues)
        self.disk.make_folder(PATHS.persistent.root)
        clock = FakeClock()
        self.timers = FakeTimers(clock)
        self.log = WriteAheadLog(self.disk, PATHS.root, file_bytes)
        contents = StoreContents({}, {})
        self.store = MessageStore(
            self.disk, PATHS.persistent, self.log, Origin("S"), contents, 1 << 24
        )
        self.indexes = [
            QueueIndex(
                self.disk, PATHS.queue(f"Q{n}"), self.log, Origin(f"Q{n}"), IndexLimits(64), {}
            )
            for n in range(queues)
        ]
        self.confirmed: list[tuple[int, int]] = []
        self.refused_count = 0
        mode = FlushMode(is_sync=True, wait_seconds_max=1, timeout_seconds=5, look_seconds=1)
        machine = Machine(self.timers, clock, self, self, yield_core=lambda: None)
        self.commit: GroupCommit[Publish, list[Publish]] = GroupCommit(
            self.log, self, machine, mode, Pressure(1 << 20, 1 << 20)
        )
        self.commit.start()

    def publish(self, queue: int, seq_id: int, term: bytes = b"term", *, is_large: bool) -> None:
        """Publish a message."""
        message_id = b"%8d%8d" % (queue, seq_id)
        if is_large:
            self.store.add(message_id, term)
        embedded = b"" if is_large else term
        record = index.publish(seq_id, message_id, 0, 9, embedded, is_persistent=True)
        self.indexes[queue].publish_all(seq_id, [record])
        self.commit.wait(Publish(queue, seq_id))

    def ready(self, group: Sequence[Publish], error: StoreError | None) -> list[Publish]:
        """Confirm nobody whose message is not durable."""
        assert error is None
        return [*group]

    def send(self, answers: list[Publish]) -> None:
        """Note confirms."""
        self.confirmed += [(one.queue, one.seq_id) for one in answers]

    def refuse(self, group: Sequence[Publish], error: StoreError) -> None:
        """Take refused messages out of their queues."""
        assert isinstance(error, DiskFull)
        for one in group:
            self.indexes[one.queue].withdraw([one.seq_id])
        self.refused_count += len(group)

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Do a job at once."""
        try:
            done(job(), None)
        except StoreError as error:
            done(None, error)

    def run_within(
        self,
        seconds: float,
        job: Callable[[], Any],
        done: Callable[[Any, Any], None],
        beside: Callable[[], None] | None = None,
        start: Callable[[], PendingSync | None] = lambda: None,
    ) -> None:
        """Do a job at once, by itself."""
        assert seconds == 1
        assert callable(start)
        if beside is not None:
            beside()
        self.submit(job, done)

    @property
    def safe(self) -> dict[str, bytes]:
        """What a loss of power leaves in the log if it takes all that it can."""
        tails = read_log(self.disk.crash(lambda _: 0), PATHS.root).tails
        return {name: b"".join(tail.records) for name, tail in tails.items()}


def test_a_sync_that_could_not_begin_does_not_stop_the_log() -> None:
    """As what goes with it could not be opened; the next one covers the same batches."""
    mine = Publisher(1)
    mine.publish(0, 0, is_large=False)
    mine.log.write()
    job = mine.log.begin_sync()
    assert job is not None
    job.finish(DiskRefused("open: Too many open files"))
    assert mine.log.failure is None
    mine.timers.drain()
    assert mine.confirmed == [(0, 0)]
    assert mine.safe["Q0"] != b""


def test_one_sync_confirms_a_turn_of_all_queues() -> None:
    """The log's alone, and what it confirms is durable."""
    mine = Publisher(100, 1 << 20)
    mine.publish(0, 0, is_large=False)
    mine.timers.drain()
    syncs = mine.disk.calls["sync"]
    for queue in range(100):
        mine.publish(queue, 1, is_large=False)
    assert mine.confirmed == [(0, 0)]
    mine.timers.drain()
    assert mine.disk.calls["sync"] == syncs + 1
    assert len(mine.confirmed) == 101
    assert len(mine.safe) == 100


def test_a_large_message_is_durable_before_its_record() -> None:
    """Its bytes are in the message store then; the log goes on in a next file when one is full."""
    mine = Publisher(2)
    for seq_id in range(40):
        mine.publish(0, seq_id, 50 * b"large", is_large=True)
        mine.publish(1, seq_id, 50 * b"small", is_large=False)
        mine.timers.drain()
        data = mine.disk.crash(lambda _: 0).contents()[PATHS.persistent.file(0)]
        assert data.count(50 * b"large") == seq_id + 1
    assert len(mine.confirmed) == 80
    assert mine.log.file_count > 3
    assert mine.safe["Q1"].count(50 * b"small") == 40


def test_a_message_that_is_refused_is_not_there() -> None:
    """What else was to be written goes down with the next write."""
    mine = Publisher(2)
    mine.publish(0, 0, is_large=False)
    mine.publish(1, 0, is_large=False)
    mine.timers.drain()
    mine.disk.is_full = True
    mine.indexes[1].ack([0])
    mine.publish(0, 1, is_large=False)
    mine.timers.drain()
    assert (mine.confirmed, mine.refused_count) == ([(0, 0), (1, 0)], 1)
    assert mine.log.pending_bytes == 8  # the acknowledgement
    mine.disk.is_full = False
    mine.publish(0, 2, is_large=False)
    mine.timers.drain()
    assert mine.confirmed == [(0, 0), (1, 0), (0, 2)]
    left = [index.states(index.read_journal(mine.safe[name])) for name in ("Q0", "Q1")]
    live = [one.ids[~one.is_acked & (one.published_at >= 0)].tolist() for one in left]
    assert live == [[0, 2], []]
