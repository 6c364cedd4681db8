"""A node's users, virtual hosts, policies and what is declared, on a simulated disk."""

from collections.abc import Mapping

from tests.field_tables import table

from sprocket.base.disk import RealDisk
from sprocket.rabbitmq.broker.access import Unlimited, Users
from sprocket.rabbitmq.broker.definitions import Definitions
from sprocket.rabbitmq.broker.policies import Policies
from sprocket.rabbitmq.broker.topology import Requester, Vhosts, VhostTopology, no_headers
from sprocket.rabbitmq.model.binding import Binding, Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.vhost import Vhost
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.testing.disk import SimulatedDisk

FOLDER = "/node"
ANYBODY = Requester(Unlimited())
EXCHANGE = ResourceKind.EXCHANGE
QUEUE = ResourceKind.QUEUE


class Declarations:
    """All rooms over one table; opened again from the same disk they have what was written."""

    def __init__(self, disk: SimulatedDisk | None = None, *, real: str | None = None) -> None:
        """Open them on a simulated disk, or in a folder of the real one.

        A simulated one is slow with 10,000 of a kind.
        """
        self.disk = disk or SimulatedDisk()
        self.disk.make_folder(FOLDER)
        if real is None:
            self.table = MetadataTable(self.disk, FOLDER)
        else:
            self.table = MetadataTable(RealDisk(), real)
        self.users = Users(self.table)
        self.policies = Policies(self.table)
        self.vhosts = Vhosts(self.table, self.users, self.policies)
        self.definitions = Definitions(
            self.table, self.users, self.vhosts, self.policies, version="3.10.8"
        )

    def vhost(self, name: str = "/") -> VhostTopology:
        """Return a virtual host, made if it is not there."""
        return self.vhosts.find(name) or self.vhosts.put(Vhost(name=name))


def fresh_vhost() -> VhostTopology:
    """Return a virtual host with nothing of anybody's in it."""
    return Declarations().vhost()


def declare_exchange(
    topology: VhostTopology,
    name: str,
    kind: str = "direct",
    *,
    durable: bool = False,
    auto_delete: bool = False,
    arguments: Mapping[str, object] | None = None,
) -> bool:
    """Declare an exchange as the broker itself."""
    exchange = Exchange(
        vhost=topology.vhost.name,
        name=name,
        type=kind,
        is_durable=durable,
        is_auto_delete=auto_delete,
        arguments=table(arguments),
    )
    return topology.declare_exchange(exchange, ANYBODY)


def declare_queue(
    topology: VhostTopology,
    name: str,
    *,
    durable: bool = False,
    owner: int | None = None,
    arguments: Mapping[str, object] | None = None,
) -> DeclaredQueue:
    """Declare a queue as the broker itself, or as a connection's own."""
    queue = DeclaredQueue(
        vhost=topology.vhost.name,
        name=name,
        is_durable=durable,
        owner=owner,
        arguments=table(arguments),
    )
    return topology.declare_queue(queue, Requester(Unlimited(), owner)).queue


def bound(
    source: str,
    to: str,
    key: str = "",
    *,
    kind: ResourceKind = QUEUE,
    arguments: Mapping[str, object] | None = None,
    vhost: str = "/",
) -> Binding:
    """Return a binding."""
    return binding(vhost, source, Destination(kind, to), key, table(arguments))


def routed(
    topology: VhostTopology,
    exchange: str,
    *keys: str,
    headers: Mapping[str, object] | None = None,
) -> tuple[str, ...]:
    """Return the queues that a message goes to."""
    given = table(headers)
    look = no_headers if headers is None else lambda: given
    return topology.route(exchange, keys or ("",), look).queues
