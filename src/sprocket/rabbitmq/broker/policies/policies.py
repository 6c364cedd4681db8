"""The policies of all virtual hosts, and which of them are in force.

Of those that fit a name, the one with the highest priority is, alone; of an equal priority, the
first by name. Beside it the operator's, found in the same way: of a limit that both set the
smaller value counts.

Source: `rabbit_policy`, `rabbit_policies:merge_policy_value`.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from sprocket.rabbitmq.broker.patterns import Pattern
from sprocket.rabbitmq.broker.policies import validation
from sprocket.rabbitmq.model.declared_queue import CLASSIC, QUORUM
from sprocket.rabbitmq.model.policy import ALL, EXCHANGES, QUEUES, Policy
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.vhost import Vhost
from sprocket.rabbitmq.store.metadata_table import MetadataTable

_OF_STREAMS = frozenset({"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"})
_UNSUPPORTED = {
    CLASSIC: _OF_STREAMS | {"queue-leader-locator", "delivery-limit", "dead-letter-strategy"},
    QUORUM: _OF_STREAMS
    | {
        "max-priority",
        "queue-mode",
        "single-active-consumer",
        "ha-mode",
        "ha-params",
        "ha-sync-mode",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "queue-master-locator",
    },
}
"""A policy that says anything of these is not for queues of the type."""


class InForce(Struct, frozen=True):
    """What the policies of a queue or an exchange come to."""

    policy: str | None = None
    """Its name."""
    operator_policy: str | None = None
    definition: Mapping[str, object] = MappingProxyType({})


NOTHING_IN_FORCE: Final = InForce()


class _Checked(NamedTuple):
    policy: Policy
    pattern: Pattern


class VhostPolicies:
    """The policies of one virtual host."""

    def __init__(self) -> None:
        self._users: list[_Checked] = []
        self._operators: list[_Checked] = []

    def __iter__(self) -> Iterator[Policy]:
        for of in (self._users, self._operators):
            for one in of:
                yield one.policy

    def in_force(self, kind: ResourceKind, name: str, queue_type: str = CLASSIC) -> InForce:
        """Return what is in force for a queue of a type, or an exchange; there need be none."""
        chosen = _first(self._users, kind, name, queue_type)
        operator = _first(self._operators, kind, name, queue_type)
        if chosen is None and operator is None:
            return NOTHING_IN_FORCE
        merged: dict[str, object] = {} if chosen is None else dict(chosen.definition)
        if operator is not None:
            for key, value in operator.definition.items():
                old = merged.get(key)
                # Both are integers: nothing else may stand in an operator's policy.
                if isinstance(old, int) and isinstance(value, int):
                    value = min(old, value)
                merged[key] = value
        return InForce(
            None if chosen is None else chosen.name,
            None if operator is None else operator.name,
            merged,
        )

    def get(self, name: str, *, is_operator: bool = False) -> Policy | None:
        """Return a policy; None if there is none of that name."""
        of = self._operators if is_operator else self._users
        return next((one.policy for one in of if one.policy.name == name), None)

    def put(self, policy: Policy, pattern: Pattern) -> None:
        """Add or replace a policy that was checked."""
        self.remove(policy)
        of = self._operators if policy.is_operator else self._users
        of.append(_Checked(policy, pattern))
        of.sort(key=lambda one: (-one.policy.priority, one.policy.name))

    def remove(self, policy: Policy) -> None:
        """Take a policy away, if it is there."""
        of = self._operators if policy.is_operator else self._users
        of[:] = [one for one in of if one.policy.name != policy.name]


class Policies:
    """The policies of all virtual hosts.

    A change concerns queues and exchanges that are there; `VhostTopology.reapply_steps` tells them.

    Durability: as the table's.
    Threads: event loop only.
    """

    def __init__(self, table: MetadataTable) -> None:
        self._table = table
        self._of_vhosts: dict[str, VhostPolicies] = {}
        for vhost in table.of_node(Vhost):
            for policy in table.of_vhost(vhost.name, Policy):
                self.of_vhost(vhost.name).put(policy, Pattern(policy.pattern))

    def __iter__(self) -> Iterator[Policy]:
        for of in self._of_vhosts.values():
            yield from of

    def of_vhost(self, vhost: str) -> VhostPolicies:
        """Return those of a virtual host; the same object as long as that is there."""
        return self._of_vhosts.setdefault(vhost, VhostPolicies())

    def put(self, policy: Policy) -> bool:
        """Add or replace a policy; say whether it is another one now.

        Raises:
            RequestRefused: PRECONDITION_FAILED; it says what it must not.
            DiskFull, DiskFailed: All is as before.
        """
        pattern = validation.check(policy)
        of_vhost = self.of_vhost(policy.vhost)
        if of_vhost.get(policy.name, is_operator=policy.is_operator) == policy:
            return False
        self._table.write(put=[policy])
        of_vhost.put(policy, pattern)
        return True

    def remove(self, vhost: str, name: str, *, is_operator: bool = False) -> bool:
        """Take a policy away; say whether it was there.

        Raises:
            DiskFull, DiskFailed: All is as before.
        """
        policy = self.of_vhost(vhost).get(name, is_operator=is_operator)
        if policy is None:
            return False
        self._table.write(gone=[policy])
        self.of_vhost(vhost).remove(policy)
        return True

    def forget_vhost(self, vhost: str) -> None:
        """Note that a virtual host is gone, and its policies with it."""
        self._of_vhosts.pop(vhost, None)


def _first(
    policies: list[_Checked], kind: ResourceKind, name: str, queue_type: str
) -> Policy | None:
    is_queue = kind is ResourceKind.QUEUE
    wanted = (ALL, QUEUES if is_queue else EXCHANGES)
    for policy, pattern in policies:
        if policy.apply_to not in wanted:
            continue
        if is_queue and not _UNSUPPORTED[queue_type].isdisjoint(policy.definition):
            continue
        if pattern.fits(name):
            return policy
    return None
