"""Requests of the broker to its clients, and which answer belongs to which.

A call is a request that this side numbers and sends on a connection that a client opened. It ends
exactly once: with the client's answer, when its time is over, or when the connection closes.
One-way requests, such as the notice that a group has changed, are no calls.

At most `count_max` calls wait for an answer on all connections together; RocketMQ allows 64
asynchronous ones and, of the others, as many as it has threads. Above the limit a call fails at
once, and that is logged.

Source: RocketMQ `Broker2Client`, `NettyRemotingAbstract`.
"""

from collections.abc import Callable
from itertools import count

from msgspec import Struct

from sprocket.base import log
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import Header
from sprocket.runtime.driver import Peer
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

CALLS_MAX = 1024
"""Calls under way at a time; one takes about 1 KiB beside its body."""

OPAQUE_MASK = 0x7FFF_FFFF


class Ended(Struct, frozen=True):
    """How a call ended.

    Attributes:
        answer: The client's answer, None without one.
        is_late: There is none because its time is over.
        why: Why there is none, for a person.
    """

    answer: Command | None = None
    is_late: bool = False
    why: str = ""


Done = Callable[[Ended], None]
"""Takes how a call ended; called once, never before `call` returned."""


class _Call(Struct):
    done: Done
    timer: Timer


class ClientCalls:
    """The calls that are under way.

    Args:
        timers: The event loop's.
        count_max: How many may be.
    Threads: event loop only.
    """

    def __init__(self, timers: Timers, count_max: int = CALLS_MAX) -> None:
        self._timers = timers
        self._count_max = count_max
        self._numbers = count()
        self._peers: dict[Peer, dict[int, _Call]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """How many calls are under way."""
        return self._count

    def call(
        self,
        peer: Peer,
        code: int,
        header: Header,
        body: Buffer,
        seconds: float,
        done: Done,
    ) -> None:
        """Ask a client something.

        Args:
            peer: Its connection.
            code: The request's code.
            header: Its fields.
            body: Its body.
            seconds: How long the answer may take.
            done: Gets the end.
        """
        if not peer.is_open or self._count >= self._count_max:
            why = "the connection is closed"
            if peer.is_open:
                why = f"{self._count_max} calls to clients are under way already"
                _log.warning("a client is not asked", code=code, peer=peer.address, why=why)
            self._timers.call_soon(lambda: done(Ended(why=why)))
            return
        opaque = next(self._numbers) & OPAQUE_MASK
        pending = self._peers.get(peer)
        if pending is None:
            pending = self._peers[peer] = {}
            peer.on_close.append(self._closed)
        timer = self._timers.call_later(seconds, lambda: self._late(peer, opaque, seconds))
        pending[opaque] = _Call(done, timer)
        self._count += 1
        peer.send(command.request(code, opaque, header, body))

    def answered(self, peer: Peer, answer: Command) -> None:
        """Take an answer; one that nobody waits for, or no longer, is dropped."""
        self._end(peer, answer.opaque, Ended(answer))

    def _late(self, peer: Peer, opaque: int, seconds: float) -> None:
        self._end(peer, opaque, Ended(is_late=True, why=f"no answer within {seconds:g} s"))

    def _end(self, peer: Peer, opaque: int, ended: Ended) -> None:
        call = self._peers.get(peer, {}).pop(opaque, None)
        if call is not None:
            self._count -= 1
            call.timer.cancel()
            call.done(ended)

    def _closed(self, peer: Peer) -> None:
        """End the calls on a connection that is gone."""
        pending = self._peers.pop(peer, {})
        self._count -= len(pending)
        for call in pending.values():
            call.timer.cancel()
            call.done(Ended(why="the connection closed before the answer"))
