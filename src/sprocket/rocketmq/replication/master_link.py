"""A slave's connection to its master: made again whenever it is lost, for as long as this runs.

    find the master ── connect ── report where to begin ── parts of its log → ReplicaLog
          ↑                                                 └─ reports, as the log here grows
          └── closed, silent or broken: after `RETRY_SECONDS` at most

Whatever ends a link is said once in the log, and kept for those who ask (`why`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import NotConnected, StoreError, WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.replication.log_intake import UNSTORED_BYTES_MAX, Done, MasterFrame
from sprocket.runtime.driver import Carried, Peer, connect
from sprocket.runtime.tasks import Tasks, is_set_within

RETRY_SECONDS_MIN, RETRY_SECONDS = 0.25, 5.0
"""How long after the end of a link the next one is begun: at first, and at most, as RocketMQ does.
Each link that brings nothing doubles it."""

READ_BYTES = 8 * MIB
"""Read at once while there is much to read."""

LOOK_SECONDS = 0.5
"""How often it is looked whether a report is due, or the master silent."""

_log = log.get_logger(__name__)


class MasterPlace(Struct, frozen=True):
    """Where the master is.

    Attributes:
        host: Where it listens for slaves.
        port: The same.
        first: Where its log begins; None if that is not known.
    """

    host: str
    port: int
    first: int | None = None


class FollowingLog(Protocol):
    """A log that follows its master's, and the way in which both speak: see `ReplicaLog`."""

    @property
    def unstored_bytes(self) -> int:
        """How much was appended and is not stored yet."""

    @property
    def is_following(self) -> bool:
        """Whether it is known that it is a beginning of the master's."""

    @property
    def received(self) -> int:
        """Where the next byte of the master's log goes."""

    @property
    def safe_end(self) -> int:
        """What is reported: where the log ends that this machine has."""

    @property
    def unanswered(self) -> str:
        """What to say of a master that ends the link before the log follows it."""

    def reader(self) -> Carried[MasterFrame]:
        """Return what reads what a master sends."""

    def begin(self, moved: Done, first: int | None, /) -> object:
        """Begin a link, of which `moved` is told; the master's log begins at `first`, if known."""

    def opening(self) -> bytes:
        """Return what to say first."""

    def report(self) -> bytes:
        """Return what to say of how much there is; nothing if that is not to be said yet."""

    def take(self, frame: MasterFrame, /) -> None:
        """Take what the master has sent. Raises StoreError, WireError: the link is over."""


Find = Callable[[], Awaitable[MasterPlace | None]]
"""Says where the master is; None if nobody knows. Raises NotConnected."""


class MasterLink:
    """See the head of the module.

    Args:
        replica: Where its log goes.
        find: Says where it is; asked for each connection.
        clock: For what is due.
        heartbeat_seconds: How often it is reported to the master, whether anything is new or not.
        silence_seconds: A master that says nothing for so long is gone.
        retry_seconds: How long after the end of a link the next one is begun, at most.

    Attributes:
        why: Why there is no link that works; None if there is one.

    Threads: event loop only.
    """

    def __init__(
        self,
        replica: FollowingLog,
        find: Find,
        clock: Clock,
        *,
        heartbeat_seconds: float,
        silence_seconds: float,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.replica = replica
        self.why: str | None = "the master was not reached yet"
        self.master = ""
        """Where the master is, or was last; empty if it was never found."""
        self.read_bytes = 0
        """Of the master's log, since the start."""
        self.heard_at_ms = self.reported_at_ms = 0
        """When the master was heard, and told, last, wall time; 0 for never."""
        self._find = find
        self._clock = clock
        self._heartbeat_seconds = heartbeat_seconds
        self._silence_seconds = silence_seconds
        self._retry_seconds = retry_seconds
        self._peer: Peer | None = None
        self._reported = -1
        self._report_at = self._heard_at = 0.0
        self._is_paused = self._has_followed = self._has_failed = False
        self._tasks = Tasks("master link")

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the master."""
        return self._peer is not None

    def start(self) -> None:
        """Begin to follow the master."""
        self._tasks.spawn(self._keep(), "follow")

    async def stop(self) -> None:
        """End the link, and begin none."""
        await self._tasks.close()
        if self._peer is not None:
            self._peer.close()

    async def _keep(self) -> None:
        wait = RETRY_SECONDS_MIN
        while True:
            self._has_followed = False
            try:
                place = await self._find()
                if place is None:
                    self._note("no NameServer knows where the master listens for slaves")
                else:
                    await self._follow(place)
            except (NotConnected, StoreError) as error:
                self._note(str(error))
            if self._peer is not None:
                peer, self._peer = self._peer, None
                peer.close()
            wait = RETRY_SECONDS_MIN if self._has_followed else min(2 * wait, self._retry_seconds)
            await asyncio.sleep(wait)

    async def _follow(self, place: MasterPlace) -> None:
        """Follow the master until the link ends."""
        while self.replica.unstored_bytes:  # of the link before
            await asyncio.sleep(LOOK_SECONDS)
        self.master = f"{place.host}:{place.port}"
        peer = await connect(
            self.replica.reader, self._receive, place.host, place.port, read_bytes=READ_BYTES
        )
        self._peer, self._is_paused, self._has_failed = peer, False, False
        ended = asyncio.Event()
        peer.keep_when_quiet()
        peer.write_at_once()
        peer.when_closed(lambda _: ended.set())
        self._heard_at = self._clock.monotonic()
        self._reported = -1
        self.replica.begin(self._moved, place.first)
        self._say(self.replica.opening())
        if not self.replica.report():
            self._reported = -1  # that did not report anything
        while not await is_set_within(LOOK_SECONDS, ended):
            now = self._clock.monotonic()
            if self._is_paused:
                self._heard_at = now
            if now - self._heard_at >= self._silence_seconds:
                raise NotConnected(f"the master says nothing for {self._silence_seconds:g} s")
            if self.replica.safe_end != self._reported or now >= self._report_at:
                self._report()
        if self._has_failed:
            return
        is_silent = not self.replica.is_following
        self._note(self.replica.unanswered if is_silent else "the master closed the connection")

    def _receive(self, peer: Peer, frame: MasterFrame) -> None:
        """Take what the master sends."""
        self._heard_at = self._clock.monotonic()
        self.heard_at_ms = self._clock.now_ms()
        replica = self.replica
        before = replica.received
        try:
            replica.take(frame)
        except (StoreError, WireError) as error:
            self._end(peer, str(error))
            return
        self.read_bytes += max(0, replica.received - before)
        if replica.is_following and self.why is not None:
            self._has_followed = True
            _log.info("following the master", master=self.master, at=replica.received)
            self.why = None
        if replica.unstored_bytes > UNSTORED_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            peer.transport.pause_reading()

    def _moved(self, error: StoreError | None) -> None:
        """Report what is stored now, or end the link."""
        peer = self._peer
        if peer is None or not peer.is_open:
            return
        if error is not None:
            self._end(peer, str(error))
            return
        self._report()
        if self._is_paused and self.replica.unstored_bytes < UNSTORED_BYTES_MAX * 3 // 4:
            self._is_paused = False
            peer.transport.resume_reading()

    def report_soon(self) -> None:
        """Report to the master now, as there is something new beside the log."""
        self._report_at = 0.0
        if self.replica.is_following:
            self._report()

    def _report(self) -> None:
        end = self.replica.safe_end
        if end != self._reported or self._clock.monotonic() >= self._report_at:
            self._say(self.replica.report())

    def _say(self, report: bytes) -> None:
        """Send a report, or what is said first; nothing if that is not to be said yet."""
        if self._peer is not None and report:
            self._reported = self.replica.safe_end
            self.reported_at_ms = self._clock.now_ms()
            self._report_at = self._clock.monotonic() + self._heartbeat_seconds
            # At once: the next sync may begin before this turn of the loop is over.
            self._peer.send_now([report])

    def _end(self, peer: Peer, why: str) -> None:
        self._has_failed = True
        self._note(why)
        peer.close()

    def _note(self, why: str) -> None:
        """Say why the master is not followed, unless that was said already."""
        if why != self.why:
            _log.error("the master is not followed", master=self.master, why=why)
            self.why = why
