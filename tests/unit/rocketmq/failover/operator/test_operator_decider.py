"""A decider that is an operator's word: what each call may do, and whose word holds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from tests.decider_contract import ADDRESSES, BEGUN, BOTH, ME, OTHER, alter, read, renewal, take

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.failover import (
    Alter,
    Member,
    MemberReport,
    Ruling,
    SetState,
    SetView,
    Take,
    Verdict,
)
from sprocket.rocketmq.failover.operator import Notice, OperatorDecider
from sprocket.rocketmq.failover.operator.decider import OPERATOR_STEP
from sprocket.testing.disk import SimulatedDisk

PATH = "/store/config/sprocket.word"


class Two:
    """Two members that ask each other, unless they are cut off."""

    def __init__(self) -> None:
        self.disks = {one: SimulatedDisk() for one in (ME, OTHER)}
        for disk in self.disks.values():
            disk.make_folder("/store/config")
        self.is_cut = False
        self.deciders: dict[Member, OperatorDecider] = {}
        self.made: list[OperatorDecider] = []
        for one in (ME, OTHER):
            self.start(one)

    def start(self, one: Member) -> OperatorDecider:
        """Start the process of a member anew."""
        other = OTHER if one is ME else ME

        async def ask() -> Sequence[Notice]:
            if self.is_cut:
                raise NotConnected("cut off")
            return [self.deciders[other].notice]

        found = OperatorDecider(self.disks[one], PATH, one.id, ask, seconds=0.01)
        self.deciders[one] = found
        self.made.append(found)
        return found

    async def leads(self, one: Member) -> tuple[Take, Ruling]:
        """Have a member become master, as it may."""
        call = take(await read(self.deciders[one]), one)
        ruling = await self.deciders[one].take(call)
        assert ruling.verdict is Verdict.DONE
        return call, ruling


def run(scenario: Callable[[Two], Awaitable[None]]) -> None:
    """Run a scenario."""

    async def main() -> None:
        two = Two()
        try:
            await scenario(two)
        finally:
            for one in two.made:
                await one.close()

    asyncio.run(main())


async def begun(two: Two) -> tuple[Take, Ruling]:
    """Have a set in which `ME` is master, and both know it."""
    assert (await two.deciders[ME].init(BEGUN)).verdict is Verdict.DONE
    found = await two.leads(ME)
    await read(two.deciders[OTHER])
    return found


async def grown(two: Two) -> tuple[Take, Ruling]:
    """Do so, and have both in sync."""
    call, ruling = await begun(two)
    state = SetState(epoch=call.state.epoch, master=ME, in_sync=BOTH, in_sync_min=1)
    made = change(call, ruling, state, await read(two.deciders[ME]))
    assert (await two.deciders[ME].alter(made)).verdict is Verdict.DONE
    await read(two.deciders[OTHER])
    return call, ruling


def change(call: Take, ruling: Ruling, state: SetState | None, view: SetView) -> Alter:
    """Return a change of the state that a view has."""
    return alter(call, ruling, state, view)


def test_others_follow_whoever_was_named() -> None:
    """They know the word as soon as they ask, and stand on no state of their own."""

    async def scenario(two: Two) -> None:
        call, ruling = await begun(two)
        view = await read(two.deciders[OTHER])
        assert (view.leader, view.state) == (call.leader, call.state)
        assert view.state_revision == ruling.state_revision
        assert (await two.deciders[OTHER].take(take(view, OTHER))).verdict is Verdict.LOST
        assert (await two.deciders[ME].renew(renewal(ruling))).verdict is Verdict.DONE

    run(scenario)


def test_a_master_that_comes_back_leads_once_it_has_met_the_other() -> None:
    """Alone it does not know whether the other one was named meanwhile."""

    async def scenario(two: Two) -> None:
        call, _ = await begun(two)
        two.is_cut = True
        again = two.start(ME)
        assert (await read(again)).leader == call.leader
        two.is_cut = False
        assert (await read(again)).leader is None
        later, _ = await two.leads(ME)
        assert later.state.epoch > call.state.epoch

    run(scenario)


def test_an_operator_names_the_other_one() -> None:
    """Whoever led before steps back once it hears of it, and not a moment later than it asks."""

    async def scenario(two: Two) -> None:
        _, ruling = await begun(two)
        two.is_cut = True
        other = two.deciders[OTHER]
        view = await read(other)
        only = SetState(epoch=1, master=ME, in_sync=frozenset({OTHER}), in_sync_min=1)
        assert (await other.init(only, seen_revision=view.state_revision)).verdict is Verdict.DONE
        later, _ = await two.leads(OTHER)
        assert later.state.epoch > OPERATOR_STEP
        assert (await two.deciders[ME].renew(renewal(ruling))).verdict is Verdict.DONE
        two.is_cut = False
        view = await read(two.deciders[ME])
        assert view.leader == later.leader
        assert (await two.deciders[ME].renew(renewal(ruling))).verdict is Verdict.LOST

    run(scenario)


def test_a_master_goes_on_alone_on_an_operators_word() -> None:
    """In another epoch, which is greater than any that the other one may have begun; alone."""

    async def scenario(two: Two) -> None:
        call, ruling = await grown(two)
        mine = two.deciders[ME]
        before = await read(mine)
        alone = SetState(epoch=0, master=ME, in_sync=frozenset({ME}), in_sync_min=1)
        said = await mine.init(alone, seen_revision=before.state_revision)
        assert said.verdict is Verdict.DONE
        assert (await mine.renew(renewal(ruling))).verdict is Verdict.LOST
        late = change(call, ruling, call.state, before)
        assert (await mine.alter(late)).verdict is Verdict.LOST
        view = await read(mine)
        assert view.leader is None
        assert view.state is not None
        assert view.state.in_sync == {ME}
        assert view.state.epoch > call.state.epoch + OPERATOR_STEP // 2
        later, _ = await two.leads(ME)
        assert (await read(two.deciders[OTHER])).leader == later.leader

    run(scenario)


def test_a_master_hands_over() -> None:
    """Anybody else in sync may take over then, and waits for nobody who has left."""

    async def scenario(two: Two) -> None:
        call, ruling = await grown(two)
        view = await read(two.deciders[ME])
        done = await two.deciders[ME].alter(change(call, ruling, None, view))
        assert done.verdict is Verdict.DONE
        assert (await two.deciders[ME].renew(renewal(ruling))).verdict is Verdict.LOST
        view = await read(two.deciders[OTHER])
        assert view.leader is None
        assert view.state is not None
        assert view.state.in_sync == {OTHER}
        later, _ = await two.leads(OTHER)
        assert (await read(two.deciders[ME])).leader == later.leader

    run(scenario)


def test_what_was_decided_is_there_after_a_loss_of_power() -> None:
    """Any part of what was not synced may be gone."""

    async def scenario(two: Two) -> None:
        call, _ = await begun(two)
        two.disks[ME] = two.disks[ME].crash(lambda _: 0)
        two.is_cut = True
        view = await read(two.start(ME))
        assert (view.leader, view.state) == (call.leader, call.state)

    run(scenario)


@pytest.mark.parametrize("at", [0, 3, 40])
def test_a_damaged_word_is_asked_of_the_other_one(at: int) -> None:
    """Nothing is made of it."""

    async def scenario(two: Two) -> None:
        call, _ = await begun(two)
        file = two.disks[ME].open(PATH, write=True)
        (byte,) = file.read(at, 1)
        file.write([bytes([byte ^ 1])], at)
        again = two.start(ME)
        two.is_cut = True
        assert (await read(again)).state is None
        two.is_cut = False
        assert (await read(again)).state == call.state

    run(scenario)


def test_others_are_told_what_a_member_says_of_itself() -> None:
    """As long as it answers."""

    async def scenario(two: Two) -> None:
        report = MemberReport(member=OTHER, addresses=ADDRESSES, epoch=3, end=700)
        assert await two.deciders[OTHER].report(report)
        assert (await read(two.deciders[ME])).reports == {OTHER.id: report}
        two.is_cut = True
        assert (await read(two.deciders[ME])).reports == {}

    run(scenario)
