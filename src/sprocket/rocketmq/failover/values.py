"""What a set of machines with the same log says about itself: who is in it, who leads, since when.

The revisions are the decider's: a value that was read at one is unchanged as long as it has it.
"""

import re
from collections.abc import Mapping
from typing import NewType

from msgspec import Struct

from sprocket.base.errors import WireError

MemberId = NewType("MemberId", int)
"""Number of a machine in its set, from 1: the one that it has as a slave (brokerId)."""
Incarnation = NewType("Incarnation", str)
"""Random text, written when a store is made. An emptied disk is another member, although the number
is the same; and so is one that may have lost what it had acknowledged."""
Deadline = NewType("Deadline", float)
"""Seconds on the clock that counts since the machine was booted, its sleep included."""

_MEMBER = re.compile(r"([1-9][0-9]{0,9})/([0-9a-z]{1,64})")


class Member(Struct, frozen=True, order=True):
    """A machine with what it has on its disk."""

    id: MemberId
    incarnation: Incarnation

    def __str__(self) -> str:
        """Return `id/incarnation`, as it is written for the decider."""
        return f"{self.id}/{self.incarnation}"


def member_of(text: str) -> Member:
    """Return the member that a text names.

    Raises:
        WireError: It is not `id/incarnation`.
    """
    found = _MEMBER.fullmatch(text)
    if found is None:
        raise WireError(f"expected a member as number/incarnation, found {text[:80]!r}")
    return Member(MemberId(int(found[1])), Incarnation(found[2]))


class MemberAddresses(Struct, frozen=True, kw_only=True):
    """Where a member is reached, `host:port` each."""

    broker: str
    """By clients."""
    slaves: str
    """By slaves, while it is master."""


class Leader(Struct, frozen=True, kw_only=True):
    """Who is master, for as long as a lease says so."""

    member: Member
    addresses: MemberAddresses
    epoch: int
    attempt: str
    """Different for each time that somebody has tried to become master: whoever does not know how
    that ended recognises their own by it."""


class SetState(Struct, frozen=True, kw_only=True):
    """What outlives every master."""

    epoch: int
    """Of the last master; 0 before the first one."""
    master: Member | None
    """The last one; None before the first one."""
    in_sync: frozenset[Member]
    """Those of whom each has all that was ever acknowledged: only they may become master."""
    in_sync_min: int
    """With fewer in sync nothing is acknowledged."""


class LogState(Struct, frozen=True, kw_only=True):
    """What the log of a member is like, as its broker says."""

    epoch: int
    """The last one in it."""
    promised: int
    """The greatest that it knows of: it follows none before."""
    end: int
    """In bytes."""
    confirmed: int
    """Up to where it was acknowledged, by a master; 0 of a slave."""
    tables: int = 0
    """The version of what a master has beside the log: topics, groups, offsets."""


class MemberReport(Struct, frozen=True, kw_only=True):
    """What a member says of itself: for people, and to choose the one that has most."""

    member: Member
    addresses: MemberAddresses
    epoch: int
    """The last one in its log."""
    end: int
    """Where its log ends, in bytes."""

    @property
    def length(self) -> tuple[int, int]:
        """What is compared to say whose log is longer."""
        return self.epoch, self.end


class Tenure(Struct, frozen=True, kw_only=True):
    """One time that somebody is master, as the decider knows it."""

    revision: int
    """At which it began."""
    lease: int
    """What is renewed."""


class SetView(Struct, frozen=True, kw_only=True):
    """All that a decider knew of a set at one moment."""

    decider_id: str
    """Another one has forgotten what the one before knew: its revisions mean nothing to it."""
    revision: int
    leader: Leader | None
    """None if nobody's lease lives."""
    tenure: Tenure | None
    """The leader's."""
    state: SetState | None
    """None before an operator has said who is in the set."""
    state_revision: int
    """At which the state was written; 0 without one."""
    reports: Mapping[MemberId, MemberReport]
    """What members have said of themselves lately."""
