"""Decides whether a user may do what a request needs.

A super user may do everything. For others each need is looked up in their policies: of the entries
that cover its resource, one of its actions and the client's address, the most specific decides, and
of two that are equally specific the one that denies. The default policy is looked at where no entry
of the custom one matches. Where none matches at all it is refused.

Source: RocketMQ `AclAuthorizationHandler`, `UserAuthorizationHandler`. It takes the shorter of two
prefixes; see `AclResource.rank`.
"""

from collections.abc import Callable, Iterable, Sequence

from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import (
    Acl,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    Requirement,
    UserType,
)


class Authorizer:
    """Decides by policies.

    Args:
        policies: Gives those of a subject.
        needed: Says what is asked for where a request needs something; by default just that.
    Threads: event loop only.
    """

    def __init__(
        self,
        policies: Callable[[str], Acl | None],
        needed: Callable[[Requirement], Requirement] = lambda need: need,
    ) -> None:
        self._policies = policies
        self._needed = needed
        self._ranked: dict[str, _Ranked] = {}

    def forget(self, subject: str) -> None:
        """Take notice that the rights of a subject may be others."""
        self._ranked.pop(subject, None)

    def forget_all(self) -> None:
        """Take notice that all rights may be others."""
        self._ranked.clear()

    def check(self, user: AclUser, needs: Iterable[Requirement], address: str) -> None:
        """Return if a user may do what a request needs.

        Args:
            user: Who asks.
            needs: All of which must be allowed.
            address: The client's, without a port.

        Raises:
            Refused: It may not; the remark says what.
        """
        if user.type is not UserType.SUPER:
            ranked = self._ranked.get(user.subject)
            if ranked is None:
                ranked = self._ranked[user.subject] = _Ranked(self._policies(user.subject))
            for need in needs:
                why = ranked.refusal(self._needed(need), address)
                if why is not None:
                    raise Refused(
                        Refusal.NO_PERMISSION,
                        f"{user.subject} has no permission to access {need.resource} from "
                        f"{address}, {why}",
                    )


class _Ranked:
    """The policies of a subject, the most specific entries first."""

    def __init__(self, acl: Acl | None) -> None:
        found = {} if acl is None else {policy.type: policy.entries for policy in acl.policies}
        self._policies = [
            _by_rank(found.get(kind, ())) for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT)
        ]

    def refusal(self, need: Requirement, address: str) -> str | None:
        """Return why a need is refused, None if it is allowed."""
        for entries in self._policies:
            for entry in entries:
                if _matches(entry, need, address):
                    return None if entry.decision is Decision.ALLOW else "the decision is deny."
        return "no matched policies."


def _by_rank(entries: Sequence[PolicyEntry]) -> list[PolicyEntry]:
    def rank(entry: PolicyEntry) -> tuple[tuple[int, int, int], bool]:
        return entry.resource.rank, entry.decision is Decision.DENY

    return sorted(entries, key=rank, reverse=True)


def _matches(entry: PolicyEntry, need: Requirement, address: str) -> bool:
    return (
        entry.resource.covers(need.resource)
        and (Action.ALL in entry.actions or any(one in entry.actions for one in need.actions))
        and (not entry.source_ips or rights.is_from(address, entry.source_ips))
    )
