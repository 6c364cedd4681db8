"""Small histories of a set: members, their logs, a decider and a network that do what they like.

Everything that can happen next is a step (`World.steps`). Requests to the decider may be carried
out late, twice or never, and be answered, or not; a lease may end at any time; views may be old;
acknowledgements of slaves arrive late; members are killed, and their disks emptied.

What must hold is checked at each step (`Broken`):

1. An epoch is opened by one member.
2. What was acknowledged is in the log of each later master from the start.
"""

import copy
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from sprocket.rocketmq.failover import (
    Alter,
    Incarnation,
    Leader,
    LogState,
    Mastership,
    Member,
    MemberAddresses,
    MemberId,
    MemberReport,
    Phase,
    ReadBack,
    Renew,
    Ruling,
    SetState,
    SetView,
    Take,
    Tenure,
    Verdict,
)

Step = tuple[str, Callable[[], None]]
"""What happens, for people, and what does it."""
Record = tuple[int, int]
"""The epoch in which it was written, and a number that no other one has."""
ADDRESSES = MemberAddresses(broker="b:1", slaves="b:2")
UNKNOWN = Ruling(verdict=Verdict.UNKNOWN, why="no answer came")


class Broken(AssertionError):
    """What must hold does not."""


@dataclass
class Request:
    """A call of a member on its way to the decider."""

    member: int
    call: Take | Alter | Renew
    process: int
    sent_at: float
    ruling: Ruling | None = None
    """As it was carried out first."""
    carried: int = 0
    is_answered: bool = False


@dataclass
class Machine:
    """A member: what is on its disk, and what its process knows."""

    id: int
    incarnation: int = 1
    process: int = 1
    log: list[Record] = field(default_factory=list)
    epoch: int = 0
    """The last one in its log: it refuses smaller ones."""
    opened: int = 0
    """The epoch in which it is open as master; 0 if it is not."""
    acknowledged: int = 0
    """How many records it has acknowledged as master."""
    mastership: Mastership = field(init=False)

    def state(self, confirmed: int) -> LogState:
        """Return what its log is like."""
        return LogState(
            epoch=self.epoch, promised=self.epoch, end=len(self.log), confirmed=confirmed
        )

    @property
    def name(self) -> Member:
        """Who it is, with what is on its disk."""
        return Member(MemberId(self.id), Incarnation(f"i{self.incarnation}"))


class World:
    """See the head of the module.

    Args:
        count: Of members; all are in sync at first.
        table: What a member decides by.
        ends: The order of the numbers of records; for copies.
    """

    def __init__(self, count: int, table: type[Mastership] = Mastership) -> None:
        self.now = 100.0
        self.table = table
        self.machines = {number: Machine(number) for number in range(1, count + 1)}
        everybody = frozenset(one.name for one in self.machines.values())
        self.revision = 1
        self.leader: Leader | None = None
        self.tenure: Tenure | None = None
        self.state = SetState(epoch=0, master=None, in_sync=everybody, in_sync_min=1)
        self.state_revision = 1
        self.requests: list[Request] = []
        self.acks: list[tuple[int, int, Member, int, int]] = []
        """Master, its process, who says it, the epoch and the end."""
        self.said: list[tuple[int, int, Member, int, int]] = []
        """All acknowledgements, to arrive once more."""
        self.cut: set[int] = set()
        """Members that no master reaches."""
        self.records = 0
        self.opened_by: dict[int, Member] = {}
        self.logs_at_opening: dict[int, list[Record]] = {}
        self.acknowledged: dict[Record, int] = {}
        """And in which epoch that was said."""
        self.old_view: SetView = self.view()
        for one in self.machines.values():
            self.begin(one)

    def copy(self) -> "World":
        """Return another one that goes on from here."""
        return copy.deepcopy(self)

    def begin(self, one: Machine) -> None:
        """Start the process of a member."""
        one.opened = one.acknowledged = 0
        one.mastership = self.table(one.name, ADDRESSES, f"p{one.id}-{one.process}")
        one.mastership.progressed(one.state(0))

    def view(self) -> SetView:
        """Return what the decider knows."""
        reports = {
            MemberId(one.id): MemberReport(
                member=one.name, addresses=ADDRESSES, epoch=one.epoch, end=len(one.log)
            )
            for one in self.machines.values()
        }
        return SetView(
            decider_id="d",
            revision=self.revision,
            leader=self.leader,
            tenure=self.tenure,
            state=self.state,
            state_revision=self.state_revision,
            reports=reports,
        )

    # What may happen.

    def steps(self, *, wild: bool = True) -> list[Step]:
        """Return everything that can happen now.

        Args:
            wild: Whether machines may be killed, disks emptied and much time pass.
        """
        found: list[Step] = []
        for one in self.machines.values():
            found += self._steps_of(one)
            if wild:
                found.append((f"{one.id} is killed", partial(self.kill, one)))
        for request in self.requests:
            what = f"{type(request.call).__name__} of {request.member}"
            if request.carried < 1 + wild:
                found.append((f"{what} is carried out", partial(self.carry, request)))
            if not request.is_answered:
                found.append((f"{what} has no answer", partial(self.answer, request, UNKNOWN)))
                if request.ruling is not None:
                    answer = partial(self.answer, request, request.ruling)
                    found.append((f"{what} is answered", answer))
        for at, ack in enumerate(self.acks[:2]):
            found.append((f"an ack of {ack[2]} arrives", partial(self.hear, at)))
        if self.leader is not None:
            found.append(("the lease ends", self.end_lease))
        if wild:
            for ack in self.said[-8:]:
                again = partial(self.acks.append, ack)
                found.append((f"an ack of {ack[2]} in {ack[3]} comes again", again))
            found += [(f"{s} s pass", partial(self.wait, s)) for s in (1.0, 11.0)]
        return found

    def _steps_of(self, one: Machine) -> Iterable[Step]:
        table = one.mastership
        if one.opened and (one.opened != table.epoch or table.phase is Phase.FOLLOW):
            yield f"{one.id} closes as master", partial(self.close, one)
        if table.phase is Phase.OPENING and not one.opened:
            yield f"{one.id} opens", partial(self.open, one)
        if one.opened:
            yield f"{one.id} writes", partial(self.write, one)
            yield f"{one.id} acknowledges", partial(self.acknowledge, one)
            for other in self.followers(one):
                yield f"{other.id} copies {one.id}", partial(self.replicate, one, other)
        if table.view is None or table.view.revision < self.revision:
            yield f"{one.id} sees all", partial(self.see, one, None)
        yield f"{one.id} asks", partial(self.ask, one)
        yield f"{one.id} renews", partial(self.renew, one)

    def followers(self, master: Machine) -> list[Machine]:
        """Return who may copy a master's log: a member that knows a later epoch does not."""
        return [
            one
            for one in self.machines.values()
            if one is not master
            and not one.opened
            and one.epoch <= master.opened
            and one.id not in self.cut
        ]

    # What a member does.

    def ask(self, one: Machine) -> None:
        """Have it ask the decider what it has to; reads are answered at once."""
        table = one.mastership
        if not one.opened or one.opened == table.epoch:
            table.progressed(one.state(one.acknowledged))
        call = table.call(self.now)
        if isinstance(call, ReadBack):
            table.read(self.view(), self.now)
        elif call is not None:
            self.requests.append(Request(one.id, call, one.process, self.now))

    def renew(self, one: Machine) -> None:
        """Have it renew its lease, if that is due."""
        call = one.mastership.renewal(self.now)
        if call is not None:
            self.requests.append(Request(one.id, call, one.process, self.now))

    def see(self, one: Machine, view: SetView | None) -> None:
        """Show it what the decider knows, or an older view."""
        one.mastership.viewed(self.view() if view is None else view, self.now)

    def open(self, one: Machine) -> None:
        """Open it as the master that the decider says it is; see what must hold then."""
        epoch = one.mastership.epoch
        if epoch <= one.epoch:
            raise Broken(f"epoch {epoch} is opened on a log that has {one.epoch}")
        if self.opened_by.setdefault(epoch, one.name) != one.name or epoch in self.logs_at_opening:
            raise Broken(f"epoch {epoch} is opened twice")
        for record, said_in in self.acknowledged.items():
            if said_in < epoch and record not in one.log:
                raise Broken(f"{record} was acknowledged, and the master of {epoch} lacks it")
        self.logs_at_opening[epoch] = list(one.log)
        one.epoch = one.opened = epoch
        one.acknowledged = 0
        one.mastership.opened(epoch, self.now)

    def close(self, one: Machine) -> None:
        """Close it as a master."""
        one.opened = one.acknowledged = 0
        one.mastership.progressed(one.state(0))

    def write(self, one: Machine) -> None:
        """Have it take a record, as the master that it is or was."""
        self.records += 1
        one.log.append((one.opened, self.records))

    def acknowledge(self, one: Machine) -> None:
        """Answer those who sent, as far as the table allows."""
        table = one.mastership
        table.progressed(one.state(one.acknowledged))
        if not table.may_acknowledge(self.now):
            return
        reached = min(len(one.log), table.reached())
        for record in one.log[:reached]:
            if self.acknowledged.setdefault(record, one.opened) == one.opened:
                for epoch, log in self.logs_at_opening.items():
                    if epoch > one.opened and record not in log:
                        raise Broken(
                            f"{record} is acknowledged, and the master of {epoch} lacks it"
                        )
        one.acknowledged = max(one.acknowledged, reached)

    def replicate(self, master: Machine, slave: Machine) -> None:
        """Have a slave make its log equal, get one record more, and say so."""
        same = 0
        for ours, theirs in zip(slave.log, master.log, strict=False):
            if ours != theirs:
                break
            same += 1
        slave.log = [*slave.log[:same], *master.log[same : same + 1]]
        slave.epoch = master.opened
        slave.mastership.progressed(slave.state(0))
        said = (master.id, master.process, slave.name, slave.epoch, len(slave.log))
        if said not in self.acks:
            self.acks.append(said)
            self.said.append(said)

    def hear(self, at: int) -> None:
        """Have an acknowledgement arrive, unless its master was killed since."""
        master_id, process, slave, epoch, end = self.acks.pop(at)
        master = self.machines[master_id]
        if master.process == process:
            master.mastership.heard(slave, epoch, end, self.now)

    def kill(self, one: Machine) -> None:
        """End its process; its disk keeps what it has."""
        one.process += 1
        self.begin(one)

    def toggle(self, one: Machine) -> None:
        """Cut it off from masters, or let them reach it again."""
        self.cut ^= {one.id}

    def empty(self, one: Machine) -> None:
        """End its process, and give it an empty disk."""
        one.incarnation += 1
        one.log, one.epoch = [], 0
        self.kill(one)

    # What the decider does.

    def carry(self, request: Request) -> None:
        """Carry a request out, perhaps once more."""
        request.carried += 1
        ruling = self._decide(request.call)
        if request.ruling is None:
            request.ruling = ruling

    def _decide(self, call: Take | Alter | Renew) -> Ruling:
        lost = Ruling(verdict=Verdict.LOST, why="the condition does not hold")
        if isinstance(call, Renew):
            return Ruling(verdict=Verdict.DONE) if call.tenure == self.tenure else lost
        if call.seen_revision != self.state_revision or call.seen != self.state:
            return lost
        if isinstance(call, Take):
            if self.leader is not None:
                return lost
            self.revision += 1
            self.leader = call.leader
            self.tenure = Tenure(revision=self.revision, lease=self.revision)
            self.state, self.state_revision = call.state, self.revision
            return Ruling(verdict=Verdict.DONE, tenure=self.tenure, state_revision=self.revision)
        if call.tenure != self.tenure:
            return lost
        self.revision += 1
        if call.state is None:
            self.leader = self.tenure = None
        else:
            self.state, self.state_revision = call.state, self.revision
        return Ruling(verdict=Verdict.DONE, state_revision=self.state_revision)

    def answer(self, request: Request, ruling: Ruling) -> None:
        """Tell the member how it ended, if it still runs."""
        request.is_answered = True
        if ruling is not UNKNOWN or isinstance(request.call, Renew):
            self.requests.remove(request)
        one = self.machines[request.member]
        if one.process != request.process:
            return
        if isinstance(request.call, Renew):
            one.mastership.renewed(request.call, ruling, request.sent_at, self.now)
        else:
            one.mastership.answered(request.call, ruling, self.now)

    def end_lease(self) -> None:
        """Have the leader's lease end."""
        self.revision += 1
        self.leader = self.tenure = None

    def wait(self, seconds: float) -> None:
        """Let time pass for everybody."""
        self.now += seconds

    # Whole histories.

    def print_of(self) -> tuple[object, ...]:
        """Return what two worlds have in common that go on alike."""
        return (
            self.now,
            self.revision,
            self.leader,
            self.state,
            tuple(
                (
                    *(one.incarnation, one.process, tuple(one.log), one.epoch, one.opened),
                    one.acknowledged,
                    str(vars(one.mastership)),
                )
                for one in self.machines.values()
            ),
            tuple(
                (one.member, str(one.call), one.carried, one.is_answered) for one in self.requests
            ),
            tuple(self.acks),
        )


def settle(world: World, rounds: int = 12, loses: Callable[[], bool] = lambda: False) -> None:
    """Have everything asked, carried out and answered, for so many quarters of a second.

    Args:
        world: Goes on from where it is.
        rounds: How long.
        loses: Says of each request whether it gets stuck, and its answer does not come.
    """
    for _ in range(rounds):
        for one in world.machines.values():
            world.see(one, None)
            world.ask(one)
            table = one.mastership
            if one.opened and one.opened != table.epoch:
                world.close(one)
            if table.phase is Phase.OPENING and not one.opened:
                world.open(one)
            world.renew(one)
        for request in [one for one in world.requests if not one.is_answered]:
            if loses():
                world.answer(request, UNKNOWN)
                continue
            if not request.carried:
                world.carry(request)
            world.answer(request, request.ruling or UNKNOWN)
        for master in [one for one in world.machines.values() if one.opened]:
            for slave in world.followers(master):
                world.replicate(master, slave)
        while world.acks:
            world.hear(0)
        for one in world.machines.values():
            if one.opened:
                world.acknowledge(one)
        world.wait(0.25)


def explore(world: World, depth: int, *, wild: bool = False, states_max: int = 10**9) -> int:
    """Go through all that can happen in so many steps; return how many worlds there were.

    Raises:
        Broken: With the steps that lead there.
    """
    seen: set[tuple[object, ...]] = {world.print_of()}
    edge: list[tuple[World, tuple[str, ...]]] = [(world, ())]
    for _ in range(depth):
        further: list[tuple[World, tuple[str, ...]]] = []
        for one, path in edge:
            for number, (what, _) in enumerate(one.steps(wild=wild)):
                after = one.copy()
                told = (*path, what)
                try:
                    after.steps(wild=wild)[number][1]()
                except Broken as broken:
                    raise Broken(f"{broken}: {'; '.join(told)}") from None
                mark = after.print_of()
                if mark not in seen:
                    seen.add(mark)
                    further.append((after, told))
            if len(seen) > states_max:
                return len(seen)
        edge = further
    return len(seen)


def wander(seed: int, steps: int, count: int, table: type[Mastership] = Mastership) -> World:
    """Go through one long history by chance, in which most of what is begun is finished.

    Raises:
        Broken: With the last steps before.
    """
    chance = random.Random(seed)
    world = World(count, table)
    told: list[str] = []
    machines = list(world.machines.values())
    for _ in range(steps):
        kind, one = chance.random(), chance.choice(machines)
        do: Callable[[], None]
        if kind < 0.2:
            rounds, loss = chance.choice([1, 2, 4, 8, 50]), chance.choice([0.0, 0.0, 0.3, 1.0])
            what = f"{rounds / 4} s go on, {loss} of requests get stuck"
            do = partial(settle, world, rounds, partial(_at_most, chance, loss))
        elif kind < 0.26:
            what, do = f"{one.id} is cut off or reached", partial(world.toggle, one)
        elif kind < 0.27:
            what, do = f"{one.id} is emptied", partial(world.empty, one)
        elif kind < 0.33 and world.leader is not None:
            what, do = "the lease ends", world.end_lease
        elif kind < 0.45 and one.opened:
            what, do = f"{one.id} writes", partial(world.write, one)
        else:
            what, do = chance.choice(world.steps(wild=chance.random() < 0.2))
        told.append(what)
        try:
            do()
        except Broken as broken:
            raise Broken(f"seed {seed}: {broken}: … {'; '.join(told[-60:])}") from None
    return world


def _at_most(chance: random.Random, limit: float) -> bool:
    return chance.random() < limit
