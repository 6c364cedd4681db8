"""A decider in memory, with leases on the loop's time and links that can be cut, for tests."""

import asyncio
from collections.abc import AsyncGenerator

from sprocket.rocketmq.failover import (
    Alter,
    Leader,
    MemberId,
    MemberReport,
    Renew,
    Ruling,
    SetState,
    SetView,
    Take,
    Tenure,
    Verdict,
)

LOST = Ruling(verdict=Verdict.LOST, why="the condition does not hold")
UNKNOWN = Ruling(verdict=Verdict.UNKNOWN, why="no answer came")
TIMEOUT_SECONDS = 0.4


class MemoryStore:
    """What all deciders of a set share.

    Args:
        state: Of the set, None if no operator has made one.
        ttl_seconds: How long a lease lives.
    """

    def __init__(self, state: SetState | None, ttl_seconds: float = 5.0) -> None:
        self.decider_id = "memory"
        self.revision = 1
        self.state, self.state_revision = state, 0 if state is None else 1
        self.leader: Leader | None = None
        self.tenure: Tenure | None = None
        self.ends_at = 0.0
        self.reports: dict[MemberId, MemberReport] = {}
        self.leaders: list[Leader] = []
        """All that ever were."""
        self._ttl_seconds = ttl_seconds
        self._changed = asyncio.Event()

    def look(self) -> None:
        """End a lease that is over."""
        if self.leader is not None and asyncio.get_running_loop().time() >= self.ends_at:
            self._lead(None, None)

    def view(self) -> SetView:
        """Return what it knows."""
        self.look()
        return SetView(
            decider_id=self.decider_id,
            revision=self.revision,
            leader=self.leader,
            tenure=self.tenure,
            state=self.state,
            state_revision=self.state_revision,
            reports=dict(self.reports),
        )

    def forget(self) -> None:
        """Be emptied."""
        self.decider_id += "'"
        self.state, self.state_revision, self.revision = None, 0, 1
        self._lead(None, None)

    async def wait(self, seconds: float) -> None:
        """Wait until something may have changed."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def take(self, call: Take) -> Ruling:
        """See `Decider`."""
        self.look()
        if self.leader is not None or call.seen_revision != self.state_revision:
            return LOST
        tenure = Tenure(revision=self.revision + 1, lease=self.revision + 1)
        self.leaders.append(call.leader)
        self._lead(call.leader, tenure)
        self.state, self.state_revision = call.state, self.revision
        self.ends_at = asyncio.get_running_loop().time() + self._ttl_seconds
        return Ruling(verdict=Verdict.DONE, tenure=tenure, state_revision=self.revision)

    def renew(self, call: Renew) -> Ruling:
        """See `Decider`."""
        self.look()
        if call.tenure != self.tenure:
            return LOST
        self.ends_at = asyncio.get_running_loop().time() + self._ttl_seconds
        return Ruling(verdict=Verdict.DONE)

    def alter(self, call: Alter) -> Ruling:
        """See `Decider`."""
        self.look()
        if call.tenure != self.tenure or call.seen_revision != self.state_revision:
            return LOST
        if call.state is None:
            self._lead(None, None)
        else:
            self.write(call.state)
        return Ruling(verdict=Verdict.DONE, state_revision=self.state_revision)

    def init(self, state: SetState, seen_revision: int) -> Ruling:
        """See `Decider`."""
        self.look()
        if self.leader is not None or seen_revision != self.state_revision:
            return LOST
        self.write(state)
        return Ruling(verdict=Verdict.DONE, state_revision=self.state_revision)

    def write(self, state: SetState) -> None:
        """Have another state."""
        self._step()
        self.state, self.state_revision = state, self.revision

    def _lead(self, leader: Leader | None, tenure: Tenure | None) -> None:
        self._step()
        self.leader, self.tenure = leader, tenure

    def _step(self) -> None:
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()


class MemoryDecider:
    """One member's way to it; a `Decider`.

    Attributes:
        is_cut: Nothing arrives, and nothing comes back.
        loses_answers: What is asked is done, and nothing comes back.
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.is_cut = self.loses_answers = False
        self.is_closed = False

    async def take(self, call: Take) -> Ruling:
        """See `Decider`."""
        if self.is_cut:
            return await self._unknown()
        return await self._answered(self.store.take(call))

    async def renew(self, call: Renew) -> Ruling:
        """See `Decider`."""
        if self.is_cut:
            return await self._unknown()
        return await self._answered(self.store.renew(call))

    async def alter(self, call: Alter) -> Ruling:
        """See `Decider`."""
        if self.is_cut:
            return await self._unknown()
        return await self._answered(self.store.alter(call))

    async def read(self) -> SetView | None:
        """See `Decider`."""
        if self.is_cut:
            await asyncio.sleep(TIMEOUT_SECONDS)
            return None
        return self.store.view()

    async def watch(self) -> AsyncGenerator[SetView, None]:
        """See `Decider`."""
        known = 0
        while True:
            if not self.is_cut:
                view = self.store.view()
                if view.revision != known:
                    known = view.revision
                    yield view
            await self.store.wait(0.5)

    async def report(self, report: MemberReport) -> bool:
        """See `Decider`."""
        if not self.is_cut:
            self.store.reports[report.member.id] = report
        return not self.is_cut

    async def init(self, state: SetState, *, seen_revision: int = 0) -> Ruling:
        """See `Decider`."""
        if self.is_cut:
            return await self._unknown()
        return await self._answered(self.store.init(state, seen_revision))

    async def close(self) -> None:
        """See `Decider`."""
        self.is_closed = True

    async def _answered(self, ruling: Ruling) -> Ruling:
        return await self._unknown() if self.loses_answers else ruling

    async def _unknown(self) -> Ruling:
        await asyncio.sleep(TIMEOUT_SECONDS)
        return UNKNOWN
