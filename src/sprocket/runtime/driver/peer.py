"""Carries connections without I/O over TCP.

A connection object turns bytes into events (`receive`); a `Peer` is one TCP connection that feeds
it, hands every event to a plain function at once, and writes what that function sends.

    data_received ── connection.receive ── on_event(peer, event) for each ── peer.send(buffers)
                                                                                  │
    one call_soon for all connections of the loop ── transport.writelines(all of them) ◄──┘

Invariants:

1. No task and no thread: events are handled in the turn of the loop that read them, in order.
2. A connection writes at most once per turn, however many answers it has; who has them together
   already has them written at once (`send_now`).
3. While more than `answer_bytes_high` waits for a peer that does not read, a server keeps its
   events and does not read its socket, so that no more than twice that and one answer waits because
   of its requests; beyond `answer_bytes_max` it is cut off. Nothing else piles up. A protocol may
   have it read on all the same (`PortPolicy`), and sends little while it is slow.
4. All answers together that peers have not taken stay below `all_answer_bytes_max`, but for the
   little that each may leave before it counts as slow: beyond it the slowest peer is cut off.
5. Idle connections are found by one sweep for the whole loop, not by timers.
6. Where a protocol counts its work (`runtime.turns`), a connection that does much in a turn of the
   loop that is over is cut short: it goes on when others had theirs. So the loop is never held for
   long, however many connections bring however much.
7. While what was read is not finished (`runtime.pressure`), a server does not read from a
   connection that brought more than its share since its last answer.
8. A peer is read while nobody has a reason against it; each reason is one `ReadHold`, which whoever
   gave it takes back.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Final, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from sprocket.base import log
from sprocket.base.errors import WireError
from sprocket.runtime.driver.addresses import address_of, is_loopback
from sprocket.runtime.driver.admission import PortAdmission
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.settings import ClientLimits, ListenSettings
from sprocket.runtime.turns import SMALL_WORK, Turns

Buffer = bytes | bytearray | memoryview
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)

SWEEP_SECONDS = 5.0
"""How often idle connections are looked for; they close at most this much late."""
IDLE_SECONDS_MAX = ListenSettings().idle_close_seconds
"""A connection that carried nothing for this long is closed, unless settings say otherwise."""

_log = log.get_limited_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionSettings:
    """How much the connections of one server or client may leave unread, and how long be quiet."""

    limits: ClientLimits = field(default_factory=ClientLimits)
    idle_seconds_max: float = IDLE_SECONDS_MAX


class Carried(Protocol[E_co]):
    """A connection without I/O, which one protocol's codec makes."""

    broken: WireError | None
    """Why nothing more can be read."""

    def receive(self, data: bytes) -> Sequence[E_co]:
        """Take bytes and return the events they complete. Raises WireError."""


Greet = Callable[["Peer"], asyncio.Protocol]
"""Returns what reads a connection first; `Greeter` is one."""

OnEvent = Callable[["Peer", E], None]
"""Handles one event; a plain function that may call `Peer.send` now or later."""

LARGE_READ_BYTES = 4096
"""What is taken apart even if a turn is over, so that who says little need not wait."""
BYTES_PER_WORK = 4096
"""How many bytes of a read count 1, where what is in them counts by itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PortPolicy:
    """How all clients of a port are read.

    Attributes:
        pressure: Says when to stop reading from whom; None: never.
        turns: Counts the work of this port and others, if the protocol does so.
        reads_on_when_slow: Whether a client is read and served while it does not take what it is
            sent. For a protocol in which a client need not read before it has written: whoever
            sends much looks at `Peer.is_ready` then.
        withheld: Says how many bytes of answers a connection keeps until its other side allows them
            to be sent; they count as what waits for a peer that does not read. None: no bytes.
        knows_by_event: Whoever has sent something that makes an event is known, see `Peer.admit`;
            if not, the handler says who is.
    """

    pressure: Pressure | None = None
    turns: Turns | None = None
    reads_on_when_slow: bool = False
    withheld: "Callable[[Carried[object]], int] | None" = None
    knows_by_event: bool = True


PLAIN: Final = PortPolicy()


class ReadHold(IntEnum):
    """A reason not to read a peer, and to keep what was read."""

    SLOW = 1
    """It has to take its answers first."""
    STOPPED = 2
    """Its handler asks for it."""
    TURN_OVER = 4
    """It has done much in a turn of the loop that is over."""
    PRESSURE = 8
    """It has brought much for which it has no answer, while work waits that is not finished."""
    ENDED = 16
    """It is closed, or not open yet."""


_TURN_OVER: Final = ReadHold.TURN_OVER.value


class PeerState(Enum):
    """How far a connection has come."""

    NEW = auto()
    OPEN = auto()
    CLOSING = auto()
    """Nothing more is read, and nothing sent but what is on its way."""
    GONE = auto()


class _Change(Enum):
    """What happens to a connection."""

    MADE = auto()
    CLOSED = auto()
    CUT_OFF = auto()
    LOST = auto()


_NEXT: Final[dict[tuple[PeerState, _Change], PeerState]] = {
    (PeerState.NEW, _Change.MADE): PeerState.OPEN,
    (PeerState.NEW, _Change.CUT_OFF): PeerState.CLOSING,  # it is not admitted
    (PeerState.OPEN, _Change.CLOSED): PeerState.CLOSING,
    (PeerState.OPEN, _Change.CUT_OFF): PeerState.CLOSING,
    (PeerState.OPEN, _Change.LOST): PeerState.GONE,
    (PeerState.CLOSING, _Change.CUT_OFF): PeerState.CLOSING,
    (PeerState.CLOSING, _Change.LOST): PeerState.GONE,
    (PeerState.GONE, _Change.CUT_OFF): PeerState.GONE,
}
"""Anything else is a mistake of ours."""


class Peer(asyncio.Protocol):
    """One connection to somebody; made by `listen` and `connect` only.

    Args:
        connection: Reads it.
        on_event: Gets what that gives.
        settings: Limits.
        peers: Where it is kept while it is there.
        policy: Of the port that it came to; None for the side that has opened it. That side is
            never held: if both were, each could wait for the other for ever.
        admission: Says whether it may stay.

    Threads: event loop only.
    """

    def __init__(
        self,
        connection: Carried[E],
        on_event: OnEvent[E],
        settings: ConnectionSettings,
        peers: "set[Peer]",
        policy: PortPolicy | None = None,
        admission: PortAdmission | None = None,
    ) -> None:
        self.connection: Carried[object] = connection
        """The connection object without I/O, as its factory made it."""
        self.on_close: list[Callable[[Peer], None]] = []
        """Called once each when the connection is gone, whoever ended it."""
        self.address = ""
        """The other side, as `ip:port` or `[ip]:port`."""
        self.host = ""
        """The other side's IP address."""
        self.is_local = False
        """Whether both sides are on this machine: the socket's own other end is, and so is the
        client that it claims to serve, if it does."""
        self.proxy_address = ""
        """The socket's own other end, if `address` is what that claims."""
        self.local_address = ""
        self.state = PeerState.NEW
        self.is_open = False
        """Whether `state` is OPEN."""
        self.quiet_seconds = 0.0
        """Time since something was read or written, in whole sweeps; kept by the carrier."""
        self.on_event = cast("OnEvent[object]", on_event)
        """Gets what this connection gives, and nothing else."""
        self._idle_seconds_max = settings.idle_seconds_max
        self._bytes_per_work = BYTES_PER_WORK
        self.read_bytes = 0
        self.read_count = 0
        self.written_bytes = 0
        self.written_count = 0
        """Bytes and calls since the connection was made."""
        self._limits = settings.limits
        self._peers = peers
        self._admission = admission
        self.transport = cast("asyncio.Transport", None)
        """What carries it; there is none before it is made."""
        self._carrier = carrier()
        self._queue: list[Buffer] = []
        self._queued_bytes = 0
        self.holds: int = ReadHold.ENDED.value
        """Why nothing is read and handled now: the sum of some `ReadHold`s, 0 if it is."""
        self.backlog: list[object] = []
        """Events that were read and wait while this is held."""
        self._is_server = policy is not None
        policy = policy or PLAIN
        self._pressure, self._turns = policy.pressure, policy.turns
        self._reads_on_when_slow = policy.reads_on_when_slow
        self._unanswered_bytes = 0
        """Read under pressure since the last write."""
        self._slow_bytes = 0
        """What the carrier counts of what waits for this peer."""
        self._withheld = policy.withheld
        self._withheld_bytes = 0
        """What that says."""
        self._is_write_paused = False
        self._ahead_bytes = 0
        """How much more is read while this is stopped."""
        self._on_kept: Callable[[], None] | None = None
        self._unread = b""
        """What came when a turn was over."""
        self._turn_number = self._turn_work = 0
        """A turn, and what this has done in it."""
        self._when_ready: list[Callable[[], None]] = []

    @property
    def is_held(self) -> bool:
        """Whether nothing is read and handled now."""
        return self.holds != 0

    @property
    def is_ready(self) -> bool:
        """Whether what was sent before has been taken, but for a little."""
        limit = self._limits.answer_bytes_high
        return self.is_open and not self._is_write_paused and self._queued_bytes <= limit

    @property
    def told_address(self) -> str:
        """The other side, for logs and lists; an address that is only claimed is marked as such."""
        if not self.proxy_address:
            return self.address
        if self.proxy_address == self.address:
            return f"{self.address} (for somebody it does not name)"
        return f"{self.address} (claimed by {self.proxy_address})"

    @property
    def is_encrypted(self) -> bool:
        """Whether it is carried by TLS."""
        return self.transport.get_extra_info("cipher") is not None

    @property
    def certificate_subject(self) -> tuple[tuple[str, str], ...]:
        """Whom the peer's certificate names: attributes and values, empty if it has shown none.

        Only a certificate counts whose authority was checked.
        """
        shown = self.transport.get_extra_info("peercert") or {}
        return tuple(pair for part in shown.get("subject", ()) for pair in part)

    @property
    def pending_bytes(self) -> int:
        """Bytes that were sent and that the operating system has not taken, or not been given."""
        written = self._queued_bytes + self.transport.get_write_buffer_size()
        return written + self._withheld_bytes

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Queue buffers, to be written in this turn of the loop; nothing happens once closed.

        Buffers are not copied: they must not change before they are written.
        """
        if not self.is_open:
            return
        if not self._queue:
            self._carrier.add_dirty(self)
        self._queue += buffers
        self._queued_bytes += sum(map(len, buffers))
        if self._queued_bytes > self._limits.answer_bytes_high and not self._reads_on_when_slow:
            self._hold(ReadHold.SLOW)

    def send_now(self, buffers: Sequence[Buffer]) -> None:
        """Do as `send`, but write before this returns: for a caller with answers to many peers.

        Their peers continue sooner, and nothing is read in between. A held connection waits for the
        end of the turn all the same: once it has written, it handles what it kept.
        """
        if self.holds:
            self.send(buffers)
        elif self._queue or self._is_write_paused:
            self._queue += buffers
            self._queued_bytes += sum(map(len, buffers))
            self.flush()
        else:
            self.quiet_seconds = 0.0
            self._unanswered_bytes = 0
            self.written_bytes += sum(map(len, buffers))
            self.written_count += 1
            self.transport.writelines(buffers)
            if self._is_write_paused:
                self.flush()  # it does not read

    def write_at_once(self) -> None:
        """Have what `send_now` gets written before that returns, as far as the other side takes it.

        Else uvloop writes at the end of a turn, in which the loop may wait for a disk. `is_ready`
        is false while anything is left.
        """
        self.transport.set_write_buffer_limits(high=0)

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Have something called once when `is_ready` holds again, in a later turn of the loop.

        It is not called any more once this is closed.
        """
        if callback not in self._when_ready:
            self._when_ready.append(callback)

    def stop_reading(
        self, *, ahead_bytes: int = 0, on_kept: Callable[[], None] | None = None
    ) -> None:
        """Handle no event after this one, and read nothing, until `start_reading`.

        Args:
            ahead_bytes: So much is read and kept all the same, and the last read whole: then it is
                known whether the other side is gone.
            on_kept: Called when something was read so; it may look at what that says.
        """
        self._hold(ReadHold.STOPPED)
        if ahead_bytes and self.is_open:
            self._ahead_bytes, self._on_kept = ahead_bytes, on_kept
            self.transport.resume_reading()

    def start_reading(self) -> None:
        """Continue with what was kept, and read again; not if it was not stopped."""
        if self.holds & ReadHold.STOPPED:
            self._ahead_bytes = 0
            self._release(ReadHold.STOPPED)

    def keep_when_quiet(self) -> None:
        """Do not cut it off for being quiet: the protocol finds out by itself who is gone."""
        self._idle_seconds_max = math.inf

    def count_reads(self, bytes_per_work: int) -> None:
        """Count 1 for so many bytes of a read: fewer than before, as nothing in them counts."""
        self._bytes_per_work = bytes_per_work

    def when_closed(self, callback: "Callable[[Peer], None]") -> None:
        """Have something called once when the connection is gone, however often this is asked."""
        if callback not in self.on_close:
            self.on_close.append(callback)

    def close(self) -> None:
        """Write what is queued, then close; later sends are dropped."""
        if self.is_open:
            self._write()
            self._change(_Change.CLOSED)
            self.transport.close()

    def abort(self, reason: str) -> None:
        """Close at once and drop what is queued, saying why in the log."""
        _log.warning("connection cut off", peer=self.told_address, reason=reason)
        self._change(_Change.CUT_OFF)
        self.transport.abort()

    def flush(self) -> None:
        """Write what is queued with one call; the carrier does this once per turn."""
        if not self.is_open:
            return
        self._write()
        if self._is_write_paused:
            self._count_slow()
            if self.transport.get_write_buffer_size() > self._limits.answer_bytes_max:
                self.abort(f"more than {self._limits.answer_bytes_max} bytes wait for it")
            return
        if self.holds:
            self._release(ReadHold.SLOW)
        if self._when_ready:
            self._tell_ready()

    def sweep(self, seconds: float) -> None:
        """Note that `seconds` have passed; cut the connection off if it was quiet too long."""
        self.quiet_seconds += seconds
        if self.quiet_seconds >= self._idle_seconds_max:
            self.abort(f"nothing read and nothing written for {self.quiet_seconds:.0f} s")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=self._limits.answer_bytes_high)
        self.address, self.host = address_of(self.transport.get_extra_info("peername"))
        self.is_local = is_loopback(self.host)
        self.local_address, _ = address_of(self.transport.get_extra_info("sockname"))
        self._carrier.add(self)
        self._peers.add(self)
        refusal = self._admission.arrive(self) if self._admission is not None else ""
        if refusal:
            self.abort(refusal)
        else:
            self._change(_Change.MADE)

    def admit(self) -> bool:
        """Note that it is known who this is: it may stay, and is not cut off for others.

        Returns:
            False if there are too many of those: then it goes soon, unless it is closed before.
        """
        return self._admission is None or self._admission.admit(self)

    def speak_for(self, host: str, port: int) -> None:
        """Take the address of the client that the other side, a load balancer, says it serves."""
        self.proxy_address = self.address
        self.address, self.host = address_of((host, port))
        self.is_local = self.is_local and is_loopback(self.host)
        _log.info("a load balancer names a client", peer=self.address, proxy=self.proxy_address)

    def speak_for_nobody(self) -> None:
        """Note that the other side, a load balancer, does not say whom it serves."""
        self.proxy_address = self.address
        self.is_local = False

    def rewire(self, transport: asyncio.Transport) -> None:
        """Go on over a layer above the transport that the connection was made with."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Handle every event that `data` completes; called by the event loop."""
        if not self.is_open:
            return
        self.quiet_seconds = 0.0
        self.read_bytes += len(data)
        self.read_count += 1
        turns = self._turns
        if turns is not None:
            if self.holds:
                if self.holds & _TURN_OVER:
                    self._unread += data
                    return
            elif len(data) >= LARGE_READ_BYTES:
                if turns.is_over:
                    self._unread = data
                    self._cut_short(turns)
                    return
                turns.work_left -= len(data) // self._bytes_per_work
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        """Handle every event that `data` completes, or keep them while this is held."""
        pressure = self._pressure
        if pressure is not None:
            pressure.arrivals_left_bytes -= len(data)
            if pressure.arrivals_left_bytes < 0:
                pressure.look()
        try:
            events = self.connection.receive(data)
        except WireError as error:
            self._break(error)
            return
        if self.holds:
            self.backlog += events
            self._note_kept(len(data))
        elif events:
            self._handle(events)
        if pressure is not None and pressure.is_high:
            self._bear(pressure, len(data))
        if self._withheld is not None:
            withheld_bytes = self._withheld(self.connection)
            if withheld_bytes != self._withheld_bytes:
                self._note_withheld(withheld_bytes)
        if self.connection.broken is not None and self.is_open and not self.backlog:
            self._break(self.connection.broken)

    def pause_writing(self) -> None:
        """Note that the peer does not read; called by the event loop."""
        self._is_write_paused = True
        if not self._reads_on_when_slow:
            self._hold(ReadHold.SLOW)
        self._count_slow()

    def resume_writing(self) -> None:
        """Go on, the peer has read; called by the event loop."""
        self._is_write_paused = False
        self._count_slow()
        if self.holds:
            self._release(ReadHold.SLOW)
        self._tell_ready()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: drop what is queued and tell those who asked; called by the event loop."""
        self._change(_Change.LOST)
        self._queue.clear()
        self._queued_bytes = 0
        self._carrier.remove(self)
        self._peers.discard(self)
        if self._admission is not None:
            self._admission.leave(self)
        if self._pressure is not None:
            self._pressure.forget(self._end_pressure)
        if exc is not None:
            _log.info("connection lost", peer=self.told_address, error=str(exc))
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("a close callback failed", peer=self.told_address)

    def _handle(self, events: Iterable[object]) -> None:
        """Hand events to the handler until one of them made too many answers wait."""
        remaining = iter(events)
        on_event, turns = self.on_event, self._turns
        try:
            for event in remaining:
                if turns is None:
                    on_event(self, event)
                else:
                    left = turns.work_left
                    on_event(self, event)
                    self._count(turns, left - turns.work_left)
                if self.holds:
                    if self.is_open:
                        self.backlog = list(remaining)
                    return
        except WireError as error:
            self._break(error)
        except Exception:
            _log.exception("a handler failed", peer=self.told_address)
            self.abort("a handler failed")

    def _note_kept(self, size: int) -> None:
        """Note that this much was read while this is stopped."""
        if self._ahead_bytes:
            self._ahead_bytes = max(self._ahead_bytes - size, 0)
            if not self._ahead_bytes:
                self.transport.pause_reading()
            if self._on_kept is not None:
                self._on_kept()

    def _count(self, turns: Turns, work: int) -> None:
        """Count what was done for an event; it is enough if others have to wait already."""
        if self._turn_number != turns.number:
            self._turn_number, self._turn_work = turns.number, 0
        self._turn_work += work
        if self._turn_work > SMALL_WORK and turns.is_over and self.is_open:
            self._cut_short(turns)

    def _cut_short(self, turns: Turns) -> None:
        if not self.holds & _TURN_OVER:
            self._hold(ReadHold.TURN_OVER)
            turns.later(lambda: self._resume(turns))

    def _resume(self, turns: Turns) -> None:
        """Continue where this was cut short."""
        unread, self._unread = self._unread, b""
        if unread:
            turns.work_left -= len(unread) // self._bytes_per_work
            self._receive(unread)
        self._release(ReadHold.TURN_OVER)

    def _write(self) -> None:
        if self._queue:
            buffers, self._queue = self._queue, []
            self.written_bytes += self._queued_bytes
            self.written_count += 1
            self._queued_bytes = 0
            self.quiet_seconds = 0.0
            self._unanswered_bytes = 0
            self.transport.writelines(buffers)

    def _note_withheld(self, size: int) -> None:
        self._withheld_bytes = size
        self._count_slow()

    def _bear(self, pressure: Pressure, read_bytes: int) -> None:
        """Do not read on if this peer brought much for which it has no answer yet."""
        self._unanswered_bytes += read_bytes
        if self.is_open and self._brings_too_much(pressure):
            self._keep_until_low(pressure)

    def _brings_too_much(self, pressure: Pressure) -> bool:
        return pressure.is_high and self._unanswered_bytes > pressure.connection_bytes_max

    def _count_slow(self) -> None:
        """Tell the carrier what waits for a peer that does not read; it may cut one off."""
        if self._is_server and self.is_open:
            waiting = self._withheld_bytes
            if self._is_write_paused:
                waiting += self.transport.get_write_buffer_size()
            self._slow_bytes = self._carrier.count_slow(self, self._slow_bytes, waiting)
            self._carrier.cut_slow(self._limits.all_answer_bytes_max)

    def _keep_until_low(self, pressure: Pressure) -> None:
        self._hold(ReadHold.PRESSURE)
        pressure.keep(self._end_pressure)

    def _end_pressure(self) -> None:
        if self.holds & ReadHold.PRESSURE:
            self._release(ReadHold.PRESSURE)

    def _hold(self, why: ReadHold) -> None:
        """Stop reading, and keep what was read, until that reason is taken back."""
        if self._is_server:
            if not self.holds:
                self.transport.pause_reading()
            self.holds |= why

    def _release(self, why: ReadHold) -> None:
        """Take a reason back; after the last one handle what was kept, then read again.

        What was kept is handled under pressure as well: that is looked at again afterwards.
        """
        self.holds &= ~why
        if self.holds & ~ReadHold.PRESSURE:
            return
        if (self._queue or self._is_write_paused) and not self._reads_on_when_slow:
            self.holds |= ReadHold.SLOW
            return
        self.holds = 0
        backlog, self.backlog = self.backlog, []
        self._handle(backlog)
        if self.holds:
            return
        pressure = self._pressure
        if self.connection.broken is not None:
            self._break(self.connection.broken)
        elif pressure is not None and self._brings_too_much(pressure):
            self._keep_until_low(pressure)
        else:
            self.transport.resume_reading()

    def _tell_ready(self) -> None:
        callbacks, self._when_ready = self._when_ready, []
        for number, callback in enumerate(callbacks):
            if not self.is_ready:  # the one before has sent much
                self._when_ready += callbacks[number:]
                return
            try:
                callback()
            except Exception:
                _log.exception("a handler failed", peer=self.told_address)
                self.abort("a handler failed")

    def _break(self, error: WireError) -> None:
        _log.warning(
            "connection closed: the peer broke the protocol",
            peer=self.told_address,
            error=str(error),
        )
        self.close()

    def _change(self, what: _Change) -> None:
        """Go on to the next state. Raises KeyError if there is none, with this one and `what`."""
        self.state = _NEXT[self.state, what]
        self.is_open = self.state is PeerState.OPEN
        if self.is_open:
            self.holds = 0
            return
        self.holds |= ReadHold.ENDED
        self.backlog.clear()
        self._unread = b""
        self._when_ready.clear()
        self._slow_bytes = self._carrier.count_slow(self, self._slow_bytes, 0)


class Carrier:
    """What the connections of a loop share: those with something to write, and the sweep."""

    def __init__(self) -> None:
        self._dirty: list[Peer] = []
        self.peers: set[Peer] = set()
        """All connections of the loop."""
        self._slow: set[Peer] = set()
        self.slow_bytes = 0
        """What waits for peers that do not take their answers."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, peer: Peer) -> None:
        """Begin to watch a connection."""
        self.peers.add(peer)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._swept)

    def remove(self, peer: Peer) -> None:
        """Forget a connection that is gone."""
        self.peers.discard(peer)
        if not self.peers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add_dirty(self, peer: Peer) -> None:
        """Promise that `peer` is flushed in this turn of the loop."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self.flush)
        self._dirty.append(peer)

    def flush(self) -> None:
        """Write what every connection has queued, one write for each."""
        dirty, self._dirty = self._dirty, []
        for peer in dirty:
            peer.flush()

    def count_slow(self, peer: Peer, before: int, waiting: int) -> int:
        """Count what waits for a slow peer, 0 for one that is not slow any more; return it."""
        self.slow_bytes += waiting - before
        if waiting:
            self._slow.add(peer)
        elif before:
            self._slow.discard(peer)
        return waiting

    def cut_slow(self, bytes_max: int) -> None:
        """Cut off the peer for which most waits if all together are beyond `bytes_max`."""
        if self.slow_bytes > bytes_max:
            slowest = max(self._slow, key=lambda peer: peer.pending_bytes)
            count = len(self._slow)
            slowest.abort(f"{self.slow_bytes} bytes wait for {count} peers, most of all for it")

    def sweep(self, seconds: float) -> None:
        """Tell every connection that `seconds` have passed; O(connections)."""
        for peer in list(self.peers):
            peer.sweep(seconds)

    def abort_all(self, reason: str) -> None:
        """Close every connection at once and drop what is queued, as the end of a process does."""
        for peer in list(self.peers):
            peer.abort(reason)

    def _swept(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._swept)
        self.sweep(SWEEP_SECONDS)


_carriers: WeakKeyDictionary[asyncio.AbstractEventLoop, Carrier] = WeakKeyDictionary()


def carrier() -> Carrier:
    """Return what the connections of the running event loop share."""
    loop = asyncio.get_running_loop()
    found = _carriers.get(loop)
    if found is None:
        found = _carriers[loop] = Carrier()
    return found
