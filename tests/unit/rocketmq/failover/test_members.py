"""Members that run, with a decider in memory and brokers that only say what they are opened as."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests import virtual_time
from tests.memory_decider import MemoryDecider, MemoryStore
from tests.virtual_time import LoopClock

from sprocket.base.errors import StoreFailed
from sprocket.rocketmq.failover import (
    Incarnation,
    LogState,
    Mastership,
    Member,
    MemberAddresses,
    MemberId,
    Needed,
    Phase,
    Role,
    RoleKeeper,
    SetMember,
    SetState,
)

OPEN_SECONDS = 0.2


class FakeBroker:
    """A broker that is open in a role, of a machine that has a log."""

    def __init__(self, machine: "Machine", role: Role) -> None:
        self.machine = machine
        self.role = role
        self.required: frozenset[Member] = frozenset()
        self.is_spent = False

    def progress(self) -> LogState:
        """Tell of the machine's log."""
        machine = self.machine
        return LogState(
            epoch=machine.epoch, promised=machine.epoch, end=machine.end, confirmed=machine.end
        )

    def require(self, needed: Needed) -> None:
        """Note who must have a message."""
        self.required = needed.members

    async def close(self) -> None:
        """Take some time, and say so."""
        await asyncio.sleep(OPEN_SECONDS)
        self.machine.told.append(f"closed {self.role.kind.name}")


class Machine:
    """A member with its keeper, as a process has them."""

    def __init__(self, number: int, store: MemoryStore) -> None:
        self.name = Member(MemberId(number), Incarnation(f"i{number}"))
        self.decider = MemoryDecider(store)
        self.epoch, self.end = 0, 0
        self.told: list[str] = []
        self.cannot_open = False
        addresses = MemberAddresses(broker=f"b{number}:1", slaves=f"b{number}:2")
        self.keeper = RoleKeeper(self.open)
        self.member = SetMember(
            Mastership(self.name, addresses, f"p{number}"),
            self.decider,
            addresses,
            self.keeper.progress,
            self.keeper.changed,
            LoopClock(),
            now=asyncio.get_running_loop().time,
            report_seconds=0.5,
        )

    async def open(self, role: Role) -> FakeBroker:
        """Open it in a role, after some time."""
        await asyncio.sleep(OPEN_SECONDS)
        if self.cannot_open:
            raise StoreFailed("the disk is broken")
        self.told.append(f"opened {role.kind.name} {role.epoch}")
        self.epoch = max(self.epoch, role.epoch)
        return FakeBroker(self, role)

    async def start(self) -> "Machine":
        """Open it as a slave, and begin."""
        await self.keeper.open_first()
        self.keeper.start(self.member)
        self.member.start()
        return self

    async def stop(self) -> None:
        """Stop it as a process does."""
        await self.keeper.stop()
        await self.member.stop()

    @property
    def phase(self) -> Phase:
        """What it is."""
        return self.member.mastership.phase


async def pair(in_sync: int = 2) -> tuple[MemoryStore, Machine, Machine]:
    """Start two machines, so many of them in sync; the first one becomes master."""
    names = [Member(MemberId(n), Incarnation(f"i{n}")) for n in (1, 2)]
    state = SetState(epoch=0, master=None, in_sync=frozenset(names[:in_sync]), in_sync_min=1)
    store = MemoryStore(state)
    first, second = Machine(1, store), Machine(2, store)
    first.end = 10
    await first.start()
    await asyncio.sleep(1)
    await second.start()
    await until(lambda: first.phase is Phase.MASTER)
    return store, first, second


async def until(holds: Callable[[], bool], seconds: float = 30) -> float:
    """Wait until something holds; return how long that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not holds():
        assert loop.time() - began < seconds, "it does not come to that"
        await asyncio.sleep(0.01)
    return loop.time() - began


def follow(master: Machine, slave: Machine) -> asyncio.Task[None]:
    """Have a slave say again and again that it has all."""

    async def say() -> None:
        while True:
            slave.epoch, slave.end = master.epoch, master.end
            master.member.heard(slave.name, master.epoch, slave.end, 0)
            await asyncio.sleep(0.05)

    return asyncio.get_running_loop().create_task(say())


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test in virtual time."""

    async def main() -> None:
        await test()

    virtual_time.run(main())


def test_a_slave_that_has_all_is_added_and_becomes_master() -> None:
    """Its master is cut off from the decider: fenced before the other one opens."""

    async def test() -> None:
        store, first, second = await pair(in_sync=1)
        assert first.member.may_acknowledge
        link = follow(first, second)
        assert await until(lambda: store.state is not None and len(store.state.in_sync) == 2) < 1
        assert isinstance(first.keeper.broker, FakeBroker)
        assert first.keeper.broker.required == {second.name}
        assert second.member.mastership.master == store.leader
        first.decider.is_cut = True
        loop = asyncio.get_running_loop()
        cut_at = loop.time()
        fenced_after = await until(lambda: not first.member.may_acknowledge)
        link.cancel()
        await until(lambda: second.phase is Phase.MASTER)
        assert fenced_after < 4.1
        assert loop.time() - cut_at < 6.5
        assert first.phase is Phase.FENCED
        assert [one.epoch for one in store.leaders] == [1, 2]
        first.decider.is_cut = False
        await until(lambda: first.phase is Phase.FOLLOW)
        await until(lambda: first.told[-1] == "opened SLAVE 0")
        assert first.told[-3:] == ["opened MASTER 1", "closed MASTER", "opened SLAVE 0"]
        assert second.member.switched.epoch == 2
        await first.stop()
        await second.stop()
        assert first.decider.is_closed

    run(test)


def test_a_short_trouble_changes_nothing() -> None:
    """Renewals that fail for three seconds."""

    async def test() -> None:
        store, first, second = await pair()
        first.decider.is_cut = True
        await asyncio.sleep(3)
        first.decider.is_cut = False
        await asyncio.sleep(10)
        assert len(store.leaders) == 1
        assert first.member.may_acknowledge
        await first.stop()
        await second.stop()

    run(test)


def test_everybody_is_cut_off_and_comes_back() -> None:
    """The lease ends as nobody can renew it; the one that was master has most, and is it again."""

    async def test() -> None:
        store, first, second = await pair(in_sync=1)
        for one in (first, second):
            one.decider.is_cut = True
        await asyncio.sleep(30)
        assert first.phase is Phase.FENCED
        for one in (first, second):
            one.decider.is_cut = False
        await until(lambda: first.phase is Phase.MASTER)
        assert [one.member for one in store.leaders] == [first.name, first.name]
        await first.stop()
        await second.stop()

    run(test)


def test_a_lost_answer_costs_no_epoch() -> None:
    """Who became master without knowing finds out, and goes on as that."""

    async def test() -> None:
        name = Member(MemberId(1), Incarnation("i1"))
        store = MemoryStore(
            SetState(epoch=0, master=None, in_sync=frozenset({name}), in_sync_min=1)
        )
        one = Machine(1, store)
        one.decider.loses_answers = True
        await one.start()
        await until(lambda: store.leader is not None)
        one.decider.loses_answers = False
        await until(lambda: one.member.may_acknowledge)
        assert len(store.leaders) == 1
        await one.stop()

    run(test)


def test_who_is_stopped_hands_over() -> None:
    """To a slave that has everything, in less than a second and a half."""

    async def test() -> None:
        store, first, second = await pair(in_sync=1)
        link = follow(first, second)
        await until(lambda: store.state is not None and len(store.state.in_sync) == 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        stopping = loop.create_task(first.stop())
        await until(lambda: second.phase is Phase.MASTER)
        assert loop.time() - began < 1.5
        link.cancel()
        await stopping
        assert first.told[-1] == "closed MASTER"
        await second.stop()
        assert second.told[-1] == "closed MASTER"

    run(test)


def test_an_emptied_decider_elects_nobody() -> None:
    """The master stops; only an operator makes a set again."""

    async def test() -> None:
        store, first, second = await pair()
        store.forget()
        await until(lambda: first.phase is Phase.FOLLOW)
        await asyncio.sleep(60)
        assert {first.phase, second.phase} == {Phase.FOLLOW}
        assert store.leader is None
        await first.stop()
        await second.stop()

    run(test)


def test_a_broker_that_does_not_open_is_tried_again() -> None:
    """Meanwhile it is said why; and another one can become master as this one never served."""

    async def test() -> None:
        name = Member(MemberId(1), Incarnation("i1"))
        store = MemoryStore(
            SetState(epoch=0, master=None, in_sync=frozenset({name}), in_sync_min=1)
        )
        one = Machine(1, store)
        await one.keeper.open_first()
        one.cannot_open = True
        one.keeper.start(one.member)
        one.member.start()
        await until(lambda: one.keeper.why == "the disk is broken")
        assert not one.member.may_acknowledge
        one.cannot_open = False
        await until(lambda: one.member.may_acknowledge)
        assert one.keeper.why == ""
        await one.stop()

    run(test)


@pytest.mark.parametrize("cut", ["is_cut", "loses_answers"])
def test_a_slave_is_waited_for_while_it_is_not_known_whether_it_was_added(cut: str) -> None:
    """Whether the decider was told or not."""

    async def test() -> None:
        _, first, second = await pair(in_sync=1)
        setattr(first.decider, cut, True)
        link = follow(first, second)
        await asyncio.sleep(1)
        broker = first.keeper.broker
        assert isinstance(broker, FakeBroker)
        assert broker.required == {second.name}
        link.cancel()
        await asyncio.sleep(2.5)
        assert broker.required == {second.name}
        await first.stop()
        await second.stop()

    run(test)


async def told(ask: Callable[[Callable[[str], None]], None]) -> str:
    """Return what an operator is told."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ask(answer.set_result)
    return await answer


def test_an_operator_begins_a_set() -> None:
    """With members that are there; the epoch is the greatest that any log has."""

    async def test() -> None:
        store = MemoryStore(None)
        first, second = Machine(1, store), Machine(2, store)
        first.epoch, first.end = 7, 10
        for one in (first, second):
            await one.start()
        await asyncio.sleep(1)

        async def begin(*numbers: int) -> str:
            ids = [MemberId(number) for number in numbers]
            return await told(lambda done: first.member.begin_set(ids, 1, done))

        assert "[3]" in await begin(1, 3)
        assert "differ" in await begin(1, 2)
        assert "not begun" in await told(second.member.designate)
        assert await begin(1) == ""
        await until(lambda: first.phase is Phase.MASTER)
        assert first.member.mastership.epoch == 8
        assert "already" in await begin(1)
        status = first.member.status()
        assert status.leader is not None
        assert status.leader.member == status.member == first.name
        assert set(status.reports) == {1, 2}
        await first.stop()
        await second.stop()

    run(test)


def test_an_operator_designates_a_master() -> None:
    """One that lacks something, when nobody else is left; not while there is a master."""

    async def test() -> None:
        store, first, second = await pair(in_sync=1)
        assert "is master" in await told(second.member.designate)
        await first.stop()
        await until(lambda: store.leader is None or store.view().leader is None)
        await asyncio.sleep(20)
        assert second.phase is Phase.FOLLOW
        assert await told(second.member.designate) == ""
        await until(lambda: second.phase is Phase.MASTER)
        assert second.member.mastership.epoch == 2
        second.decider.is_cut = True
        assert "does not answer" in await told(second.member.designate)
        await second.stop()

    run(test)


def test_a_broker_that_is_spent_is_opened_anew() -> None:
    """As a slave whose log is to be cut; in the role that it has."""

    async def test() -> None:
        _, first, second = await pair()
        broker = second.keeper.broker
        assert isinstance(broker, FakeBroker)
        broker.is_spent = True
        await until(lambda: second.keeper.broker not in (None, broker))
        assert second.told == ["opened SLAVE 0", "closed SLAVE", "opened SLAVE 0"]
        await first.stop()
        await second.stop()

    run(test)
