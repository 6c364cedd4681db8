"""The virtual hosts of the node.

Source: `rabbit_vhost`.
"""

from collections.abc import Iterator

from sprocket.rabbitmq.broker.access import Users
from sprocket.rabbitmq.broker.policies import Policies
from sprocket.rabbitmq.broker.refusals import not_allowed, precondition_failed
from sprocket.rabbitmq.broker.topology.vhost_topology import VhostTopology
from sprocket.rabbitmq.model.declared_queue import CLASSIC, QUORUM
from sprocket.rabbitmq.model.names import name_bytes
from sprocket.rabbitmq.model.vhost import RemovedVhost, Vhost
from sprocket.rabbitmq.store.metadata_table import MetadataTable

NAME_BYTES_MAX = 255


class Vhosts:
    """All virtual hosts by name.

    Args:
        table: Where they are kept, and what is in them.
        users: Told of one that is gone.
        policies: Told as well.

    Durability: as the table's.
    Threads: event loop only.
    """

    def __init__(self, table: MetadataTable, users: Users, policies: Policies) -> None:
        self._table = table
        self._users = users
        self._policies = policies
        self._vhosts = {one.name: self._opened(one) for one in table.of_node(Vhost)}

    def __iter__(self) -> Iterator[VhostTopology]:
        return iter(self._vhosts.values())

    def __len__(self) -> int:
        return len(self._vhosts)

    def find(self, name: str) -> VhostTopology | None:
        """Return a virtual host; None if there is none of that name."""
        return self._vhosts.get(name)

    def get(self, name: str) -> VhostTopology:
        """Return a virtual host that a client wants to enter.

        Raises:
            RequestRefused: NOT_ALLOWED; there is none of that name.
        """
        found = self._vhosts.get(name)
        if found is None:
            raise not_allowed(f"vhost {name} not found")
        return found

    def put(self, vhost: Vhost) -> VhostTopology:
        """Add a virtual host, or change what is said of one, its limits too.

        Raises:
            RequestRefused: PRECONDITION_FAILED; it is not a name, or not a type of queues.
            DiskFull, DiskFailed: All is as before.
        """
        self.check(vhost)
        found = self._vhosts.get(vhost.name)
        if found is not None and found.vhost == vhost:
            return found
        self._table.write(put=[vhost])
        if found is not None:
            found.vhost = vhost
            return found
        made = self._vhosts[vhost.name] = self._opened(vhost)
        return made

    def check(self, vhost: Vhost) -> None:
        """Refuse a virtual host that cannot be.

        Raises:
            RequestRefused: PRECONDITION_FAILED; it is not a name, or not a type of queues.
        """
        if not 0 < len(name_bytes(vhost.name)) <= NAME_BYTES_MAX:
            raise precondition_failed(
                f"a virtual host's name has 1 to {NAME_BYTES_MAX} bytes, {vhost.name!r} has not"
            )
        if vhost.default_queue_type not in (None, CLASSIC, QUORUM):
            raise precondition_failed(
                f"virtual host '{vhost.name}': unknown queue type {vhost.default_queue_type}"
            )

    def remove(self, name: str) -> VhostTopology | None:
        """Take a virtual host away with all that is in it; return it, None if there was none.

        The caller takes care of its connections and its folder, and calls `forget_removed` at the
        end.

        Raises:
            DiskFull, DiskFailed: All is as before.
        """
        found = self._vhosts.get(name)
        if found is None:
            return None
        self._table.write(gone=[found.vhost], put=[RemovedVhost(name=name)])
        del self._vhosts[name]
        self._users.forget_vhost(name)
        self._policies.forget_vhost(name)
        return found

    def removed(self) -> list[str]:
        """Return the names of those that were deleted, and whose folders may still be there."""
        return [one.name for one in self._table.of_node(RemovedVhost)]

    def forget_removed(self, name: str) -> None:
        """Note that the folder of one that was deleted is gone, too.

        Raises:
            DiskFull, DiskFailed: All is as before.
        """
        self._table.write(gone=[RemovedVhost(name=name)])

    def _opened(self, vhost: Vhost) -> VhostTopology:
        return VhostTopology(vhost, self._table, self._policies.of_vhost(vhost.name))
