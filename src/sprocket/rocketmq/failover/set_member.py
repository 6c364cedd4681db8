"""A member of a set that runs: asks the decider what the table of states wants, and tells it.

    decider.watch ──► Mastership ──► calls and renewals ──► decider
                         ▲    │
      log, slaves ───────┘    └──► `changed`: role, who must have a message, deadline

Renewals have a task of their own each: whatever else waits, they are sent in time.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rocketmq.failover.alone import Alone
from sprocket.rocketmq.failover.decider import Alter, Decider, Renew, Ruling, Take, Verdict
from sprocket.rocketmq.failover.mastership import Call, Mastership, Phase, ReadBack, Role
from sprocket.rocketmq.failover.values import (
    Leader,
    LogState,
    Member,
    MemberAddresses,
    MemberId,
    MemberReport,
    SetState,
    SetView,
)
from sprocket.runtime.tasks import Tasks, is_set_within

REPORT_SECONDS: Final = 5.0
"""How often a member says what it is if nothing has changed; else as often as it renews."""

_log = log.get_logger(__name__)


class Switch(Struct, frozen=True, kw_only=True):
    """When and why this member became master, or ceased to be."""

    at_ms: int
    """Wall time; 0 if it never did."""
    epoch: int
    why: str


class SetStatus(Struct, frozen=True, kw_only=True):
    """What a member knows of its set."""

    member: Member
    phase: Phase
    why: str
    """What has brought it there."""
    epoch: int
    """Of this member, while it leads; 0 else."""
    state: SetState | None
    leader: Leader | None
    reports: Mapping[MemberId, MemberReport]
    switched: Switch
    joining: frozenset[Member]
    """Slaves that are waited for and are not in sync yet."""


Told = Callable[[str], None]
"""Told why something was not done, or nothing."""


class SetMember:
    """See the head of the module.

    Args:
        mastership: The table.
        decider: Whom it agrees with others by; closed at the end.
        addresses: Where this member is reached.
        progress: Tells of the log here; None while it is not open.
        changed: Called when `role`, `must` or `state` may have changed.
        clock: For wall times.
        now: Seconds on the clock of deadlines.
        report_seconds: How often changes of the log are reported.

    Attributes:
        switched: When it was that this member became master, or ceased to be.

    Threads: event loop only.
    """

    def __init__(
        self,
        mastership: Mastership,
        decider: Decider,
        addresses: MemberAddresses,
        progress: Callable[[], LogState | None],
        changed: Callable[[], None],
        clock: Clock,
        *,
        now: Callable[[], float],
        report_seconds: float,
    ) -> None:
        self.mastership = mastership
        self.switched = Switch(at_ms=0, epoch=0, why="")
        self._decider = decider
        self._addresses = addresses
        self._progress = progress
        self._changed = changed
        self._clock = clock
        self._now = now
        self._report_seconds = report_seconds
        self._news = asyncio.Event()
        self._alone = Alone()
        self._known: tuple[Phase, int, frozenset[Member], SetState | None, bool] | None = None
        self._tasks = Tasks("set member")

    @property
    def role(self) -> Role:
        """What the broker is to be."""
        return self.mastership.role

    @property
    def is_led_by_another(self) -> bool:
        """Whether somebody else is master, as far as this member knows."""
        return self.mastership.master is not None

    @property
    def may_acknowledge(self) -> bool:
        """Whether what all in `Mastership.must` have may be acknowledged now."""
        return self.mastership.may_acknowledge(self._now())

    @property
    def takes_sends(self) -> bool:
        """Whether senders are served: not while this member hands over, or may not be master."""
        return self.may_acknowledge and not self.mastership.hands_over

    def start(self) -> None:
        """Begin."""
        self._tasks.spawn(self._watch(), "watch")
        self._tasks.spawn(self._keep(), "keep")
        self._tasks.spawn(self._report(), "report")

    async def stop(self) -> None:
        """Ask nothing more. The lease is left to end by itself, unless it was handed over."""
        await self._tasks.close()
        await self._decider.close()

    def opened(self, epoch: int) -> None:
        """Note that the broker is open as the master of an epoch."""
        self.mastership.opened(epoch, self._now())
        self._look()

    def outrun(self, epoch: int) -> None:
        """Note that a slave knows of a later epoch: see at once who is master."""
        _log.warning("a slave knows of a later epoch", epoch=epoch, own=self.mastership.epoch)
        self.mastership.read_soon()
        self._news.set()

    def heard(self, member: Member, epoch: int, end: int, tables: int) -> None:
        """Note up to where a slave has the log, and which version of the tables, as it says."""
        self.mastership.heard(member, epoch, end, self._now(), tables)

    # What operators ask.

    def status(self) -> SetStatus:
        """Return what this member knows of its set."""
        table = self.mastership
        return SetStatus(
            member=table.me,
            phase=table.phase,
            why=table.why,
            epoch=table.epoch,
            state=table.state,
            leader=None if table.view is None else table.view.leader,
            reports={} if table.view is None else table.view.reports,
            switched=self.switched,
            joining=table.must - (frozenset() if table.state is None else table.state.in_sync),
        )

    def hand_over(self) -> str:
        """Begin to hand over; return why not, or nothing."""
        self._look()  # slaves are to have the tables as they are now
        why = self.mastership.hand_over(self._now())
        self._look()
        return why

    def begin_set(self, members: Collection[MemberId], in_sync_min: int, done: Told) -> None:
        """Write who is in sync at first; `done` is told why not, or nothing.

        Those that are given must have said what they are; if they are several, with the same log.
        """
        self._tasks.spawn(self._begin_set(members, in_sync_min, done), "begin set")

    def designate(self, done: Told) -> None:
        """Have this member be the only one in sync, whatever it lacks; `done` as for `begin_set`.

        What others have acknowledged without it is lost.
        """
        self._tasks.spawn(self._designate(done), "designate")

    async def _begin_set(self, members: Collection[MemberId], in_sync_min: int, done: Told) -> None:
        view = await self._decider.read()
        if view is None:
            done("the decider does not answer")
            return
        found = [view.reports[one] for one in members if one in view.reports]
        missing = sorted(set(members) - {one.member.id for one in found})
        if view.state is not None:
            done("the set has begun already")
        elif missing or not found:
            done(f"members that say nothing of themselves: {missing or 'all'}")
        elif len({one.length for one in found}) > 1:
            done("their logs differ: begin with the one that is right, the others follow it")
        else:
            await self._init(view, frozenset(one.member for one in found), in_sync_min, done)

    async def _designate(self, done: Told) -> None:
        view = await self._decider.read()
        if view is None:
            done("the decider does not answer")
        elif view.state is None:
            done("the set has not begun")
        elif view.leader is not None and not self.mastership.keeps_set:
            done(f"member {view.leader.member.id} is master")
        else:
            me = frozenset({self.mastership.me})
            _log.warning("an operator makes this member master, whatever it lacks")
            await self._init(view, me, view.state.in_sync_min, done)

    async def _init(
        self, view: SetView, in_sync: frozenset[Member], in_sync_min: int, done: Told
    ) -> None:
        """Write a state on an operator's word; its epoch is the greatest that anybody knows."""
        epochs = [one.epoch for one in view.reports.values()]
        before = view.state
        if before is not None:
            epochs.append(before.epoch)
        state = SetState(
            epoch=max(epochs, default=0),
            master=None if before is None else before.master,
            in_sync=in_sync,
            in_sync_min=in_sync_min,
        )
        ruling = await self._decider.init(state, seen_revision=view.state_revision)
        done("" if ruling.verdict is Verdict.DONE else f"it was not written: {ruling.why}")

    async def _watch(self) -> None:
        async for view in self._decider.watch():
            self.mastership.viewed(view, self._now())
            self._look()

    async def _keep(self) -> None:
        while True:
            self._news.clear()
            self._look()
            now = self._now()
            await is_set_within(self.mastership.wakes_at(now) - now, self._news)

    def _look(self) -> None:
        """Begin what is due, and tell what has changed."""
        now, table = self._now(), self.mastership
        found = self._progress()
        if found is None:
            table.closed()
        else:
            table.progressed(found)
        renewal = table.renewal(now)
        if renewal is not None:
            self._tasks.spawn(self._renew(renewal, now), "renew")
        call = table.call(now)
        if call is not None:
            self._tasks.spawn(self._ask(call), type(call).__name__)
        is_master = table.phase is Phase.MASTER
        self._alone.look(table.needed.in_sync_count if is_master else 0, now)
        self._tell()

    async def _renew(self, call: Renew, sent_at: float) -> None:
        try:
            ruling = await self._decider.renew(call)
        except Exception as error:  # the next one is sent all the same
            ruling = _failed(error)
        self.mastership.renewed(call, ruling, sent_at, self._now())
        self._wake()

    async def _ask(self, call: Call) -> None:
        if isinstance(call, ReadBack):
            view = None
            try:
                view = await self._decider.read()
            except Exception as error:  # it is read again
                _failed(error)
            self.mastership.read(view, self._now())
        else:
            try:
                ruling = await self._decide(call)
            except Exception as error:  # how it ended is read
                ruling = _failed(error)
            self.mastership.answered(call, ruling, self._now())
        self._wake()

    async def _decide(self, call: Take | Alter) -> Ruling:
        if isinstance(call, Take):
            return await self._decider.take(call)
        return await self._decider.alter(call)

    def _wake(self) -> None:
        self._tell()
        self._news.set()

    def _tell(self) -> None:
        table = self.mastership
        known = table.phase, table.epoch, table.must, table.state, table.hands_over
        before, self._known = self._known, known
        if known == before:
            return
        if before is None or before[:2] != known[:2]:
            self._note(Phase.FOLLOW if before is None else before[0])
        self._changed()

    def _note(self, before: Phase) -> None:
        """Say what this member is now."""
        table = self.mastership
        if before is Phase.MASTER or table.phase is Phase.MASTER:
            self.switched = Switch(at_ms=self._clock.now_ms(), epoch=table.epoch, why=table.why)
        say = _log.warning if table.phase is Phase.FENCED else _log.info
        say(
            "the set has changed",
            phase=table.phase.name,
            before=before.name,
            epoch=table.epoch,
            why=table.why,
        )

    async def _report(self) -> None:
        told: MemberReport | None = None
        told_at = 0.0
        while True:
            await asyncio.sleep(self._report_seconds)
            found, now = self._progress(), self._now()
            if found is None:
                continue
            report = MemberReport(
                member=self.mastership.me,
                addresses=self._addresses,
                epoch=found.epoch,
                end=found.end,
            )
            if report != told or now - told_at >= REPORT_SECONDS:
                told_at = now
                told = report if await self._decider.report(report) else None


def _failed(error: Exception) -> Ruling:
    """Return what a call has come to that raised, against its contract."""
    _log.error("the decider failed", exc_info=error)
    return Ruling(verdict=Verdict.UNKNOWN, why=str(error))
