"""Members of a set with failover in one process, without a network and without a decider.

Each has a disk that is opened as that of a master or of a slave, one after the other. Who is the
master, and who must have a message, is what the test says.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tests.replicas import AtOnce, Wire
from tests.stores import ROOT, SMALL, new
from tests.timers import FakeTimers

from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.model.epochs import Epoch, ReplicaId
from sprocket.rocketmq.replication import (
    AcksByName,
    Done,
    EpochSpeech,
    MemberLog,
    MustCut,
    Required,
    Slaves,
    TableVersions,
)
from sprocket.rocketmq.settings import ReplicationSettings, StoreSettings
from sprocket.rocketmq.store.cutting import Cut, log_cut
from sprocket.rocketmq.store.epoch_file import EpochFile
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import StoredRecords
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LAYOUT = StoreLayout(ROOT)


class Member:
    """One member.

    Attributes:
        replica_id: Who it is.
        epoch: Its own while it is master, else −1.
        outrun: The epochs that slaves have told it that are later.
        asked: What links have asked it to cut.
        cuts: What was cut off its log.
        errors: What ended its links.
        wire: Its link to a master.
    """

    ends_at_damage = True
    """In either role: what a single broker does, to pad it, would make the log another one."""

    def __init__(self, number: int, clock: FakeClock | None = None) -> None:
        self.replica_id = ReplicaId(number, bytes([number]) * 16)
        self.clock = clock or FakeClock()
        self.timers = FakeTimers(self.clock)
        self.disk = SimulatedDisk()
        self.epoch = -1
        self.outrun: list[int] = []
        self.asked: list[MustCut] = []
        self.cuts: list[Cut] = []
        self.errors: list[StoreError | WireError] = []
        self.wire = Wire()
        self.master: Member | None = None
        self.waiting: list[Done] = []
        self.count = 0
        self.store: Store
        self.epochs: EpochFile
        self.slaves: Slaves
        self.log: MemberLog
        self.open_slave()

    # Roles.

    def _open(self) -> None:
        """Open the store."""
        self.store = Store.open(
            self.disk,
            ROOT,
            StoreSettings(fill_ahead_bytes=0, message_bytes_max=2048),
            self.clock,
            SMALL,
            follows=self.ends_at_damage,
        )
        self.epochs = EpochFile(self.disk, LAYOUT)
        self.epochs.agree_with(self.store.first, self.store.end)

    def open_master(self, epoch: int, required: Required = Required()) -> None:  # noqa: B008 - it is frozen
        """Be the master of an epoch from now on."""
        self.close()
        self._open()
        self.epochs.begin(Epoch(epoch, self.store.end))
        self.epoch = epoch
        settings = ReplicationSettings(role="sync_master", part_bytes=512)
        slaves = self.slaves = Slaves(
            self.store,
            AtOnce(),
            self.timers,
            self.clock,
            settings,
            EpochSpeech(
                self.store, self.epochs.epochs, lambda: slaves.confirmed, self.outrun.append
            ),
            AcksByName(required),
        )
        slaves.start(lambda: None)

    def open_slave(self) -> None:
        """Be a slave from now on."""
        self.close()
        self._open()
        self.store.follow("a slave")
        self.log = MemberLog(
            self.store,
            self._append,
            self.epochs,
            self.replica_id,
            to_disk=True,
            goes_on=self.asked.append,
            tables=TableVersions(),
        )

    def close(self, *, crash: Callable[[int], int] | None = None) -> None:
        """End the role; `crash` says what the power leaves of what was not synced."""
        if not hasattr(self, "store"):
            return
        self.cut_link()
        if self.epoch >= 0:
            self.slaves.stop()
        self.epoch = -1
        self.waiting = []
        if crash is None:
            self.store.close()
        else:
            self.disk = self.disk.crash(crash)
        del self.store

    def cut(self) -> None:
        """Do what the last link has asked for: the log is cut, and opened again as a slave's."""
        wanted = self.log.must_cut
        assert wanted is not None
        self.close()
        self.cuts.append(log_cut.cut(self.disk, ROOT, wanted.at))
        self.open_slave()

    # As a master.

    def add(self, *sizes: int) -> None:
        """Store messages with bodies of these sizes."""
        for size in sizes:
            self.clock.advance(1)
            self.count += 1
            name = f"{self.replica_id.broker_id}-{self.epoch}-{self.count}"
            self.store.append(new("topic", self.count % 3, name.encode().ljust(size), name=name))
        self.store.write()
        self.store.sync()
        self.slaves.wrote(self.store.written)
        self.timers.drain()

    def require(self, others: Iterable["Member"], **fields: Any) -> None:
        """Say who must have a message."""
        replicas = frozenset(one.replica_id for one in others)
        self.slaves.require(
            AcksByName(Required(replicas=replicas, members_in_sync=1 + len(replicas), **fields))
        )

    # As a slave.

    def _append(self, stored: StoredRecords, done: Done) -> None:
        self.store.append_stored(stored)
        self.waiting.append(done)

    def link(self, master: "Member") -> None:
        """Begin a link to a master."""
        self.cut_link()
        self.flush()
        self.wire = Wire()
        self.wire.told_address = f"slave {self.replica_id.broker_id}"
        self.master = master
        self._frames = self.log.reader()
        self._reports = EpochSpeech.reader()
        self.log.begin(lambda _: self._report())
        self._send(self.log.opening())

    def _report(self) -> None:
        try:
            self._send(self.log.report())
        except StoreError as error:
            self._fail(error)

    def _send(self, data: bytes) -> None:
        master = self.master
        if master is None or not self.wire.is_open or not data:
            return
        for frame in self._reports.receive(data):
            peer: Any = self.wire
            master.slaves.on_frame(peer, frame)
        master.timers.drain()

    def _fail(self, error: StoreError | WireError) -> None:
        self.errors.append(error)
        self.cut_link()

    def take(self, size: int | None = None, *, syncs: bool = True) -> int:
        """Take what has been sent, at most `size` bytes, and store it; return how many it was."""
        data = bytes(self.wire.sent[:size])
        del self.wire.sent[: len(data)]
        try:
            for frame in self._frames.receive(data):
                self.log.take(frame)
        except (StoreError, WireError) as error:
            self._fail(error)
        if syncs:
            self.flush()
        else:
            self.store.write()
        return len(data)

    def flush(self) -> None:
        """Store what was taken."""
        waiting, self.waiting = self.waiting, []
        self.store.write()
        self.store.sync()
        for done in waiting:
            done(None)

    def take_all(self) -> None:
        """Take all that is sent."""
        while self.take():
            pass

    def cut_link(self) -> None:
        """Lose the link, and what was on its way."""
        self.master = None
        self.wire.close()
        self.wire.sent.clear()

    def follow(self, master: "Member") -> None:
        """Follow a master to its end, whatever is to be cut off for that."""
        for _ in range(2):
            self.link(master)
            self.take_all()
            if self.log.must_cut is None:
                return
            self.cut()
        raise AssertionError(self.errors)
