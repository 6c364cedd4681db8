"""What administrators change while the broker runs: users, virtual hosts, policies, limits.

Everything is durable when it is answered, and in force: queues have their new policies, connections
of users and virtual hosts that are gone are closed.

Source: `rabbit_auth_backend_internal`, `rabbit_vhost`, `rabbit_policy`,
`rabbit_connection_tracking_handler`.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from sprocket.rabbitmq.broker.access import Users
from sprocket.rabbitmq.broker.definitions import (
    Definitions,
    Exported,
    Followers,
    Report,
)
from sprocket.rabbitmq.broker.policies import Policies
from sprocket.rabbitmq.broker.refusals import precondition_failed
from sprocket.rabbitmq.broker.topology import VhostTopology
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.broker.vhost_changes import VhostChanges
from sprocket.rabbitmq.codec.definitions import (
    DefinitionsFile,
    ParameterDefinition,
    PolicyDefinition,
    UserDefinition,
    VhostDefinition,
)
from sprocket.rabbitmq.codec.entities import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from sprocket.rabbitmq.model.binding import Destination
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.policy import GlobalParameter
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.user import TopicPermission, VhostPermission
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.runtime.slices import Slicer


class ConnectedClients(Protocol):
    """The connected clients."""

    def close_user(self, user: str, why: str) -> None:
        """Close every connection of a user."""

    def close_vhost(self, vhost: str, why: str) -> None:
        """Close every connection that is in a virtual host."""


class Administration:
    """See the head of the module.

    Args:
        table: Where all of it is kept.
        users: All users.
        policies: What is in force.
        definitions: Checks and puts what is given.
        vhosts: Those that run.
        changes: Makes and removes virtual hosts, and says when something is durable.
        connections: The connected clients.
        slicer: Does what is about everything there is.

    Each method that changes something raises StoreError: the change is not made, or nobody knows
    whether it is durable.

    Threads: event loop only.
    """

    def __init__(
        self,
        table: MetadataTable,
        users: Users,
        policies: Policies,
        definitions: Definitions,
        vhosts: Mapping[str, VhostBroker],
        changes: VhostChanges,
        connections: ConnectedClients,
        slicer: Slicer,
    ) -> None:
        self._table = table
        self._users = users
        self._policies = policies
        self._definitions = definitions
        self._vhosts = vhosts
        self._changes = changes
        self._connections = connections
        self._slicer = slicer

    # Users.

    async def put_user(self, given: UserDefinition) -> bool:
        """Add or replace a user; say whether it is new. Raises RequestRefused."""
        is_new = self._users.get(given.name) is None
        self._definitions.put_user(given)
        await self._changes.durable()
        return is_new

    async def remove_user(self, name: str) -> bool:
        """Delete a user, and close its connections; say whether it was there."""
        if not self._users.remove(name):
            return False
        self._connections.close_user(name, f"user '{name}' is deleted")
        await self._changes.durable()
        return True

    async def limit_user(self, name: str, limits: Mapping[str, int]) -> None:
        """Set the limits of a user, instead of those that it has. Raises RequestRefused."""
        user = self._users.get(name)
        if user is None:
            raise precondition_failed(f"no such user: {name}")
        self._users.put(msgspec.structs.replace(user, limits=dict(limits)))
        await self._changes.durable()

    async def allow(self, permission: VhostPermission | TopicPermission) -> None:
        """Set what a user may do in a virtual host. Raises RequestRefused."""
        self._definitions.allow(permission)
        await self._changes.durable()

    async def forbid(self, user: str, vhost: str) -> bool:
        """Take a user's permissions in a virtual host away; say whether it had any."""
        had_any = self._users.forbid(user, vhost)
        await self._changes.durable()
        return had_any

    async def clear_topics(self, user: str, vhost: str) -> bool:
        """Take a user's rules about routing keys away; say whether there were any."""
        had_any = self._users.clear_topics(user, vhost)
        await self._changes.durable()
        return had_any

    # Virtual hosts.

    async def make_vhost(self, given: VhostDefinition) -> bool:
        """Add a virtual host, or change one; say whether it is new. Raises RequestRefused."""
        return await self._changes.make(given)

    async def remove_vhost(self, name: str) -> bool:
        """Delete a virtual host with all that is in it; say whether it was there."""

        def ended(_: VhostBroker) -> None:
            self._connections.close_vhost(name, f"vhost '{name}' is deleted")

        return await self._changes.remove(name, ended)

    async def limit_vhost(self, name: str, limits: Mapping[str, object]) -> None:
        """Set the limits of a virtual host, instead of those it has. Raises RequestRefused."""
        given = ParameterDefinition(component=VHOST_LIMITS, name=LIMITS, value=limits)
        self._definitions.put_parameter(name, given)
        await self._changes.durable()

    # Policies and parameters.

    async def put_policy(self, vhost: str, given: PolicyDefinition) -> None:
        """Set a policy. Raises RequestRefused."""
        if self._definitions.put_policy(vhost, given):
            await self._reapply(self._vhosts[vhost])
        await self._changes.durable()

    async def put_operator_policy(self, vhost: str, name: str, value: object) -> None:
        """Set an operator's policy. Raises RequestRefused."""
        await self.put_parameter(
            vhost, ParameterDefinition(component=OPERATOR_POLICY, name=name, value=value)
        )

    async def put_parameter(self, vhost: str, given: ParameterDefinition) -> None:
        """Set a parameter of a component. Raises RequestRefused."""
        if self._definitions.put_parameter(vhost, given):
            await self._reapply(self._vhosts[vhost])
        await self._changes.durable()

    async def remove_policy(self, vhost: str, name: str, *, is_operator: bool) -> bool:
        """Take a policy away; say whether it was there."""
        if not self._policies.remove(vhost, name, is_operator=is_operator):
            return False
        await self._reapply(self._vhosts[vhost])
        await self._changes.durable()
        return True

    def global_parameters(self) -> list[GlobalParameter]:
        """Return the settings of the node."""
        return self._table.of_node(GlobalParameter)

    async def put_global_parameter(self, given: GlobalParameter) -> None:
        """Set one of them; `cluster_name` is what clients are told. Raises RequestRefused."""
        self._definitions.put_global_parameter(given)
        await self._changes.durable()

    async def remove_global_parameter(self, given: GlobalParameter) -> None:
        """Take one of them away."""
        self._table.write(gone=[given])
        await self._changes.durable()

    # Definitions.

    def export(self, vhost: str | None = None) -> Exported:
        """Return everything, or what is in one virtual host. Raises RequestRefused."""
        return self._definitions.export(vhost)

    async def take(self, file: DefinitionsFile, vhost: str | None = None) -> Report:
        """Take what a file says, into one virtual host if that is named.

        Virtual hosts are made first, since their stores have to be opened. Exchanges that were
        deleted before it began go before those of their name come.

        Raises:
            RequestRefused: Something cannot be; what stands before it was taken.
        """
        if vhost is None:
            for one in file.vhosts or ():
                await self._changes.make(one)
        for exchange in file.exchanges:
            running = self._vhosts.get(vhost or exchange.vhost or "")
            if running is not None:
                await running.until_gone(Destination(ResourceKind.EXCHANGE, exchange.name))
        report = Report()

        def queue_made(queue: DeclaredQueue) -> None:
            self._vhosts[queue.vhost].declared(queue)

        def queues_changed(queues: list[DeclaredQueue]) -> None:
            self._vhosts[queues[0].vhost].changed(queues)

        def vhost_made(topology: VhostTopology) -> None:
            raise AssertionError(f"{topology.vhost.name} was not made before")

        followers = Followers(
            vhost_made=vhost_made,
            queue_made=queue_made,
            queues_changed=lambda queues: queues_changed(list(queues)),
        )
        await self._slicer.run(self._definitions.take_steps(file, followers, report, vhost))
        await self._changes.durable()
        return report

    async def durable(self) -> None:
        """Wait until everything that was changed is on the disk. Raises StoreError."""
        await self._changes.durable()

    async def _reapply(self, vhost: VhostBroker) -> None:
        await self._slicer.run(vhost.topology.reapply_steps(vhost.changed))
