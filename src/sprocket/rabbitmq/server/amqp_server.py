"""The server: makes a connection object for each client, and a session for each that speaks."""

import asyncio
from collections.abc import Callable
from typing import Final

from sprocket.base.clock import Clock
from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode
from sprocket.rabbitmq.server.alarms import Alarms
from sprocket.rabbitmq.server.connection import AmqpConnection, Event, Memo, WireLimits
from sprocket.rabbitmq.server.greeting import Greeting
from sprocket.rabbitmq.server.heartbeats import Heartbeats
from sprocket.rabbitmq.server.session import Authenticator, ServerParts, Session
from sprocket.runtime.driver import Peer, PortPolicy
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.timers import Timers
from sprocket.runtime.turns import Turns

SETTLE_SECONDS_MAX: Final = 5.0
"""How long a server that stops waits until everybody knows; what they held is durable anyway."""
LEAVE_SECONDS_MAX: Final = 0.2
"""How long it waits until they have read that: a socket that is closed with octets unread is reset,
and a client that was about to send would not be told why."""
LOOK_SECONDS: Final = 0.005
SHUTDOWN: Final = "broker forced connection closure with reason 'shutdown'"


class AmqpServer:
    """What a port of AMQP is listened on with: `connection` is the factory, `on_event` the handler.

    Args:
        authenticator: Says who may come in.
        greeting: What clients are told first, by how they may log in.
        limits: What they are offered.
        clock: Of the machine.
        timers: The event loop's.
        turns: Say how much may be done in one turn of it.

    Threads: event loop only.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        greeting: Greeting,
        limits: WireLimits,
        clock: Clock,
        timers: Timers,
        turns: Turns,
    ) -> None:
        self.alarms = Alarms()
        """What the server runs short of."""
        self.sessions: dict[Peer, Session] = {}
        """Everybody who has said anything, and is there."""
        self._is_stopped = False
        self._parts = ServerParts(
            authenticator, greeting, limits, Heartbeats(clock, timers), self.alarms, timers, turns
        )
        self._memo = Memo()

    def connection(self) -> AmqpConnection:
        """Return what reads a new client."""
        return AmqpConnection(self._parts.limits, self._memo)

    def policy(self, pressure: Pressure | None = None) -> PortPolicy:
        """Return how clients are read.

        A client may write for as long as it likes before it reads what was delivered to it, and is
        known once it is in its vhost.
        """
        return PortPolicy(
            pressure=pressure,
            turns=self._parts.turns,
            reads_on_when_slow=True,
            knows_by_event=False,
        )

    def on_event(self, peer: Peer, event: Event) -> None:
        """Handle what a client has sent."""
        session = self.sessions.get(peer)
        if session is None:
            if self._is_stopped:
                peer.close()
                return
            session = self._begin(peer)
        session.on_event(event)

    def close_all(self, why: str = SHUTDOWN) -> None:
        """Take leave of every client."""
        for session in list(self.sessions.values()):
            session.close(AmqpError(ReplyCode.CONNECTION_FORCED, why))

    def close_user(self, user: str, why: str) -> None:
        """Take leave of every client that has logged in as a user."""
        self._close_some(lambda one: one.user == user, why)

    def close_vhost(self, vhost: str, why: str) -> None:
        """Take leave of every client that is in a virtual host."""
        self._close_some(lambda one: one.vhost == vhost, why)

    def _close_some(self, is_meant: Callable[[Session], bool], why: str) -> None:
        for session in list(self.sessions.values()):
            if is_meant(session):
                session.close(AmqpError(ReplyCode.CONNECTION_FORCED, why))

    def stop(self) -> None:
        """Close every connection, and stop watching them; new ones are refused."""
        self._is_stopped = True
        self.close_all()
        self._parts.heartbeats.stop()

    async def settle(self) -> None:
        """Wait until clients that are told to go have given back everything, and are gone.

        What clients that are gone already have asked for is done as well. Clients that are not gone
        soon are not waited for.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self._parts.turns.is_idle or not all(
            one.is_ended for one in self.sessions.values()
        ):
            if loop.time() > began + SETTLE_SECONDS_MAX:
                return
            await self._parts.turns.pass_turn()
        until = loop.time() + LEAVE_SECONDS_MAX
        while self.sessions and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)

    def _begin(self, peer: Peer) -> Session:
        assert isinstance(peer.connection, AmqpConnection)
        session = self.sessions[peer] = Session(peer, peer.connection, self._parts)
        peer.when_closed(self._forget)
        return session

    def _forget(self, peer: Peer) -> None:
        del self.sessions[peer]
