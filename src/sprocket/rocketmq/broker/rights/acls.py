"""The policies of a broker's users, by subject.

Changes hold and are made durable as those of `users`.

Source: RocketMQ `AuthorizationMetadataManagerImpl`, `Acl`, `Policy`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from sprocket.base.errors import StoreError
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import Acl, AclPolicy, AclResource, PolicyEntry, PolicyType
from sprocket.rocketmq.store.rights_tables import RightsTables

Done = Callable[[StoreError | None], None]
Keep = Callable[[Callable[[], None], Done], None]


class Acls:
    """The table of policies.

    Args:
        tables: Where they are kept.
        keep: Runs a change of the tables elsewhere, and tells how it went.
        changed: Told the subject whose rights may be others now.
    Threads: event loop only.
    """

    def __init__(self, tables: RightsTables, keep: Keep, changed: Callable[[str], None]) -> None:
        self._tables = tables
        self._keep = keep
        self._changed = changed
        self._by_subject = {acl.subject: acl for acl in tables.acls()}

    def get(self, subject: str) -> Acl | None:
        """Return all policies of a subject; None if it has none."""
        return self._by_subject.get(subject)

    def all(self, subject_part: str = "", resource_part: str = "") -> list[Acl]:
        """Return the policies of those subjects whose names contain a part.

        Of these, the entries whose resources contain the other part; all of them if the subject
        contains it as well.
        """
        found = []
        for subject, acl in sorted(self._by_subject.items()):
            if subject_part not in subject:
                continue
            if resource_part not in subject:
                acl = _part_of(acl, resource_part)
            if acl.policies:
                found.append(acl)
        return found

    def put(self, subject: str, policies: Sequence[AclPolicy], done: Done) -> None:
        """Add policies; an entry takes the place of the old one with the same resource."""
        old = self._by_subject.get(subject, Acl(subject, ()))
        self.replace(Acl(subject, _merged(old.policies, policies)), done)

    def replace(self, acl: Acl, done: Done) -> None:
        """Have a subject have just these policies."""
        self._by_subject[acl.subject] = acl
        self._changed(acl.subject)
        self._keep(partial(self._tables.put_acl, acl), done)

    def delete(
        self, subject: str, kind: PolicyType, resource: AclResource | None, done: Done
    ) -> None:
        """Delete the entry of a resource in a policy, or all policies of a subject.

        Raises:
            Refused: The subject has no policies.
        """
        old = self._by_subject.get(subject)
        if old is None:
            raise Refused(Refusal.NO_PERMISSION, "The acl is not exist.")
        left = () if resource is None else _without(old.policies, kind, resource)
        if not left:
            self.forget(subject, done)
            return
        self.replace(Acl(subject, left), done)

    def forget(self, subject: str, done: Done) -> None:
        """Delete all policies of a subject, if it has any."""
        self._by_subject.pop(subject, None)
        self._changed(subject)
        self._keep(partial(self._tables.delete_acl, subject), done)


def _merged(old: Sequence[AclPolicy], new: Sequence[AclPolicy]) -> tuple[AclPolicy, ...]:
    """Return policies with the entries of others, each resource once."""
    by_type: dict[PolicyType, dict[AclResource, PolicyEntry]] = {}
    for policy in (*old, *new):
        entries = by_type.setdefault(policy.type, {})
        entries.update((entry.resource, entry) for entry in policy.entries)
    return tuple(AclPolicy(kind, tuple(entries.values())) for kind, entries in by_type.items())


def _without(
    policies: Sequence[AclPolicy], kind: PolicyType, resource: AclResource
) -> tuple[AclPolicy, ...]:
    """Return policies without one entry, and without a policy that has no other."""
    left = []
    for policy in policies:
        if policy.type is kind:
            kept = tuple(entry for entry in policy.entries if entry.resource != resource)
            policy = replace(policy, entries=kept)
        if policy.entries:
            left.append(policy)
    return tuple(left)


def _part_of(acl: Acl, resource_part: str) -> Acl:
    """Return the entries whose resources contain a text."""
    policies = (
        replace(
            policy,
            entries=tuple(one for one in policy.entries if resource_part in str(one.resource)),
        )
        for policy in acl.policies
    )
    return Acl(acl.subject, tuple(policy for policy in policies if policy.entries))
