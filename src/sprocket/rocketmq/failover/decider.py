"""What decides who is master: a store of others that writes under conditions and has leases.

Four calls are made by members: `take`, `renew`, `alter` and `watch` (with `read`, which is a watch
that ends with its first view). `report` says something that nothing stands on, and `init` is the
operator's.

Each call that writes has one of three ends, and none of them is an exception:

* `DONE`: the condition held, and what was to be written is.
* `LOST`: the condition did not hold at the moment when the decider looked. Nothing was written **by
  this call**; one before it whose end is unknown may have been the reason.
* `UNKNOWN`: no answer came in time, or none that says which of the two it was. It may have been
  written, and *it may still be*: a request can lie in a queue and be carried out after the next
  `read`. A view with another revision than the one that the call stood on says that it can not any
  more. One with the same revision says nothing.

Source: what Kubernetes' leases have as well, so that a second decider can follow: a write under the
condition that nothing changed, a text of ours in what is written, and a watch.
"""

from collections.abc import AsyncGenerator
from enum import Enum, auto
from typing import Protocol

from msgspec import Struct

from sprocket.rocketmq.failover.values import Leader, MemberReport, SetState, SetView, Tenure


class Verdict(Enum):
    """How a call ended, see the head of the module."""

    DONE = auto()
    LOST = auto()
    UNKNOWN = auto()


class Ruling(Struct, frozen=True, kw_only=True):
    """The answer to a call that writes."""

    verdict: Verdict
    tenure: Tenure | None = None
    """Of a `take` that is done."""
    state_revision: int = 0
    """At which the state was written, by a `take` or an `alter` that is done."""
    why: str = ""
    """For people: what happened if it is not done."""


class Take(Struct, frozen=True, kw_only=True):
    """Become master.

    Condition: nobody's lease lives, and the state is unchanged since `seen_revision`.
    Writes: the leader, on a new lease, and the state, in one.
    """

    leader: Leader
    state: SetState
    seen: SetState
    seen_revision: int


class Renew(Struct, frozen=True, kw_only=True):
    """Let the lease live for its whole time again.

    Condition: it lives. LOST: it does not, and never will again.
    """

    tenure: Tenure


class Alter(Struct, frozen=True, kw_only=True):
    """Change who is in sync, or hand over.

    Condition: this leader still is, and the state is unchanged since `seen_revision`.
    Writes: the state; or removes the leader, if there is none.
    """

    leader: Leader
    tenure: Tenure
    state: SetState | None
    """What is to be; None removes the leader."""
    seen: SetState
    seen_revision: int


class Decider(Protocol):
    """See the head of the module. Each call has a time limit of its own.

    Threads: event loop only.
    """

    async def take(self, call: Take) -> Ruling:
        """Become master; see `Take`."""

    async def renew(self, call: Renew) -> Ruling:
        """Stay master; see `Renew`."""

    async def alter(self, call: Alter) -> Ruling:
        """Change the set as its master; see `Alter`."""

    async def read(self) -> SetView | None:
        """Return what holds now: not before any write that was answered before this was called.

        None if that cannot be known within the time limit.
        """

    def watch(self) -> AsyncGenerator[SetView, None]:
        """Give what holds, and again each time that it changes, for ever; moments may be left out.

        Whatever cuts it off (a lost connection, another server, a history that was dropped) is
        healed by reading anew.
        """

    async def report(self, report: MemberReport) -> bool:
        """Let others read what a member says of itself; False if it was not written.

        It is forgotten some time after the last call.
        """

    async def init(self, state: SetState, *, seen_revision: int = 0) -> Ruling:
        """Write the state on an operator's word.

        Condition: there is none yet; or, with a revision, nobody's lease lives and the state is
        unchanged since then.
        """

    async def close(self) -> None:
        """Give up all connections."""
