"""Transactions over a real store on a simulated disk, with hand-made time."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import structs
from tests.inline import InlineReads, InlineThread
from tests.timed import waits_of
from tests.timers import FakeTimers

from sprocket.base.errors import StoreError
from sprocket.base.place import Place
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.broker.broker import flush_mode
from sprocket.rocketmq.broker.delivery import PullHold
from sprocket.rocketmq.broker.groups import ClientManager, ConsumerOffsets
from sprocket.rocketmq.broker.messages import (
    Commits,
    DelayLevels,
    DurableAppender,
    Release,
    ReputRounds,
    hide,
    pending_acks,
)
from sprocket.rocketmq.broker.messages.diverters import InboundMessage
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.transactions import (
    Ask,
    HalfChecks,
    HalfRecords,
    RecentHalves,
    Transactions,
)
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.geometry import Geometry, LogGeometry
from sprocket.rocketmq.model.group import Heartbeat
from sprocket.rocketmq.model.message import NewHalf, NewRecord, ProducedMessage, StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset, QueueOffset
from sprocket.rocketmq.model.transaction import Outcome, TransactionEnd, TransactionQuestion
from sprocket.rocketmq.settings import PullSettings, Settings, StoreSettings, TransactionSettings
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import GroupCommit, Machine
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
GROUP = "producers"
HOUR_MS = 3_600_000


class Transacting:
    """One process that knows of transactions.

    Attributes:
        acked: Bodies of half messages whose producer had an answer, and where they are.
        questions: What producers were asked and did not answer yet.
    """

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        *,
        clock: FakeClock | None = None,
        flush: str = "sync",
        settings: TransactionSettings | None = None,
        segment_bytes: int = 64 * KIB,
        ask: Ask | None = None,
        folder: str = "/s",
        geometry: Geometry | None = None,
        group: str = GROUP,
        recent_bytes: int = MIB,
    ) -> None:
        self.group = group
        self.disk = disk or SimulatedDisk()
        self.clock = clock or FakeClock()
        self.timers = FakeTimers(self.clock)
        self.settings = settings or TransactionSettings()
        stored = StoreSettings(fill_ahead_bytes=0, flush=cast("Any", flush))
        levels = DelayLevels(stored.delay_levels)
        small = Geometry.small()
        geometry = geometry or Geometry(
            log=LogGeometry(segment_bytes=segment_bytes), queue=small.queue, index=small.index
        )
        self.store = Store.open(self.disk, folder, stored, self.clock, geometry)
        self.rounds = ReputRounds(
            self.store,
            self.timers,
            self.clock,
            [PullHold(self.timers, PullSettings())],
            Stats(self.clock),
        )
        pressure = Pressure(MIB, MIB)
        self.commits: Commits = GroupCommit(
            DurableLog(self.store, lambda: None),
            pending_acks,
            Machine(self.timers, self.clock, InlineThread(), InlineThread()),
            flush_mode(Settings(store=stored)),
            pressure,
            self.rounds,
        )
        self.durable = DurableAppender(self.store, self.commits, pressure)
        self.offsets = ConsumerOffsets(Place(self.disk, folder, self.clock))
        self.offsets.set_back(self.store)
        self.members = ClientManager(self.clock, 120, lambda *_: None)
        self.records = HalfRecords(
            waits_of(levels, self.store.log_clock, self.clock), HERE, self.clock.now_ms, MIB
        )
        self.recent = RecentHalves(recent_bytes)
        self.transactions = Transactions(
            self.store, self.durable, self.offsets, self.records, self.recent, self.settings
        )
        self.checks = HalfChecks(
            self.transactions,
            self.records,
            InlineReads(),
            self.store.log_clock,
            self.timers,
            self.members,
            ask or (lambda _, question: self.questions.append(question)),
            self.settings,
            keep_ms=72 * HOUR_MS,
            make_topic=lambda *_: None,
        )
        self.acked: dict[bytes, tuple[int, int]] = {}
        self.questions: list[TransactionQuestion] = []
        self.commits.start()
        self.rounds.start()

    def produce(self, count: int = 1) -> None:
        """Have producers connect."""
        for number in range(count):
            link: Any = f"link {number}"
            heartbeat = Heartbeat(client_id=f"client {number}", producers=[self.group])
            self.members.heartbeat(link, heartbeat, "PYTHON", 1, [])

    def send(self, *bodies: bytes, topic: str = "T", **found: str) -> None:
        """Send half messages; their producers are answered in the turns that follow."""
        made = [self.half(body, topic, found) for body in bodies]
        self.durable.append(made, self._stored, list(zip(bodies, made, strict=True)))

    def half(self, body: bytes, topic: str, found: dict[str, str]) -> NewRecord:
        """Return the record of a half message, as `Sender` makes it."""
        pairs = {"UNIQ_KEY": body.decode(), "PGROUP": GROUP, "TRAN_MSG": "true", **found}
        sent = ProducedMessage(topic=topic, queue_id=1, sys_flag=4, born_timestamp=1, flag=0)
        way = InboundMessage(sent, topic, 1, pairs, 4)
        hide(way)
        text = properties.encode(way.properties)
        made = NewRecord(way.topic, way.queue_id, body, text, HERE, HERE, 0, way.sys_flag, 1)
        made = structs.replace(made, unique_key=pairs["UNIQ_KEY"])
        if found.keys() - {properties.TAGS}:
            return made
        return NewHalf(*structs.astuple(made), real_topic=topic, real_queue_id=1, group=GROUP)

    def _stored(
        self,
        sent: Sequence[tuple[bytes, NewRecord]],
        stored: AppendedBatch | None,
        error: StoreError | None,
    ) -> Release:
        where = () if stored is None or error is not None else stored
        for (_, half), at in zip(sent, where, strict=False):
            if isinstance(half, NewHalf):
                self.recent.add(half, at.queue_offset, at.physical_offset, at.stored_at_ms)

        def release() -> None:
            for (body, _), at in zip(sent, where, strict=False):
                self.acked[body] = (at.physical_offset, at.queue_offset)

        return release

    def end(
        self,
        place: int,
        offset: int,
        outcome: Outcome = Outcome.COMMIT,
        *,
        was_asked: bool = False,
        group: str | None = None,
    ) -> "list[Exception | None]":
        """Say how a transaction ended; what is told of that comes into the list."""
        told: list[Exception | None] = []

        def tell(_: Sequence[object], error: Exception | None) -> Release:
            return lambda: told.append(error)

        end = TransactionEnd(
            producer_group=group or self.group,
            tran_state_table_offset=offset,
            commit_log_offset=place,
            from_transaction_check=was_asked,
        )
        half = self.transactions.find_recent(end) or self.transactions.find(end)
        self.transactions.end(half, outcome, tell, None)
        return told

    def commit(self, *bodies: bytes) -> None:
        """Commit, now."""
        for body in bodies:
            self.end(*self.acked[body])
        self.timers.drain()

    def roll_back(self, *bodies: bytes) -> None:
        """Roll back, now."""
        for body in bodies:
            self.end(*self.acked[body], Outcome.ROLLBACK)
        self.timers.drain()

    def round(self) -> None:
        """Let half a minute pass, at whose end is a round of checks."""
        self.timers.advance(self.settings.check_interval_ms)
        self.transactions.note_progress()
        self.checks.begin()
        self.timers.drain()

    def answer(self, outcome_of: Callable[[bytes], Outcome | None]) -> None:
        """Have producers answer what they were asked."""
        questions, self.questions = self.questions, []
        for question in questions:
            outcome = outcome_of(bytes(question.message.body))
            if outcome is not None:
                self.end(question.place, question.half_offset, outcome, was_asked=True)
        self.timers.drain()

    def messages(self, topic: str = "T", queue_id: int = 1) -> list[StoredMessage]:
        """Return what a queue has."""
        self.timers.advance(200)
        low, high = self.store.queue_range(topic, queue_id)
        found = []
        while low < high:
            for offset, place, size, *_ in self.store.units(topic, queue_id, low, high - low):
                if size != FILLER_SIZE:
                    found.append(record.decode(self.store.record_at(PhysicalOffset(place))))
                low = QueueOffset(offset + 1)
        return found

    def visible(self, topic: str = "T") -> Counter[bytes]:
        """Return the bodies that consumers see, and how often."""
        return Counter(message.stored_body for message in self.messages(topic))

    def stop(self) -> SimulatedDisk:
        """Stop cleanly; return the disk."""
        self.checks.stop()
        self.commits.close()
        self.store.sync()
        self.transactions.note_progress()
        self.transactions.note_progress()
        self.offsets.table.close()
        self.store.close()
        return self.disk
