"""A master and a slave in one process without a network: what one sends is given to the other."""

from collections.abc import Callable
from typing import Any

from tests.stores import ROOT, SMALL, maintain, new
from tests.timers import FakeTimers

from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.codec.replication import PartReader, ReportReader, report
from sprocket.rocketmq.replication import AcksByNumber, ClassicSpeech, Done, ReplicaLog, Slaves
from sprocket.rocketmq.settings import ReplicationSettings, StoreSettings
from sprocket.rocketmq.store.log import StoredRecords
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

GATHER_MS = 10
"""How long a master gathers what no slave must have at once."""


class Wire:
    """What `Slaves` take for a connection: bytes that were sent wait here.

    Attributes:
        sent: What the master has sent and the slave has not got.
        is_ready: Whether the slave takes more.
    """

    def __init__(self) -> None:
        self.sent = bytearray()
        self.is_open = self.is_ready = True
        self.told_address = "slave"
        self._closed: list[Callable[[Any], None]] = []
        self._ready: list[Callable[[], None]] = []

    def send(self, buffers: list[bytes | memoryview]) -> None:
        """Keep bytes, as they are now."""
        for one in buffers:
            self.sent += one

    send_now = send

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Keep a call."""
        self._ready.append(callback)

    def when_closed(self, callback: Callable[[Any], None]) -> None:
        """Keep a call."""
        self._closed.append(callback)

    def write_at_once(self) -> None:
        """Do nothing: what is sent is there."""

    def keep_when_quiet(self) -> None:
        """Do nothing: nobody is cut off here."""

    def become_ready(self) -> None:
        """Take more."""
        self.is_ready = True
        calls, self._ready = self._ready, []
        for call in calls:
            call()

    def close(self) -> None:
        """End."""
        if self.is_open:
            self.is_open = False
            for call in self._closed:
                call(self)

    def abort(self, _: str) -> None:
        """End."""
        self.close()


class AtOnce:
    """Reads that never wait.

    Attributes:
        busy: What the next ones end with.
    """

    def __init__(self) -> None:
        self.busy: list[StoreError] = []

    def run(self, work: Callable[[], None], _: Callable[[Exception], None], /) -> None:
        """Do the work."""
        if self.busy:
            raise self.busy.pop()
        work()


class Master:
    """A store whose messages are sent to slaves."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: Any) -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.disk = disk or SimulatedDisk()
        self.disk.now_ms = self.clock.now_ms()
        self.store = Store.open(
            self.disk, ROOT, StoreSettings(fill_ahead_bytes=0), self.clock, SMALL
        )
        self.reads = AtOnce()
        wanted = ReplicationSettings(**settings)
        self.slaves = Slaves(
            self.store,
            self.reads,
            self.timers,
            self.clock,
            wanted,
            ClassicSpeech(self.store),
            AcksByNumber(self.store, wanted),
        )
        self.slaves.start(lambda: None)
        self.count = 0

    def add(self, *sizes: int) -> None:
        """Store messages with bodies of these sizes."""
        for size in sizes:
            self.clock.advance(1)
            body = bytes([self.count % 251]) * size
            self.store.append(new("topic", self.count % 3, body, name=f"M{self.count}"))
            self.count += 1
        self.store.write()
        self.store.sync()
        self.slaves.wrote(self.store.written)
        self.store.dispatch()
        self.timers.advance(GATHER_MS)


class Follower:
    """A store that follows a master.

    Attributes:
        errors: What ended its links.
        reported: What it said at most that it has.
    """

    def __init__(self, disk: SimulatedDisk | None = None, *, to_disk: bool = True) -> None:
        self.disk = disk or SimulatedDisk()
        self.store = Store.open(
            self.disk, ROOT, StoreSettings(fill_ahead_bytes=0), FakeClock(), SMALL, follows=True
        )
        self.store.follow("a slave", self._beside_dispatch)
        self.replica = ReplicaLog(self.store, self._append, to_disk=to_disk)
        self.errors: list[StoreError | WireError] = []
        self.reported = 0
        self.wire = Wire()
        self.reports = ReportReader()
        self._reader = PartReader()
        self.waiting: list[Done] = []
        self._is_over = True

    def _beside_dispatch(self, call: Callable[[], int], _: int) -> int:
        """Make a call of a write while what was written before gets into queues and index."""
        self.store.dispatch()
        self.store.dispatch_index()
        wrote = call()
        self.store.dispatch()
        return wrote

    def _append(self, stored: StoredRecords, done: Done) -> None:
        self.store.append_stored(stored)
        self.waiting.append(done)

    def link(self, master: Master, first: int | None = None) -> None:
        """Begin a link."""
        self.flush()
        self.wire = Wire()
        self._reader = PartReader()
        self._is_over = False
        asked = self.replica.begin(lambda _: self._report(master), first)
        master.slaves.on_frame(self.wire, asked)  # type: ignore[arg-type]
        master.timers.drain()

    def _report(self, master: Master) -> None:
        if self.wire.is_open and not self._is_over:
            self.reported = max(self.reported, self.replica.safe_end)
            for end in self.reports.receive(report(self.replica.safe_end)):
                master.slaves.on_frame(self.wire, end)  # type: ignore[arg-type]

    def take(self, master: Master, size: int | None = None, *, syncs: bool = True) -> int:
        """Take what has been sent, at most `size` bytes, and store it; return how many it was."""
        data = bytes(self.wire.sent[:size])
        del self.wire.sent[: len(data)]
        try:
            for part in self._reader.receive(data):
                self.replica.take(part)
        except (StoreError, WireError) as error:
            self.errors.append(error)
            self._is_over = True
            self.wire.close()
        if syncs:
            self.flush()
        else:
            self.store.write()
        master.timers.drain()
        return len(data)

    def flush(self) -> None:
        """Store what was taken."""
        waiting, self.waiting = self.waiting, []
        self.store.write()
        self.store.sync()
        for done in waiting:
            done(None)
        self.store.dispatch()

    def take_all(self, master: Master, piece: int | None = None) -> None:
        """Take all that is sent."""
        while self.take(master, piece):
            pass

    def cut(self) -> None:
        """Lose the link, and what was on its way."""
        self._is_over = True
        self.wire.close()


def log_of(store: Store) -> bytes:
    """Return all bytes of a log, zeros for what was cleaned away."""
    found = bytes(store.first)
    while len(found) < store.written:
        found += store.log_part(len(found), 1 << 20)
    return found


def assert_same(master: Store, slave: Store) -> None:
    """Fail unless two logs, and the queues over them, are the same."""
    assert (slave.first, slave.written) == (master.first, master.written)
    assert log_of(slave) == log_of(master)
    master.dispatch()
    slave.dispatch()
    assert list(slave.queues()) == list(master.queues())
    maintain(slave)
