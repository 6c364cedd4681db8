"""The slaves of a master: what each has, and the parts of the log that it is sent.

    frame ── `MasterSpeech`: what is it? ── from where on ─┐
                             acknowledged ── `Acks` ──┐    ├─ parts, while the slave takes them
    the log was written ──────────────────────────────│────┘
                                                      └─ `confirmed`, for group commit

What was written is sent at once if anybody waits for slaves, else some milliseconds later, with all
that came meanwhile. It is sent from memory, as views that nobody copies. What is older is read
beside the loop (`runtime.cold_reads`), a piece at a time, so that a slave that comes late waits for
the disk and nobody waits for it. In one turn of the loop a slave gets `TURN_BYTES` at most while
somebody sends messages.

Invariants

1. A slave gets each byte of the log once on a connection, from where it asked to begin.
2. Nothing is sent that is not written.
3. `confirmed` ends where something ended that was written by one call: so a record.

Source: RocketMQ `DefaultHAService`, `DefaultHAConnection`; docs/formats/replication.md.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import DiskBusy, StoreError, WireError
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.codec import switch_frames
from sprocket.rocketmq.model.epochs import ReplicaId
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.replication.acks import Acks
from sprocket.rocketmq.replication.master_speech import MasterSpeech, Said, SlaveFrame
from sprocket.rocketmq.replication.written_times import WrittenTimes
from sprocket.rocketmq.settings import ReplicationSettings
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import Reads
from sprocket.runtime.driver import Peer
from sprocket.runtime.timers import Timer, Timers

TURN_BYTES = 256 * KIB
"""Sent to one slave in one turn of the loop: some 0.1 ms."""

QUIET_TURN_BYTES = MIB
"""The same while nobody sends messages: fewer turns."""

PACE_SECONDS, PACE_BYTES_MIN = 0.001, 16 * MIB
"""While somebody sends messages, a slave that lacks so much gets a piece at most so often: a group
of messages takes some turns of the loop, and would wait for a piece in each. That is some 200 MiB/s
yet; a slave that falls back all the same gets more."""

SENDERS_SECONDS = 0.05
"""After so long without a message nobody sends any."""

GATHER_SECONDS = 0.01
"""How long what was written is gathered where nobody waits for slaves: one piece of many records
costs both machines a fraction of many pieces."""

LOOK_SECONDS = 1.0
"""How often it is looked whether a heartbeat is due, or a slave silent."""

TURNS_PER_SECOND_MIN = 10
"""A slave that may be sent little gets it so often, in smaller pieces."""

LATE_MS = 5000
"""A slave that has lacked something for so long is said to be behind."""

BUSY_SECONDS = 0.05
"""After how long a part is read that could not be, as too many wait for the disk."""

_log = log.get_logger(__name__)
_limited_log = log.get_limited_logger(__name__)


class Slave:
    """One connection of a slave.

    Attributes:
        said: What its last frame meant.
        acknowledged: Where its log ends, as it said last.
        place: Where the next part begins that it is sent; −1 if it has not asked for any yet.
        sent_bytes: Of the log, since it connected.
        told_tables: The version of the tables that it was told last.
        read_at_ms: When it was heard last, wall time.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.said = Said()
        self.acknowledged = 0
        self.place = -1
        self.sent_bytes = 0
        self.told_tables = 0
        self.heard_at_ms = 0
        self.heard_at = self.sent_at = 0.0
        self.allowance, self.allowed_at = 0.0, 0.0
        """Bytes that it may be sent, if there is a limit; as of a time."""
        self.lacked = self.lacked_before = 0
        """When it was looked last, and the time before that."""
        self.is_busy = False
        """A part is being read, or the next turn sends one."""

    @property
    def address(self) -> str:
        """Where it connected from."""
        return self.peer.told_address

    @property
    def is_proven(self) -> bool:
        """Whether its log is known to be a beginning of the master's, so that it counts."""
        return self.said.is_proven

    @property
    def replica_id(self) -> ReplicaId | None:
        """Which one of a set it is, if it has said so."""
        return self.said.replica_id


class Slaves:
    """See the head of the module.

    Args:
        store: Of this master.
        reads: Does what must be read from the disk.
        timers: The event loop's.
        clock: For what is due.
        settings: How long they may be silent, and how much they are sent.
        speech: What is said to them, and what they say.
        acks: How many of them, or which, must have a message.

    Threads: event loop only.
    """

    def __init__(
        self,
        store: Store,
        reads: Reads,
        timers: Timers,
        clock: Clock,
        settings: ReplicationSettings,
        speech: MasterSpeech,
        acks: Acks,
    ) -> None:
        self._store = store
        self._reads = reads
        self._timers = timers
        self._clock = clock
        self._settings = settings
        self._by_peer: dict[Peer, Slave] = {}
        self._timer: Timer | None = None
        self._gathering: Timer | None = None
        self._speech = speech
        self._acks = acks
        self._ends: deque[int] = deque()
        self._confirmed: int = store.written
        self._times = WrittenTimes(store.written, clock.monotonic())
        self._told: Callable[[], None] = _nobody
        self._wrote_at = -math.inf
        self._is_stopped = False

    def start(self, told: Callable[[], None]) -> None:
        """Begin; `told` is called when `confirmed` has moved, or `are_missing` may have changed."""
        self._told = told
        self._timer = self._timers.call_later(LOOK_SECONDS, self._look)
        self._show()

    def distrust(self) -> None:
        """Count nothing of this log as confirmed before enough slaves say that they have it."""
        self._confirmed = self._store.first
        self._ends.append(self._store.written)

    def stop(self) -> None:
        """Close all connections."""
        self._is_stopped = True
        for timer in (self._timer, self._gathering):
            if timer is not None:
                timer.cancel()
        for peer in list(self._by_peer):
            peer.close()

    @property
    def count(self) -> int:
        """How many are connected."""
        return len(self._by_peer)

    @property
    def all(self) -> Sequence[Slave]:
        """Those that are connected."""
        return list(self._by_peer.values())

    # What group commit asks.

    @property
    def confirmed(self) -> int:
        """Up to where enough slaves have the log; everywhere if none need to have it."""
        return self._confirmed if self._acks.is_needed else ANYWHERE

    @property
    def are_missing(self) -> bool:
        """Whether too few slaves follow closely, so that nobody waits for them."""
        return self._acks.are_missing(self.all)

    @property
    def are_too_few(self) -> bool:
        """Whether fewer machines, this one among them, follow closely than sends must have."""
        return self._acks.are_too_few(self.all)

    def require(self, acks: Acks) -> None:
        """Count in another way from now on; what is confirmed stays so."""
        self._acks = acks
        self._count()

    def wrote(self, end: int) -> None:
        """Have slaves get what was written up to here."""
        self._wrote_at = self._clock.monotonic()
        self._times.note(end, self._wrote_at)
        if self._acks.is_needed:
            if self.are_missing:
                self._ends.clear()  # nobody waits for one of them
            self._ends.append(end)
            self._advance()
            self._show()
            self._send_written()
        elif self._by_peer and self._gathering is None:
            self._gathering = self._timers.call_later(GATHER_SECONDS, self._send_written)

    def _send_written(self) -> None:
        """Have all slaves get what was written."""
        self._gathering = None
        for slave in self._by_peer.values():
            self._begin(slave)

    def tell_tables(self, version: int) -> None:
        """Tell slaves of a set that the tables have a version, unless they were told."""
        for slave in self.all:
            if slave.is_proven and slave.told_tables != version:
                slave.told_tables = version
                slave.peer.send([switch_frames.tables_changed(version)])

    def lag_ms(self, slave: Slave) -> int:
        """Return for how long a slave has lacked what it lacks; 0 if it lacks nothing."""
        if slave.acknowledged >= self._store.written:
            return 0
        lag = self._times.lag_seconds(slave.acknowledged, self._clock.monotonic())
        return round(lag * 1000)

    def in_sync(self) -> Sequence[Slave]:
        """Return those that are connected and count."""
        return self._acks.in_sync(self.all)

    def _count(self) -> None:
        """See how far enough slaves are, and tell."""
        if self._acks.is_needed:
            self._advance()
            self._show()
            self._told()

    def _advance(self) -> None:
        reached = self._acks.reached(self.all)
        while self._ends and self._ends[0] <= reached:
            self._confirmed = self._ends.popleft()

    def _show(self) -> None:
        """Say up to where consumers may see: nothing that could be lost with this machine alone."""
        if self._acks.is_needed:
            self._store.show_to(self._acks.shown(self._confirmed, self.all))

    # What slaves say.

    def on_frame(self, peer: Peer, frame: SlaveFrame) -> None:
        """Take what a slave says."""
        slave = self._by_peer.get(peer)
        if self._is_stopped:
            peer.close()
            return
        try:
            said = self._speech.hear(frame, None if slave is None else slave.said)
        except (StoreError, WireError) as error:
            _limited_log.error(
                "a slave gets nothing of this log", slave=peer.told_address, why=str(error)
            )
            peer.close()
            return
        if slave is None:
            if self.count >= self._settings.slave_count_max:
                peer.abort(f"there are {self.count} slaves already (replication.slave_count_max)")
                return
            slave = self._welcome(peer)
        is_news = said.end > slave.acknowledged or said.is_proven != slave.is_proven
        slave.said, slave.acknowledged = said, max(said.end, slave.acknowledged)
        slave.heard_at, slave.heard_at_ms = self._clock.monotonic(), self._clock.now_ms()
        if said.answer:
            peer.send([said.answer])
        if said.asked >= 0:
            self._begin_at(slave, said.asked)
        if is_news:
            self._count()
        self._begin(slave)

    @property
    def _has_senders(self) -> bool:
        """Whether somebody has sent messages lately."""
        return self._clock.monotonic() - self._wrote_at < SENDERS_SECONDS

    def _allowed(self, slave: Slave) -> int:
        """Return how much a slave may be sent now; 0 if it is to wait."""
        rate = self._settings.bytes_per_second_max
        if not rate:
            return TURN_BYTES if self._has_senders else QUIET_TURN_BYTES
        now = self._clock.monotonic()
        gained = (now - slave.allowed_at) * rate
        slave.allowance, slave.allowed_at = min(TURN_BYTES, slave.allowance + gained), now
        return 0 if slave.allowance < 0 else min(TURN_BYTES, max(512, rate // TURNS_PER_SECOND_MIN))

    def _welcome(self, peer: Peer) -> Slave:
        slave = self._by_peer[peer] = Slave(peer)
        slave.sent_at = self._clock.monotonic()
        peer.keep_when_quiet()
        peer.write_at_once()
        peer.when_closed(self._left)
        return slave

    def _begin_at(self, slave: Slave, place: int) -> None:
        """Note from where on a slave is to be sent the log."""
        slave.place = place
        lacks = slave.lacked = slave.lacked_before = self._store.written - place
        _log.info("a slave has come", slave=slave.address, at=place, lacks=lacks)

    def _left(self, peer: Peer) -> None:
        slave = self._by_peer.pop(peer, None)
        if slave is not None:
            _log.warning("a slave has gone", slave=slave.address, at=slave.acknowledged)
            self._count()

    # What they are sent.

    def _begin(self, slave: Slave) -> None:
        """Send what a slave lacks, in this turn of the loop or as soon as it takes more."""
        if not slave.is_busy and 0 <= slave.place < self._store.written:
            self._send(slave)

    def _send(self, slave: Slave) -> None:
        """Send the next parts."""
        slave.is_busy = True
        if not slave.peer.is_ready:
            slave.peer.when_ready(partial(self._send, slave))
            return
        try:
            self._reads.run(partial(self._send_parts, slave), partial(self._failed, slave))
        except StoreError as error:
            self._failed(slave, error)

    def _send_parts(self, slave: Slave) -> None:
        """Send as much as goes in one turn; may end at the read, which changes nothing."""
        place = slave.place
        if not slave.peer.is_open or place >= self._store.written:
            slave.is_busy = False
            return
        allowed = self._allowed(slave)
        if not allowed:
            wait = -slave.allowance / self._settings.bytes_per_second_max
            self._timers.call_later(wait, partial(self._send, slave))
            return
        data = self._store.log_part(place, allowed)
        slave.allowance -= len(data)
        # At once: the slave is to have it while this one waits for its own disk.
        slave.peer.send_now(self._speech.parts(place, data, self._settings.part_bytes))
        slave.place = place + len(data)
        slave.sent_bytes += len(data)
        slave.sent_at = self._clock.monotonic()
        if slave.place < self._store.written:
            self._send_on(slave)
        else:
            slave.is_busy = False

    def _send_on(self, slave: Slave) -> None:
        """Send the next parts in the next turn of the loop, or later; see `PACE_SECONDS`."""
        send = partial(self._send, slave)
        lacks = self._store.written - slave.place
        is_for_senders = (
            lacks > PACE_BYTES_MIN and slave.lacked <= slave.lacked_before and self._has_senders
        )
        if is_for_senders:
            self._timers.call_later(PACE_SECONDS, send)
        else:
            self._timers.call_soon(send)

    def _failed(self, slave: Slave, error: Exception) -> None:
        """Try again if the disk has too much to do, else end the connection of a slave."""
        if isinstance(error, DiskBusy):
            self._timers.call_later(BUSY_SECONDS, partial(self._send, slave))
            return
        if not isinstance(error, StoreError):
            raise error
        slave.is_busy = False
        _log.error(
            "a slave cannot be sent the log", slave=slave.address, at=slave.place, why=str(error)
        )
        slave.peer.close()

    def _look(self) -> None:
        """Send heartbeats, and close connections of slaves that are silent."""
        self._timer = self._timers.call_later(LOOK_SECONDS, self._look)
        now = self._clock.monotonic()
        for slave in self.all:
            self._warn(slave)
            slave.lacked_before, slave.lacked = slave.lacked, self._store.written - slave.place
            if now - slave.heard_at >= self._settings.silence_seconds:
                slave.peer.abort(f"the slave says nothing for {now - slave.heard_at:.0f} s")
            elif slave.place < 0 or slave.is_busy:
                continue  # it has not asked, or gets something
            elif now - slave.sent_at >= self._settings.heartbeat_seconds:
                slave.sent_at = now
                slave.peer.send(self._speech.heartbeat(slave.place))
            else:
                self._begin(slave)

    def _warn(self, slave: Slave) -> None:
        """Say if a slave is far behind."""
        lag_ms = self.lag_ms(slave)
        if lag_ms >= LATE_MS:
            lacks = self._store.written - slave.acknowledged
            _limited_log.warning(
                "a slave is behind", slave=slave.address, lacks=lacks, lag_ms=lag_ms
            )


def _nobody() -> None:
    """Tell nobody."""
