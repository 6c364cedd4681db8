"""The services of a node by which the API shows and changes it, and facts about the node."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sprocket.base.clock import Clock
from sprocket.base.place import Place
from sprocket.rabbitmq.broker.access import Users
from sprocket.rabbitmq.broker.administration import Administration
from sprocket.rabbitmq.broker.broker import AmqpBroker
from sprocket.rabbitmq.broker.channels import BrokerChannel
from sprocket.rabbitmq.broker.cluster_name import ClusterName
from sprocket.rabbitmq.broker.topology import Vhosts
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.model.counts import NodeCounts
from sprocket.rabbitmq.server.alarms import Alarms
from sprocket.rabbitmq.server.management.requests import Caller, answers, not_found
from sprocket.rabbitmq.server.management.samples import Samples
from sprocket.rabbitmq.server.vhost_connection import UserAuthenticator, VhostConnection
from sprocket.runtime.certificates import CertificateFile
from sprocket.runtime.slices import Slicer


class Listener(NamedTuple):
    """A port that is listened on."""

    protocol: str
    """RabbitMQ's word, such as `amqp`."""
    host: str
    port: int


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFacts:
    """What does not change while the node runs; of the cluster's name only where it is kept."""

    name: str
    cluster: ClusterName
    listeners: Sequence[Listener]
    disk_free_bytes_min: int
    memory_bytes_max: int
    """What the process may take before publishers are held, or all that there is for it."""
    mechanisms: Sequence[str]
    certificates: Callable[[], Sequence[CertificateFile]]
    """Gives the files of those in use: the node's own, then those of authorities."""
    started_at: float
    """Of the clock that only rises."""


class OpenChannel(NamedTuple):
    """A channel of somebody who is connected."""

    connection: VhostConnection
    number: int
    channel: BrokerChannel

    @property
    def name(self) -> str:
        """What RabbitMQ calls it."""
        return f"{connection_name(self.connection)} ({self.number})"


class NodeServices:
    """See the head of the module.

    Args:
        broker: Most of them are its own.
        administration: Changes things.
        authenticator: Knows the clients that are logged in.
        alarms: What is low.
        facts: About the node.
        place: Where it keeps its files, and the clock.

    Threads: event loop only.
    """

    def __init__(
        self,
        broker: AmqpBroker,
        administration: Administration,
        authenticator: UserAuthenticator,
        alarms: Alarms,
        facts: NodeFacts,
        place: Place,
    ) -> None:
        self.administration = administration
        self.authenticator = authenticator
        self.alarms = alarms
        self.facts = facts
        self.place = place
        self.users: Users = broker.users
        self.topologies: Vhosts = broker.topologies
        self.vhosts: Mapping[str, VhostBroker] = broker.vhosts
        self.counts: NodeCounts = broker.counts
        self.syncs = broker.syncs
        """How long syncs took."""
        self.clock: Clock = place.clock
        self.slicer = Slicer(broker.turns, place.clock)
        self.samples = Samples(place.clock)

    def vhost(self, name: str | None) -> VhostBroker:
        """Return a virtual host that runs. Raises ApiError."""
        found = None if name is None else self.vhosts.get(name)
        if found is None:
            raise not_found()
        return found

    def declarable(self, name: str | None) -> VhostBroker:
        """Return a virtual host in which something is to be put. Raises ApiError."""
        found = None if name is None else self.vhosts.get(name)
        if found is None:
            raise answers.vhost_not_found()
        return found

    @property
    def refusals(self) -> dict[str, str]:
        """Why virtual hosts store nothing now, by their names; empty if all do."""
        return {
            name: why
            for name, one in sorted(self.vhosts.items())
            if (why := one.refusal) is not None
        }

    @property
    def low(self) -> Collection[str]:
        """Alarms that are in force: `memory`, `disk`. A disk that stores nothing is one, too."""
        return {*self.alarms.low, "disk"} if self.refusals else self.alarms.low

    def entered(self, caller: Caller) -> list[VhostBroker]:
        """Return the virtual hosts that somebody may enter, by name."""
        return [self.vhosts[name] for name in sorted(self.vhosts) if caller.may_enter(name)]

    def seen(self, caller: Caller) -> list[VhostBroker]:
        """Return the virtual hosts that a caller may see, by name."""
        return [self.vhosts[name] for name in sorted(self.vhosts) if caller.may_see(name)]

    def some(self, caller: Caller, vhost: str | None) -> list[VhostBroker]:
        """Return one virtual host if it is named, else all that somebody may enter."""
        return self.entered(caller) if vhost is None else [self.vhost(vhost)]

    def connections(self, caller: Caller, vhost: str | None = None) -> list[VhostConnection]:
        """Return the connections that a caller may see: all, or its own."""
        return [
            one
            for one in self.authenticator.connections()
            if (vhost is None or one.vhost.name == vhost)
            and (caller.is_monitor or one.user.name == caller.name)
        ]

    def open_channels(self) -> Iterator[OpenChannel]:
        """Give the channels of all connections; those that are open when this is called."""
        found = self.authenticator.open_channels()
        return (OpenChannel(connection, one.number, one.channel) for one, connection in found)

    def channels(self, connections: Sequence[VhostConnection]) -> Iterator[OpenChannel]:
        """Give the channels of some connections."""
        for connection in connections:
            for one in connection.channels():
                yield OpenChannel(connection, one.number, one.channel)


def connection_name(connection: VhostConnection) -> str:
    """Return what RabbitMQ calls a connection: both ends of it."""
    peer = connection.session.peer
    return f"{peer.address} -> {peer.local_address}"
