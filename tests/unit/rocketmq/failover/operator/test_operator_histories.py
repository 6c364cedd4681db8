"""Long histories of two members about which nobody decides but an operator.

Everything but time is by chance: members are killed and start again, do not reach each other, and
an operator has them hand over, go on alone, or take over from one that does not answer. They break
one rule never: who was told to go on alone is not passed over before both are in sync again.

What must hold is what `failover_world` checks: an epoch is opened once, and what was acknowledged
is in the log of each later master.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.failover_world import ADDRESSES, Broken, Machine, World

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.failover import (
    Mastership,
    Member,
    MemberAddresses,
    MemberReport,
    Phase,
    ReadBack,
    Ruling,
    SetState,
    Take,
    Verdict,
)
from sprocket.rocketmq.failover.operator import Notice, OperatorDecider
from sprocket.testing.disk import SimulatedDisk

PATH = "/store/config/sprocket.word"
STEPS = 120
TICK_SECONDS = 0.25


class Kept(Mastership):
    """A member of a set that nobody leaves by itself."""

    def __init__(self, me: Member, addresses: MemberAddresses, process: str) -> None:
        super().__init__(me, addresses, process, keeps_set=True)


class OperatorWorld(World):
    """See the head of the module.

    Args:
        seed: Of all that happens.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disks = {number: SimulatedDisk() for number in (1, 2)}
        for disk in self.disks.values():
            disk.make_folder("/store/config")
        self.deciders: dict[int, OperatorDecider] = {}
        self.dead: set[int] = set()
        self.are_apart = False
        self.newest = 0
        """Which word it is that says so, whoever has it."""
        self.alone: set[int] = set()
        """Who was told to go on alone, and may have acknowledged since what the other one lacks."""
        super().__init__(2, Kept)

    def begin(self, one: Machine) -> None:
        """See `World.begin`; it keeps its word on a disk of its own."""
        super().begin(one)
        other = 3 - one.id

        async def ask() -> Sequence[Notice]:
            if self.are_apart or other in self.dead:
                raise NotConnected("not reached")
            return [self.deciders[other].notice]

        self.deciders[one.id] = OperatorDecider(
            self.disks[one.id], PATH, one.name.id, ask, seconds=1
        )

    def followers(self, master: Machine) -> list[Machine]:
        """See `World.followers`: a slave follows whom its word names."""
        found = []
        for one in super().followers(master):
            leader = one.mastership.master
            if leader is not None and leader.member == master.name and not self.are_apart:
                found.append(one)
        return [one for one in found if not self.dead & {one.id, master.id}]

    # What happens.

    async def run(self) -> None:
        """Have it all happen, then see that both get well."""
        both = SetState(epoch=0, master=None, in_sync=frozenset(self.names()), in_sync_min=1)
        assert (await self.deciders[1].init(both)).verdict is Verdict.DONE
        for _ in range(STEPS):
            await self.random.choice(
                [self.tick] * 10
                + [self.kill_some, self.revive, self.part_or_meet, self.hand_over_some]
                + [self.promote_some] * 3
            )()
        self.are_apart = False
        while self.dead:
            await self.revive()
        for _ in range(60):
            await self.tick()
        for decider in self.deciders.values():
            await decider.close()

    def names(self) -> list[Member]:
        """Return who there is."""
        return [one.name for one in self.machines.values()]

    def living(self) -> list[Machine]:
        """Return those that run."""
        return [one for one in self.machines.values() if one.id not in self.dead]

    async def tick(self) -> None:
        """Let some time pass in which everybody does what they have to."""
        self.now += TICK_SECONDS
        for one in self.living():
            await self.turn(one)
        for one in self.living():
            if one.opened and self.random.random() < 0.5:
                self.write(one)
            for slave in self.followers(one):
                self.replicate(one, slave)
        while self.acks:
            if self.random.random() < 0.1:
                self.acks.pop(0)
            else:
                self.hear(0)
        for one in self.living():
            if one.opened == one.mastership.epoch:
                self.acknowledge(one)
        self.note_who_is_alone()

    async def turn(self, one: Machine) -> None:
        """Have a member look, ask, renew, open and close."""
        decider, table = self.deciders[one.id], one.mastership
        report = MemberReport(
            member=one.name, addresses=ADDRESSES, epoch=one.epoch, end=len(one.log)
        )
        await decider.report(report)
        view = await decider.read()
        assert view is not None
        table.viewed(view, self.now)
        if one.opened and one.opened != table.epoch:
            self.close(one)
        table.progressed(one.state(one.acknowledged))
        call = table.call(self.now)
        if isinstance(call, ReadBack):
            table.read(await decider.read(), self.now)
        elif call is not None:
            ruling: Ruling = await (
                decider.take(call) if isinstance(call, Take) else decider.alter(call)
            )
            table.answered(call, ruling, self.now)
        renewal = table.renewal(self.now)
        if renewal is not None:
            table.renewed(renewal, await decider.renew(renewal), self.now, self.now)
        if table.phase is Phase.OPENING and not one.opened:
            self.open(one)

    async def kill_some(self) -> None:
        """One dies."""
        if self.living():
            one = self.random.choice(self.living())
            self.dead.add(one.id)
            await self.deciders[one.id].close()
            self.disks[one.id] = self.disks[one.id].kill()
            self.kill(one)

    async def revive(self) -> None:
        """One that is dead starts."""
        if self.dead:
            self.dead.discard(self.random.choice(sorted(self.dead)))

    async def part_or_meet(self) -> None:
        """They reach each other, or do not any more."""
        self.are_apart = not self.are_apart

    async def hand_over_some(self) -> None:
        """A master is told to hand over."""
        for one in self.living():
            one.mastership.hand_over(self.now)

    async def promote_some(self) -> None:
        """An operator names one, if they may, as `sprocket ha promote` does."""
        if not self.living():
            return
        one = self.random.choice(self.living())
        others = [each for each in self.living() if each is not one and each.opened]
        view = await self.deciders[one.id].read()
        if view is None or view.state is None or one.name not in view.state.in_sync:
            return
        if self.alone - {one.id} or (others and self.random.random() < 0.5):
            return  # it is not to be passed over, or is seen, and is asked to hand over
        state = SetState(
            epoch=view.state.epoch,
            master=view.state.master,
            in_sync=frozenset({one.name}),
            in_sync_min=1,
        )
        await self.deciders[one.id].init(state, seen_revision=view.state_revision)
        self.note_who_is_alone()

    def note_who_is_alone(self) -> None:
        """See whether both are in sync again, as the newest word says."""
        for decider in self.deciders.values():
            word = decider.notice.word
            if word is not None and word.revision > self.newest:
                self.newest = word.revision
                in_sync = {int(each.id) for each in word.state.in_sync}
                self.alone = set() if len(in_sync) > 1 else in_sync


def many(count: int) -> list[OperatorWorld]:
    """Return so many histories. Raises Broken."""
    return [history(1000 + seed) for seed in range(count)]


def history(seed: int) -> OperatorWorld:
    """Return a history that has happened. Raises Broken."""

    async def happen() -> OperatorWorld:
        world = OperatorWorld(seed)
        await world.run()
        return world

    try:
        return asyncio.run(happen())
    except Broken as broken:
        raise Broken(f"seed {seed}: {broken}") from None


@pytest.mark.parametrize("seed", range(8))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    """However often an operator has another one be master."""
    history(seed)


@pytest.mark.nightly
def test_nothing_acknowledged_is_lost_in_many_histories() -> None:
    """Of which enough acknowledge something, and have several masters."""
    worlds = many(400)
    assert sum(len(one.acknowledged) for one in worlds) > 10 * len(worlds)
    assert sum(len(one.opened_by) for one in worlds) > 3 * len(worlds)


def test_a_set_that_members_leave_by_themselves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who becomes master alone in sync, as with etcd, acknowledges what another one lacks."""

    def init(self: Kept, me: Member, addresses: MemberAddresses, process: str) -> None:
        Mastership.__init__(self, me, addresses, process, keeps_set=False)

    monkeypatch.setattr(Kept, "__init__", init)
    with pytest.raises(Broken):
        many(200)
