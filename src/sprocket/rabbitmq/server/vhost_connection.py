"""Which clients may log in, and a client in its virtual host.

Source: `rabbit_reader`, `rabbit_direct`; docs/formats/amqp.md.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from sprocket.base.audit import Actor
from sprocket.base.clock import Clock
from sprocket.rabbitmq.broker.access import Admissions
from sprocket.rabbitmq.broker.broker import AmqpBroker
from sprocket.rabbitmq.broker.publishing import Publisher
from sprocket.rabbitmq.broker.topology import Requester
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.counts import ClientChurn
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.server.handlers import ChannelMethods
from sprocket.rabbitmq.server.login import Credentials, Subject, distinguished_name
from sprocket.rabbitmq.server.session import (
    ChannelService,
    ConnectionService,
    LoginRefused,
    Replies,
    Session,
)


class UserAuthenticator:
    """Lets users in who have a password and a permission; a `session.Authenticator`.

    Args:
        broker: Knows them.
        clock: Of the machine.
        certified_user: Gives the user that a certificate is for.

    Threads: event loop only.
    """

    def __init__(
        self,
        broker: AmqpBroker,
        clock: Clock,
        certified_user: Callable[[Subject], str | None] = distinguished_name,
    ) -> None:
        self.certified_user = certified_user
        self._users = broker.users
        self._topologies = broker.topologies
        self._vhosts = broker.vhosts
        self._admissions = broker.admissions
        self._clock = clock
        self._numbers = count(1)
        self._clients = _Clients({}, {}, ClientChurn())
        self.churn = self._clients.churn
        self.logins = Counter[bool]()
        """How many there were, by whether they succeeded."""

    def log_in(self, given: Credentials, session: Session) -> None:
        """Let a user in, or raise LoginRefused."""
        try:
            self._users.log_in(given.user, given.password, is_loopback=session.peer.is_local)
        except RequestRefused as refusal:
            self.logins[False] += 1
            raise LoginRefused(refusal.remark) from refusal
        self.logins[True] += 1

    def enter(self, vhost: str, session: Session) -> ConnectionService:
        """Let the user of a session into a virtual host. Raises AmqpError."""
        try:
            topology = self._topologies.get(vhost)
            access = self._users.access(session.user, vhost)
            user = self._users.get(session.user)
            if user is None:  # removed since it has logged in
                raise AmqpError(ReplyCode.NOT_ALLOWED, f"user '{session.user}' is deleted")
            self._admissions.enter(user, topology.vhost)
        except RequestRefused as refusal:
            raise AmqpError(ReplyCode(refusal.code), refusal.remark) from refusal
        requester = Requester(access, next(self._numbers))
        connection = VhostConnection(
            self._vhosts[vhost],
            user,
            requester,
            self._admissions,
            session,
            self._clock,
            self._clients,
        )
        self._clients.inside[connection] = None
        self.churn.connections_opened += 1
        return connection

    def connections(self) -> Sequence["VhostConnection"]:
        """Return everybody who is in, in the order in which they came."""
        return list(self._clients.inside)

    @property
    def connection_count(self) -> int:
        """How many are in."""
        return len(self._clients.inside)

    @property
    def channel_count(self) -> int:
        """How many channels they have."""
        return len(self._clients.channels)

    def open_channels(self) -> Sequence[tuple["ChannelMethods", "VhostConnection"]]:
        """Return the channels of everybody who is in: 20 µs for a thousand."""
        return list(self._clients.channels.items())

    def check_overdue(self, timeout_seconds: float) -> None:
        """Close every channel whose client has had something for too long."""
        for connection in self.connections():
            for channel in connection.channels():
                channel.check_overdue(timeout_seconds)


@dataclass(frozen=True, slots=True)
class _Clients:
    """Everybody who is in, and their channels; and how many there were."""

    inside: dict["VhostConnection", None]
    channels: dict[ChannelMethods, "VhostConnection"]
    churn: ClientChurn


class VhostConnection:
    """A client in a virtual host; a `session.ConnectionService`.

    Args:
        vhost: Where it is.
        user: As whom.
        requester: The client, as the topology knows it; has the number of its connection.
        admissions: Counts connections and channels.
        session: Its connection.
        clock: Of the machine.
        clients: All of them; its channels are added and removed, and so is this at its end.

    Threads: event loop only.
    """

    def __init__(
        self,
        vhost: VhostBroker,
        user: User,
        requester: Requester,
        admissions: Admissions,
        session: Session,
        clock: Clock,
        clients: _Clients,
    ) -> None:
        self.session = session
        self.entered_at_ms = clock.now_ms()
        self._vhost = vhost
        self._user = user
        self._requester = requester
        self._publisher = Publisher(user, requester.access)
        self._actor = Actor(through="amqp", peer=session.peer.told_address, user=user.name)
        self._admissions = admissions
        self._understands = session.capabilities
        self._clock = clock
        self._clients = clients
        self._channels: dict[ChannelMethods, None] = {}

    @property
    def vhost(self) -> VhostBroker:
        """Where it is."""
        return self._vhost

    @property
    def number(self) -> int:
        """The number of its connection, to the topology."""
        assert self._requester.connection is not None, "a client has a connection"
        return self._requester.connection

    @property
    def user(self) -> User:
        """As whom."""
        return self._user

    @property
    def channel_count(self) -> int:
        """How many channels are open."""
        return len(self._channels)

    def channels(self) -> Iterator[ChannelMethods]:
        """Give those that are open."""
        yield from list(self._channels)

    def open_channel(self, replies: Replies) -> ChannelService:
        """Return what serves a channel. Raises AmqpError."""
        try:
            self._admissions.open_channel(self._user)
        except RequestRefused as refusal:
            raise AmqpError(ReplyCode(refusal.code), refusal.remark) from refusal
        opened = ChannelMethods(
            self._vhost,
            self._requester,
            self._publisher,
            replies,
            self._understands,
            self._clock,
            self._closed,
            self._actor,
        )
        self._channels[opened] = None
        self._clients.channels[opened] = self
        self._clients.churn.channels_opened += 1
        return opened

    def leave_in_turns(self) -> Iterator[None]:
        """Give back what the connection holds, in steps; all its channels are closed."""
        yield from self._vhost.delete_in_turns(self.number)
        self._admissions.leave(self._user.name, self._vhost.name)
        churn, peer = self._clients.churn, self.session.peer
        del self._clients.inside[self]
        churn.connections_closed += 1
        churn.past.read_bytes += peer.read_bytes
        churn.past.read_count += peer.read_count
        churn.past.written_bytes += peer.written_bytes
        churn.past.written_count += peer.written_count

    def _closed(self, channel: ChannelMethods) -> None:
        del self._channels[channel]
        del self._clients.channels[channel]
        self._clients.churn.channels_closed += 1
        self._admissions.close_channel(self._user.name)
