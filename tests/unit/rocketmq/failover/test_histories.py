"""Whatever decider, network and machines do: one master an epoch, and nothing acknowledged is lost.

The histories are those of `tests.failover_world`. Four mistakes that others have made are planted
in the table of states one at a time, and must be seen.
"""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
from tests.failover_world import UNKNOWN, Broken, Machine, World, explore, settle, wander

from sprocket.rocketmq.failover import Mastership, Phase, mastership


class Begin(Protocol):
    """Gives a world in which something is about to happen."""

    def __call__(self, count: int, table: type[Mastership] = Mastership) -> World:
        """Return it, with so many members that decide by a table."""


SEEDS = 40
STEPS = 100


def settled(count: int, table: type[Mastership] = Mastership) -> World:
    """Return a set in which the first one is master, and has acknowledged a record of all."""
    world = World(count, table)
    settle(world)
    master = next(one for one in world.machines.values() if one.opened)
    world.write(master)
    settle(world)
    return world


def test_a_set_finds_a_master_and_all_are_in_sync() -> None:
    """When everything works."""
    world = settled(3)
    phases = sorted(one.mastership.phase.name for one in world.machines.values())
    assert phases == ["FOLLOW", "FOLLOW", "MASTER"]
    assert len(world.state.in_sync) == 3
    assert len(world.acknowledged) == 1


def began(count: int, table: type[Mastership] = Mastership) -> World:
    """Nobody was ever master."""
    return World(count, table)


def dying(count: int, table: type[Mastership] = Mastership) -> World:
    """A master with a record that is not acknowledged, whose lease has ended."""
    world = settled(count, table)
    master = next(one for one in world.machines.values() if one.opened)
    world.write(master)
    world.end_lease()
    return world


def growing(count: int, table: type[Mastership] = Mastership) -> World:
    """A master alone in sync that has just heard a slave which has everything."""
    world = settled(count, table)
    master, slave = sorted(world.machines.values(), key=lambda one: not one.opened)[:2]
    world.wait(11.0)
    for _ in range(3):
        world.renew(master)
        for request in list(world.requests):
            world.carry(request)
            world.answer(request, request.ruling or UNKNOWN)
        world.ask(master)
    assert world.state.in_sync == {master.name}
    assert master.mastership.phase is Phase.MASTER
    world.replicate(master, slave)
    world.hear(0)
    return world


@pytest.mark.parametrize(
    ("begin", "count", "depth"),
    [(began, 2, 5), (dying, 2, 4), (growing, 2, 4), (dying, 3, 3)],
)
def test_all_that_can_happen_in_some_steps(begin: Begin, count: int, depth: int) -> None:
    """From where things are delicate, every order of a few steps."""
    assert explore(begin(count), depth) > 100


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("begin", "count", "depth"),
    [(began, 2, 8), (dying, 2, 7), (growing, 2, 7), (dying, 3, 5), (growing, 3, 5)],
)
def test_all_that_can_happen_in_more_steps(begin: Begin, count: int, depth: int) -> None:
    """The same, further."""
    assert explore(begin(count), depth, states_max=20_000) > 1000


@pytest.mark.parametrize("count", [2, 3])
def test_long_histories(count: int) -> None:
    """By chance, with kills and emptied disks."""
    masters = acknowledged = 0
    for seed in range(SEEDS):
        world = wander(seed, STEPS, count)
        masters += len(world.opened_by)
        acknowledged += len(world.acknowledged)
    assert masters > 2 * SEEDS
    assert acknowledged > 2 * SEEDS


@pytest.mark.nightly
@pytest.mark.parametrize("count", [2, 3])
def test_many_long_histories(count: int) -> None:
    """The same, many times."""
    for seed in range(10_000, 10_750):
        wander(seed, 4 * STEPS, count)


def carried(world: World, one: Machine) -> None:
    """Have what a member has asked be carried out and answered."""
    for request in [asked for asked in world.requests if asked.member == one.id]:
        if not request.is_answered:
            world.carry(request)
            assert request.ruling is not None
            world.answer(request, request.ruling)


def become(world: World, one: Machine) -> None:
    """Have the lease end, and a member take what nobody has, if it may, and open."""
    if world.leader is not None:
        world.end_lease()
    world.see(one, None)
    for _ in range(4):
        world.ask(one)
        carried(world, one)
        if one.mastership.phase is Phase.CANDIDATE:
            world.wait(0.35)  # others have more
        if one.mastership.phase is Phase.OPENING:
            world.open(one)
            return


def stay(world: World, one: Machine, seconds: float) -> None:
    """Let time pass in which a master renews its lease."""
    until = world.now + seconds
    while world.now < until:
        world.wait(0.5)
        world.renew(one)
        carried(world, one)


def acknowledged_alone(world: World) -> None:
    """A slave that was removed, and lacks what was acknowledged since, tries to become master."""
    first, second = world.machines.values()
    world.cut = {2}
    settle(world, 60)
    world.write(first)
    world.acknowledge(first)
    become(world, second)


def added_before_it_is_known(world: World) -> None:
    """A slave is added, the answer does not come, and the master takes a message."""
    first, second = world.machines.values()
    world.ask(first)
    world.ask(first)
    world.carry(world.requests[-1])
    world.write(first)
    world.acknowledge(first)
    become(world, second)


def acknowledged_long_ago(world: World) -> None:
    """What a slave had in an epoch is cut off in the next, and its word for it comes after that."""
    first, second, third = world.machines.values()
    world.write(first)
    world.replicate(first, second)
    (late,) = world.acks
    world.acks.clear()
    become(world, third)
    settle(world, 4)
    world.cut = {2}
    settle(world, 60)
    assert world.state.in_sync == {first.name, third.name}
    become(world, first)
    world.kill(third)
    world.write(first)
    world.acks.append(late)
    world.hear(0)
    for _ in range(2):
        world.ask(first)
        carried(world, first)
    world.renew(first)
    carried(world, first)
    world.acknowledge(first)
    become(world, second)


def carried_out_after_it_was_read(world: World) -> None:
    """A change lies in a queue while what holds is read; then its slave goes, and it is done."""
    first, second = world.machines.values()
    world.ask(first)
    world.ask(first)
    change = world.requests[-1]
    world.answer(change, UNKNOWN)
    stay(world, first, 0.5)
    world.ask(first)
    stay(world, first, 3.0)
    world.ask(first)
    world.write(first)
    world.acknowledge(first)
    world.carry(change)
    become(world, second)


def removed_before_it_is_known(world: World) -> None:
    """A slave stands still; the change that removes it is not carried out."""
    first, second = world.machines.values()
    world.write(first)
    stay(world, first, 10.5)
    world.ask(first)
    world.acknowledge(first)
    become(world, second)


INCIDENTS: dict[str, tuple[Begin, int, Callable[[World], None]]] = {
    "acknowledged alone": (settled, 2, acknowledged_alone),
    "added before it is known": (growing, 2, added_before_it_is_known),
    "acknowledged long ago": (settled, 3, acknowledged_long_ago),
    "carried out after it was read": (growing, 2, carried_out_after_it_was_read),
    "removed before it is known": (settled, 2, removed_before_it_is_known),
}
PLANTED = {
    "who is not in sync stands": (
        "acknowledged alone",
        "            and self.me in view.state.in_sync\n",
        "",
    ),
    "a slave is added without waiting for it": (
        "added before it is known",
        "every = self._state.in_sync.union(self._joining, *(one.in_sync for one in self._open))",
        "every = self._state.in_sync",
    ),
    "acks of older epochs count": (
        "acknowledged long ago",
        "if self.tenure is None or epoch != self.epoch:",
        "if self.tenure is None:",
    ),
    "what was read settles a change": (
        "carried out after it was read",
        "        self._must_read = False\n",
        "        self._must_read = False\n        self._open.clear()\n",
    ),
    "who removes a slave does not wait for the answer": (
        "removed before it is known",
        "every = self._state.in_sync.union(self._joining, *(one.in_sync for one in self._open))",
        "every = (self._open or [self._state])[-1].in_sync | self._joining",
    ),
}


def planted(before: str, after: str) -> type[Mastership]:
    """Return the table with a mistake in it."""
    source = Path(mastership.__file__).read_text(encoding="utf-8")
    assert source.count(before) == 1
    module = types.ModuleType("planted")
    exec(compile(source.replace(before, after), "planted", "exec"), module.__dict__)  # noqa: S102
    table = module.Mastership
    assert isinstance(table, type)
    # The names of its phases are those of the original, so that the world knows them.
    module.Phase = Phase  # type: ignore[attr-defined]
    module.__dict__.update(
        {name: getattr(mastership, name) for name in ("NEXT", "Happening", "ReadBack")}
    )
    return table


@pytest.mark.parametrize("what", INCIDENTS)
def test_incidents(what: str) -> None:
    """Each is survived: nothing is acknowledged that the next master lacks."""
    begin, count, happens = INCIDENTS[what]
    happens(begin(count))


@pytest.mark.parametrize("what", PLANTED)
def test_mistakes_of_others_are_seen(what: str) -> None:
    """Each breaks in the incident that it is known for."""
    incident, before, after = PLANTED[what]
    begin, count, happens = INCIDENTS[incident]
    table = planted(before, after)
    world = begin(count, table)
    with pytest.raises(Broken):
        happens(world)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "what", ["who is not in sync stands", "a slave is added without waiting for it"]
)
def test_mistakes_of_others_are_met_by_chance(what: str) -> None:
    """These soon enough to see that long histories see something."""
    table = planted(*PLANTED[what][1:])

    def search() -> None:
        for seed in range(5000):
            wander(seed, STEPS, 2 + seed % 2, table)

    with pytest.raises(Broken):
        search()
