"""Whether this member is master: a table of states, without I/O.

    FOLLOW ──► CANDIDATE ──► OPENING ──► MASTER ◄──► FENCED ──► FOLLOW

It is told what happens (`viewed`, `answered`, `renewed`, `heard`, …) and asked what is to be done:
`role` is what the broker is to be, `call` and `renewal` what the decider is to be asked, `must` who
must have a message before it is acknowledged. Times are seconds of `values.Deadline`'s clock.

Invariants

1. A member stands only if it is in sync: then it has all that was ever acknowledged.
2. In sync are, for acknowledging, all that **may** be in sync for the decider: those of the state
   as it was written last, of each change whose end is not known, and those that join. A change
   whose end is unknown stays open until the state has another revision: a decider may carry it out
   after it was read (see `decider`). Whoever reads the old revision writes once more.
3. A member joins before the decider is asked to add it: from then on nothing is acknowledged
   without it, and it is added once it has all that was acknowledged before.
4. The deadline counts from when a renewal was **sent**. After it nothing is acknowledged; the lease
   is not given up. Is it renewed after all, and the leader the same, the member is master again.
5. The epoch is greater than that of the state and of this log.

The deadline bounds how long an old master can show old messages. What was acknowledged is safe
without it: whoever is in sync takes part in each acknowledgement, and in none of an older epoch.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct, structs

from sprocket.base.units import MIB
from sprocket.rocketmq.failover.decider import Alter, Renew, Ruling, Take, Verdict
from sprocket.rocketmq.failover.values import (
    Deadline,
    Leader,
    LogState,
    Member,
    MemberAddresses,
    SetState,
    SetView,
    Tenure,
)

RETRY_SECONDS: Final = 0.2
"""After what is not known is it asked again."""
LOOK_SECONDS: Final = 0.1
"""How often it is looked whether anything is due, as a slave has caught up, or is silent."""
JOIN_SILENCE_SECONDS: Final = 2.0
"""A slave that gets no further for so long does not join."""
TABLES_SECONDS: Final = 1.0
"""How long a master that hands over waits for slaves that have all of the log, and not all else."""
OWN_EPOCHS: Final = 64
"""Where nobody decides between two masters, their epochs differ modulo this."""
JOIN_BYTES_MAX: Final = 4 * MIB
"""A slave that lacks no more joins: senders wait for as long as it takes it to get that."""


class Phase(Enum):
    """What a member is, see the head of the module."""

    FOLLOW = auto()
    """A slave, of whoever is master."""
    CANDIDATE = auto()
    """A slave that wants to be master."""
    OPENING = auto()
    """The decider says that it is master, and the broker is not open as one yet."""
    MASTER = auto()
    FENCED = auto()
    """It could not renew in time, and may be master still: it serves nobody."""


class Happening(Enum):
    """What changes the phase."""

    LEADER_GONE = auto()
    """Nobody is master, and this one may be."""
    OUT = auto()
    """Somebody is master, or this one may not be."""
    TAKEN = auto()
    OPENED = auto()
    EXPIRED = auto()
    """The deadline has passed."""
    RENEWED = auto()
    """After that it was renewed, and the leader is still this one."""
    LOST = auto()
    """This one is not the leader any more."""


NEXT: Final[Mapping[tuple[Phase, Happening], Phase]] = {
    (Phase.FOLLOW, Happening.LEADER_GONE): Phase.CANDIDATE,
    (Phase.CANDIDATE, Happening.OUT): Phase.FOLLOW,
    (Phase.CANDIDATE, Happening.TAKEN): Phase.OPENING,
    (Phase.OPENING, Happening.OPENED): Phase.MASTER,
    (Phase.OPENING, Happening.LOST): Phase.FOLLOW,
    (Phase.MASTER, Happening.EXPIRED): Phase.FENCED,
    (Phase.MASTER, Happening.LOST): Phase.FENCED,
    (Phase.FENCED, Happening.RENEWED): Phase.MASTER,
    (Phase.FENCED, Happening.LOST): Phase.FOLLOW,
}
"""Anything else is a mistake of ours."""


class RoleKind(Enum):
    """What a broker is opened as."""

    SLAVE = auto()
    MASTER = auto()
    FENCED = auto()
    """A master that serves nobody."""


class Role(Struct, frozen=True):
    """What the broker is to be now."""

    kind: RoleKind
    epoch: int = 0
    """Of a master."""


class Timing(Struct, frozen=True, kw_only=True):
    """How long things may take, in seconds."""

    ttl: float = 5.0
    """A lease lives so long after it was renewed."""
    renewal: float = 0.5
    """How often it is renewed."""
    margin: float = 1.0
    """So long before the lease can end a master stops."""
    yielding: float = 0.3
    """How long others are waited for that have a longer log."""
    silence: float = 10.0
    """A slave that says nothing for so long is not in sync."""
    hand_over: float = 10.0
    """How long a master tries to hand over; and how long it does not stand afterwards, unless
    another one led meanwhile."""


class Needed(Struct, frozen=True, kw_only=True):
    """Who must have a message before it is acknowledged."""

    members: frozenset[Member] = frozenset()
    """Besides the master: those in sync, and those that may be so for the decider."""
    in_sync_count: int = 1
    """How many are in sync, the master among them."""
    in_sync_min: int = 1
    """With fewer nothing is acknowledged."""


class ReadBack(Struct, frozen=True):
    """Ask the decider what holds."""


Call = Take | Alter | ReadBack


class _Heard(Struct):
    """What a slave has said in this epoch."""

    end: int
    at: float
    """When it had more than before last, or all that there was."""
    tables: int = 0


class Mastership:
    """See the head of the module.

    Args:
        me: This member.
        addresses: Where it is reached.
        process: Different for each process; what it tries is recognised by it.
        timing: The decider's lease, and what depends on it.
        keeps_set: Whether nobody leaves the set by itself: there is nobody who decides between two
            masters, so each has epochs of its own, and waits for all that were ever in sync.

    Attributes:
        phase: What it is.
        why: What has brought it there, for people.
        tenure: Of this member, while it leads.
        epoch: The same; 0 else.
        deadline: After it nothing is acknowledged.
        view: What the decider said last.
    """

    def __init__(
        self,
        me: Member,
        addresses: MemberAddresses,
        process: str,
        timing: Timing | None = None,
        *,
        keeps_set: bool = False,
    ) -> None:
        self.me = me
        self.phase = Phase.FOLLOW
        self.why = "it was started"
        self.tenure: Tenure | None = None
        self.epoch = 0
        self.deadline = Deadline(0.0)
        self.view: SetView | None = None
        self._addresses = addresses
        self._process = process
        self._timing = timing or Timing()
        self.keeps_set = keeps_set
        self._log: LogState | None = None
        self._confirmed = 0
        self._end = 0
        # What it has asked.
        self._call: Call | None = None
        self._call_at = 0.0
        self._asked_at = 0.0
        """Before then nothing is asked, as something failed lately."""
        self._must_read = True
        self._renews = False
        self._renewal_at = 0.0
        self._tries = 0
        self._attempts: dict[str, int] = {}
        """What may have succeeded, and the revision of the state that it stands on."""
        self._stands_at = self._rests_until = 0.0
        # While it leads.
        self._leader: Leader | None = None
        self._decider_id = ""
        self._state = SetState(epoch=0, master=None, in_sync=frozenset(), in_sync_min=1)
        self._state_revision = 0
        self._open: list[SetState] = []
        self._joining: set[Member] = set()
        self._heard: dict[Member, _Heard] = {}
        self._is_renewed = False
        self._hands_over_until = 0.0
        self._handed_tables = 0
        """The version of the tables that others are to have before this one hands over."""

    # What others ask.

    @property
    def role(self) -> Role:
        """What the broker is to be now."""
        if self.phase in (Phase.OPENING, Phase.MASTER):
            return Role(RoleKind.MASTER, self.epoch)
        if self.phase is Phase.FENCED:
            return Role(RoleKind.FENCED, self.epoch)
        return Role(RoleKind.SLAVE)

    @property
    def master(self) -> Leader | None:
        """Whom a slave follows; None if nobody is known to be master."""
        leader = None if self.view is None or self.tenure is not None else self.view.leader
        return None if leader is None or leader.member == self.me else leader

    @property
    def state(self) -> SetState | None:
        """What is known of the set; None before anything is."""
        if self.tenure is not None:
            return self._state
        return None if self.view is None else self.view.state

    @property
    def must(self) -> frozenset[Member]:
        """Which others must have a message before it is acknowledged."""
        every = self._state.in_sync.union(self._joining, *(one.in_sync for one in self._open))
        return every - {self.me}

    @property
    def needed(self) -> Needed:
        """Who must have a message, and whether enough are in sync."""
        state = self._state
        return Needed(
            members=self.must, in_sync_count=len(state.in_sync), in_sync_min=state.in_sync_min
        )

    @property
    def hands_over(self) -> bool:
        """Whether no more is to be taken from senders, as another one is to be master."""
        return self._hands_over_until > 0

    def may_acknowledge(self, now: float) -> bool:
        """Say whether anything may be acknowledged that all in `must` have."""
        return (
            self.phase is Phase.MASTER
            and now < self.deadline
            and len(self._state.in_sync) >= self._state.in_sync_min
        )

    # What it is told by the broker and its links.

    def closed(self) -> None:
        """Note that no broker is open here: it does not stand."""
        self._log = None

    def progressed(self, log: LogState) -> None:
        """Note what the log here is like."""
        self._log = log
        self._end, self._confirmed = log.end, log.confirmed

    def opened(self, epoch: int, now: float) -> None:
        """Note that the broker is open as the master of an epoch."""
        if self.phase is Phase.OPENING and epoch == self.epoch:
            self._go(Happening.OPENED, "the broker is open")
            self.advance(now)

    def heard(self, member: Member, epoch: int, end: int, now: float, tables: int = 0) -> None:
        """Note what a slave has said: up to where it has the log, in which epoch; and tables."""
        if self.tenure is None or epoch != self.epoch:
            return
        known = self._heard.get(member)
        if known is not None:
            known.tables = tables
        if known is None:
            self._heard[member] = _Heard(end, now, tables)
        elif end > known.end or end >= self._end:
            known.end, known.at = max(known.end, end), now

    def reached(self) -> int:
        """Return up to where everybody in `must` has the log, as far as they have said."""
        heard = self._heard
        return min((heard[one].end if one in heard else 0 for one in self.must), default=self._end)

    def read_soon(self) -> None:
        """Have it read what holds, as somebody says that it is not as known."""
        self._must_read = True

    def hand_over(self, now: float) -> str:
        """Begin to hand over to a slave that is in sync; return why not, or nothing."""
        if self.phase is not Phase.MASTER:
            return f"this member is not master: {self.phase.name}"
        if self._state.in_sync == {self.me}:
            return "no slave is in sync"
        self._hands_over_until = now + self._timing.hand_over
        self._handed_tables = 0 if self._log is None else self._log.tables
        return ""

    def advance(self, now: float) -> None:
        """Let time pass."""
        if self.phase is Phase.MASTER and now >= self.deadline:
            self._go(Happening.EXPIRED, "the lease could not be renewed in time")
        if self._hands_over_until and now >= self._hands_over_until:
            self._hands_over_until = 0.0
        if self.view is not None and self.tenure is None:
            self._stand(self.view, now)

    # What the decider is asked, and what it says.

    def wakes_at(self, now: float) -> float:
        """Return when something is due next, if nothing happens before."""
        times = [now + LOOK_SECONDS]
        if self.tenure is not None and not self._renews:
            times.append(self._renewal_at)
        if self.phase is Phase.MASTER:
            times.append(self.deadline)
        if self._call is None and self._must_read:
            times.append(self._asked_at)
        elif self._call is None and self.phase is Phase.CANDIDATE:
            times.append(max(self._stands_at, self._asked_at))
        return max(now, min(times))

    def renewal(self, now: float) -> Renew | None:
        """Return the renewal that is due; `renewed` is to be told how it ends."""
        if self.tenure is None or self._renews or now < self._renewal_at:
            return None
        self._renews = True
        self._renewal_at = now + self._timing.renewal
        return Renew(tenure=self.tenure)

    def renewed(self, call: Renew, ruling: Ruling, sent_at: float, now: float) -> None:
        """Take how a renewal ended that was sent at a time."""
        if self.tenure is None or call.tenure != self.tenure:
            return
        self._renews = False
        if ruling.verdict is Verdict.LOST:
            self._lose(f"the lease has ended: {ruling.why}", now)
        elif ruling.verdict is Verdict.DONE:
            self._extend(sent_at)
            if self.phase is Phase.FENCED and now < self.deadline:
                self._is_renewed = self._must_read = True

    def call(self, now: float) -> Call | None:
        """Return what the decider is to be asked now; `answered` is to be told how it ends."""
        self.advance(now)
        if self._call is not None or now < self._asked_at:
            return None
        if self._must_read:
            self._call = ReadBack()
        elif self.phase is Phase.CANDIDATE:
            self._call = self._take(now)
        elif self.phase is Phase.MASTER:
            self._call = self._change(now)
        self._call_at = now
        return self._call

    def answered(self, call: Take | Alter, ruling: Ruling, now: float) -> None:
        """Take how a call ended."""
        assert call is self._call, "an answer to something that is not asked"
        self._call = None
        if isinstance(call, Take):
            self._answered_take(call, ruling, now)
        elif self.tenure is not None and call.tenure == self.tenure:
            self._answered_change(call, ruling, now)

    def read(self, view: SetView | None, now: float) -> None:
        """Take what a `ReadBack` has given, None if nothing."""
        assert isinstance(self._call, ReadBack), "nothing was to be read"
        self._call = None
        if view is None:
            self._asked_at = now + RETRY_SECONDS
            return
        self._must_read = False
        self.viewed(view, now)
        if self._is_renewed and self.phase is Phase.FENCED and now < self.deadline:
            self._go(Happening.RENEWED, "the lease was renewed after all")
        self._is_renewed = False

    def viewed(self, view: SetView, now: float) -> None:
        """Take what the decider says; what is older than what is known is left out."""
        known = self.view
        if known and known.decider_id == view.decider_id and known.revision > view.revision:
            return
        self.view = view
        if self.tenure is None:
            self._stand(view, now)
        elif view.decider_id != self._decider_id or view.revision >= self.tenure.revision:
            self._check(view, now)

    # How it becomes master.

    def _stand(self, view: SetView, now: float) -> None:
        """Become a candidate, or none, as a view says; or master, if it shows an own attempt."""
        leader = view.leader
        if (
            leader is not None
            and view.tenure is not None
            and view.state is not None
            and leader.attempt in self._attempts
        ):
            if self.phase is Phase.FOLLOW:
                self._go(Happening.LEADER_GONE, "an attempt has succeeded")
            self._lead(leader, view.tenure, view.state, view.state_revision)
            return
        if leader is not None and leader.member != self.me:
            self._rests_until = 0.0
        may = (
            leader is None
            and view.state is not None
            and self.me in view.state.in_sync
            and self._log is not None
            and now >= self._rests_until
        )
        if may and self.phase is Phase.FOLLOW:
            self._go(Happening.LEADER_GONE, "nobody is master")
            yields = self._timing.yielding if self._has_less(view) else 0.0
            self._stands_at = now + yields
        elif not may and self.phase is Phase.CANDIDATE:
            self._go(Happening.OUT, "somebody is master" if leader else "it may not be master")

    def _has_less(self, view: SetView) -> bool:
        """Say whether another one in sync has a longer log."""
        assert view.state is not None, "asked of a candidate"
        assert self._log is not None, "the same"
        others = (one for one in view.reports.values() if one.member in view.state.in_sync)
        own = self._log.epoch, self._log.end
        return any(one.length > own for one in others)

    def _take(self, now: float) -> Take | None:
        view = self.view
        if view is None or view.state is None or self._log is None or now < self._stands_at:
            return None
        self._tries += 1
        epoch = self._epoch_after(max(view.state.epoch, self._log.promised))
        leader = Leader(
            member=self.me,
            addresses=self._addresses,
            epoch=epoch,
            attempt=f"{self._process}-{self._tries}",
        )
        seen = view.state_revision
        self._attempts = {one: at for one, at in self._attempts.items() if at == seen}
        self._attempts[leader.attempt] = seen
        in_sync = view.state.in_sync if self.keeps_set else frozenset({self.me})
        state = structs.replace(view.state, epoch=epoch, master=self.me, in_sync=in_sync)
        return Take(leader=leader, state=state, seen=view.state, seen_revision=seen)

    def _epoch_after(self, epoch: int) -> int:
        """Return a later one, which no other member begins."""
        if not self.keeps_set:
            return epoch + 1
        return epoch + 1 + (self.me.id - epoch - 1) % OWN_EPOCHS

    def _answered_take(self, call: Take, ruling: Ruling, now: float) -> None:
        if ruling.verdict is Verdict.DONE and ruling.tenure == self.tenure:
            self._extend(self._call_at)  # a view has shown it before
            return
        if ruling.verdict is Verdict.DONE and self.tenure is None:
            assert ruling.tenure is not None, "who becomes master has a lease"
            if self.phase is Phase.FOLLOW:
                self._go(Happening.LEADER_GONE, "an attempt has succeeded")
            self._lead(call.leader, ruling.tenure, call.state, ruling.state_revision)
            self._extend(self._call_at)
            if self.view is not None:
                self.viewed(self.view, now)
            return
        self._must_read = True
        self._asked_at = now + RETRY_SECONDS

    def _lead(self, leader: Leader, tenure: Tenure, state: SetState, revision: int) -> None:
        """Begin to be master, from an answer or a view."""
        self._go(Happening.TAKEN, "nobody was master")
        self._leader, self.tenure, self.epoch = leader, tenure, leader.epoch
        self._decider_id = "" if self.view is None else self.view.decider_id
        self._state, self._state_revision = state, revision
        self._renewal_at, self._renews, self._is_renewed = 0.0, False, False
        self.deadline = Deadline(0.0)

    def _extend(self, sent_at: float) -> None:
        until = sent_at + self._timing.ttl - self._timing.margin
        self.deadline = Deadline(max(self.deadline, until))

    # How it changes the set.

    def _change(self, now: float) -> Alter | None:
        """Return what is to be changed: who is in sync, or the leader."""
        assert self.tenure is not None, "a master has one"
        assert self._leader is not None, "the same"
        # In this order: `confirmed` was told after those joined who may be added now.
        changed = structs.replace(self._state, in_sync=self._in_sync(now))
        self._join(now)
        wanted: SetState | None = None
        if self._open or changed != self._state:
            self._open = [*(one for one in self._open if one != changed), changed]
            wanted = changed
        elif not (self.hands_over and self._can_hand_over(now)):
            return None
        return Alter(
            leader=self._leader,
            tenure=self.tenure,
            state=wanted,
            seen=self._state,
            seen_revision=self._state_revision,
        )

    def _join(self, now: float) -> None:
        """See who joins: whoever lacks little of what was acknowledged, and goes on reporting."""
        for member, heard in self._heard.items():
            lacks = self._confirmed - heard.end
            if member in self._state.in_sync or self._is_silent(member, now):
                self._joining.discard(member)
            elif lacks <= JOIN_BYTES_MAX:
                self._joining.add(member)

    def _in_sync(self, now: float) -> frozenset[Member]:
        """Return who is to be in sync."""
        ready = {
            one
            for one in self._joining
            if self._heard[one].end >= self._confirmed and not self._is_silent(one, now)
        }
        every = self._state.in_sync | ready
        if self.keeps_set:
            replaced = {one.id for one in ready}
            return frozenset(one for one in every if one in ready or one.id not in replaced)
        silence = self._timing.silence
        return frozenset(
            one
            for one in every
            if one in ready or one == self.me or not self._is_silent(one, now, silence)
        )

    def _can_hand_over(self, now: float) -> bool:
        """Say whether every slave in sync has everything, and has said so lately.

        Of tables what there was when this began: consumers go on committing, and do so again. They
        are not waited for for long.
        """
        slaves = self.must
        begun = self._hands_over_until - self._timing.hand_over
        tables = self._handed_tables if now < begun + TABLES_SECONDS else 0
        return bool(slaves) and all(
            not self._is_silent(one, now)
            and self._heard[one].end >= self._end
            and self._heard[one].tables >= tables
            for one in slaves
        )

    def _is_silent(self, member: Member, now: float, seconds: float = JOIN_SILENCE_SECONDS) -> bool:
        """Say whether a slave has got no further for some time, although there was more."""
        heard = self._heard.get(member)
        return heard is None or now - heard.at >= seconds

    def _answered_change(self, call: Alter, ruling: Ruling, now: float) -> None:
        if ruling.verdict is not Verdict.DONE:
            self._must_read = True
            self._asked_at = now + RETRY_SECONDS
        elif call.state is None:
            self._rests_until = now + self._timing.hand_over
            self._lose("it has handed over", now)
        else:
            self._wrote(call.state, ruling.state_revision)

    def _wrote(self, state: SetState, revision: int) -> None:
        """Note that the state has another revision: what stood on the one before is over.

        Who has left has to be heard again before it joins.
        """
        for one in self._state.in_sync - state.in_sync:
            self._heard.pop(one, None)
        self._state, self._state_revision = state, revision
        self._open.clear()
        self._joining -= state.in_sync

    def _check(self, view: SetView, now: float) -> None:
        """See whether this member still leads, and what became of its changes."""
        if view.decider_id != self._decider_id or view.tenure != self.tenure:
            if self._hands_over_until:
                self._rests_until = now + self._timing.hand_over
            self._lose("another one leads" if view.leader else "the decider forgot its lease", now)
        elif view.state is not None and view.state_revision > self._state_revision:
            self._wrote(view.state, view.state_revision)

    def _lose(self, why: str, now: float) -> None:
        """Note that this member leads no more."""
        if self.phase is Phase.MASTER:
            self._go(Happening.LOST, why)
        self._go(Happening.LOST, why)
        view, tenure = self.view, self.tenure
        if view is not None and tenure is not None and view.revision < tenure.revision:
            self.view = None  # it is from before this member led
        self.tenure = self._leader = None
        self.epoch, self.deadline = 0, Deadline(0.0)
        self._hands_over_until = 0.0
        self._is_renewed = False
        self._must_read = True
        self._open.clear()
        self._joining.clear()
        self._heard.clear()
        self._attempts.clear()
        self.advance(now)

    def _go(self, happening: Happening, why: str) -> None:
        """Go on to the next phase. Raises KeyError if there is none, with this one and what."""
        self.phase = NEXT[self.phase, happening]
        self.why = why
