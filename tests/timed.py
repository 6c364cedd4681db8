"""Timed messages over a real store on a simulated disk, with hand-made time."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from tests.inline import InlineReads, InlineThread
from tests.timers import FakeTimers

from sprocket.base.clock import Clock, LogClock
from sprocket.base.disk import Steps, steps
from sprocket.base.errors import StoreError
from sprocket.base.place import Place
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.broker.broker import flush_mode
from sprocket.rocketmq.broker.delivery import PullHold
from sprocket.rocketmq.broker.messages import (
    Commits,
    DelayLevels,
    DurableAppender,
    Release,
    ReputRounds,
    TimerRequests,
    Waits,
    pending_acks,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.timers import TimedMessages
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.geometry import Geometry, LogGeometry
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset, QueueOffset
from sprocket.rocketmq.settings import PullSettings, Settings, StoreSettings, TimerSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.queue import FILLER_SIZE
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import TimerFiles
from sprocket.runtime.durable_log import DurableLog
from sprocket.runtime.group_commit import GroupCommit, Machine
from sprocket.runtime.pressure import Pressure
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
ROLL_MS = 120_000
SLOTS = 1024


def drive(work: Steps, done: Callable[[BaseException | None], None]) -> None:
    """Do work in steps at once."""
    try:
        steps.run(work)
    except StoreError as error:
        done(error)
    else:
        done(None)


def waits_of(
    levels: DelayLevels,
    log_clock: LogClock,
    clock: Clock,
    settings: TimerSettings | None = None,
    expect: Callable[[], None] = lambda: None,
    waiting_count: Callable[[int], int] = lambda _: 0,
) -> Waits:
    """Return what has messages wait."""
    settings = settings or TimerSettings()
    return Waits(levels, TimerRequests(clock, log_clock, settings, expect, waiting_count))


class Timing:
    """One process that delivers timed messages.

    Attributes:
        acked: Bodies of messages whose producer had an answer, and when they are due.
    """

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        *,
        clock: FakeClock | None = None,
        flush: str = "sync",
        segment_bytes: int = 64 * KIB,
        folder: str = "/s",
        geometry: Geometry | None = None,
        log_bytes: int = 10 * 52 + 16,
        slots: int = SLOTS,
        roll_ms: int = ROLL_MS,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.clock = clock or FakeClock()
        self.timers = FakeTimers(self.clock)
        settings = StoreSettings(fill_ahead_bytes=0, flush=cast("Any", flush))
        small = Geometry.small()
        geometry = geometry or Geometry(
            log=LogGeometry(segment_bytes=segment_bytes), queue=small.queue, index=small.index
        )
        self.store = Store.open(self.disk, folder, settings, self.clock, geometry)
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
            flush_mode(Settings(store=settings)),
            pressure,
            self.rounds,
        )
        self.durable = DurableAppender(self.store, self.commits, pressure)
        self.files = TimerFiles(
            self.disk,
            StoreLayout(folder),
            1000,
            is_whole=self.store.report.clean,
            log_bytes=log_bytes,
            slots=slots,
        )
        self.timed = TimedMessages(
            Place(self.disk, folder, self.clock),
            self.store,
            InlineReads(),
            self.durable,
            drive,
            HERE,
            self.timers,
            precision_ms=1000,
            roll_ms=roll_ms,
            files=self.files,
        )
        self.waits = waits_of(
            DelayLevels(settings.delay_levels),
            self.store.log_clock,
            self.clock,
            expect=self.timed.expect,
            waiting_count=self.timed.waiting_count,
        )
        self.acked: dict[bytes, int] = {}
        self.commits.start()
        self.rounds.start()

    def start(self) -> "Timing":
        """Begin to deliver."""
        self.timed.start()
        self.timers.drain()
        return self

    def send(
        self, *bodies: bytes, delay_ms: int = 0, topic: str = "T", queue_id: int = 1, **found: str
    ) -> None:
        """Send messages that are to be delivered after some time."""
        due = self.store.log_clock.now_ms() + delay_ms
        made = []
        for body in bodies:
            pairs = {"UNIQ_KEY": body.decode(), "TIMER_DELAY_MS": str(delay_ms)}
            where = self.waits.divert(topic, queue_id, pairs)
            text = properties.encode({**pairs, **found})
            made.append(NewRecord(*where, body, text, HERE, HERE))
        self.durable.append(made, self._stored, [(body, due) for body in bodies])
        self.timers.drain()

    def take_back(self, body: bytes, due_ms: int, topic: str = "T") -> None:
        """Take a message back that is due at some time."""
        wait = due_ms - self.store.log_clock.now_ms()
        self.send(b"-" + body, delay_ms=wait, TIMER_DEL_UNIQKEY=f"{topic}+{body.decode()}")

    def _stored(
        self,
        asked: Sequence[tuple[bytes, int]],
        stored: AppendedBatch | None,
        error: StoreError | None,
    ) -> Release:
        def release() -> None:
            if stored is not None and error is None:
                self.acked.update(asked)

        return release

    def advance(self, ms: int, step_ms: int = 10) -> None:
        """Let time pass, in small steps; notes how far everything is once a second."""
        for _ in range(0, ms, step_ms):
            before = self.clock.now_ms() // 1000
            self.timers.advance(step_ms)
            if self.clock.now_ms() // 1000 != before:
                self.timed.keep()

    def messages(self, topic: str = "T", queue_id: int = 1) -> list[StoredMessage]:
        """Return what a queue has."""
        low, high = self.store.queue_range(topic, queue_id)
        found = []
        while low < high:
            for offset, place, size, *_ in self.store.units(topic, queue_id, low, high - low):
                if size != FILLER_SIZE:
                    found.append(record.decode(self.store.record_at(PhysicalOffset(place))))
                low = QueueOffset(offset + 1)
        return found

    def seen(self, topic: str = "T") -> Counter[bytes]:
        """Return the bodies that consumers see, and how often."""
        return Counter(message.stored_body for message in self.messages(topic))

    def bodies(self, topic: str = "T") -> list[bytes]:
        """Return the bodies that consumers see, in their order."""
        return [message.stored_body for message in self.messages(topic)]

    def stop(self) -> SimulatedDisk:
        """Stop cleanly; return the disk."""
        self.timed.stop()
        self.commits.close()
        self.store.sync()
        self.timed.close()
        self.store.close()
        return self.disk

    def killed(self) -> "Timing":
        """Return what opens after the process was killed now."""
        return Timing(self.disk.kill(), clock=self.clock)
