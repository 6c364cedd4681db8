"""Entities are what they were after any crash, up to a change that was not durable yet."""

import contextlib
from random import Random

import pytest

from sprocket.base.disk import Steps, read_file, replace_file, steps
from sprocket.base.errors import DiskFull, ForeignStore
from sprocket.rabbitmq.model.binding import Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.model.vhost import Vhost
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.testing.disk import SimulatedDisk

FOLDER = "/n"
SNAPSHOT = f"{FOLDER}/metadata.json"

State = frozenset[str]


def opened(disk: SimulatedDisk) -> MetadataTable:
    """Open the table of a disk."""
    disk.make_folder(FOLDER)
    return MetadataTable(disk, FOLDER)


def state(table: MetadataTable) -> State:
    """Return what is in it."""
    vhosts = table.of_node(Vhost)
    inside = [one.name for vhost in vhosts for one in table.of_vhost(vhost.name, DeclaredQueue)]
    names = [f"{vhost.name} {len(table.of_vhost(vhost.name, DeclaredQueue))}" for vhost in vhosts]
    return frozenset([*names, *inside, *(one.name for one in table.of_node(User))])


def named(found: State) -> State:
    """Return what has a name, without how much there is in a virtual host."""
    return frozenset(one for one in found if " " not in one)


def finish(writing: Steps, result: object) -> None:
    """Do what is left of some steps, of which the first has given a result."""
    with contextlib.suppress(StopIteration):
        while True:
            result = writing.send(result)()


def queue(vhost: str, number: int) -> DeclaredQueue:
    """Return a queue."""
    return DeclaredQueue(vhost=vhost, name=f"{vhost}-q{number}", is_durable=True)


def change(table: MetadataTable, rng: Random) -> None:
    """Do one of the changes that there are."""
    vhost = rng.choice("ab")
    is_there = vhost in {one.name for one in table.of_node(Vhost)}
    what = rng.randrange(6)
    if not is_there:
        table.write(put=[Vhost(name=vhost), queue(vhost, 0)])
    elif what == 0:
        table.write(gone=[Vhost(name=vhost)])
    elif what == 1:
        table.write(put=[User(name=f"u{rng.randrange(4)}")])
    elif what == 2:
        table.write(gone=[User(name=f"u{rng.randrange(4)}")])
    elif what == 3:
        table.write(gone=[queue(vhost, rng.randrange(4))], put=[queue(vhost, rng.randrange(4))])
    else:
        table.write(put=[queue(vhost, number) for number in range(rng.randrange(5))])


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_leaves_what_was_durable(seed: int) -> None:
    """And of later changes any; a kill takes nothing."""
    rng = Random(seed)
    disk = SimulatedDisk()
    table = opened(disk)
    past: list[State] = [state(table)]
    durable = 0
    snapshot: Steps | None = None
    result: object = None
    for _ in range(60):
        what = rng.randrange(10)
        if what < 6:
            change(table, rng)
            past.append(state(table))
        elif what == 6:
            table.journal.sync()
            durable = len(past) - 1
        elif snapshot is None:
            snapshot, result = table.flush_steps(), None
        else:
            try:
                result = snapshot.send(result)()
            except StopIteration:
                snapshot = None
        assert past[-1] == state(opened(disk.kill()))
        after = state(opened(disk.crash(rng.randrange)))
        possible = [named(one) for one in past[durable:]]
        assert frozenset.intersection(*possible) <= named(after) <= frozenset.union(*possible)


def test_a_snapshot_is_of_one_moment() -> None:
    """What changes while it is written is in the journal, not in it."""
    disk = SimulatedDisk()
    table = opened(disk)
    table.write(put=[Vhost(name="a"), *(queue("a", number) for number in range(1000))])
    before = state(table)
    writing = table.flush_steps()
    first = next(writing)()
    table.write(gone=[Vhost(name="a")])
    table.write(put=[User(name="u")])
    finish(writing, first)
    for name in disk.list(FOLDER):
        if name.startswith("metadata.journal"):
            disk.remove(f"{FOLDER}/{name}")
    assert state(opened(disk)) == before


def test_a_damaged_snapshot_is_taken_from_its_backup() -> None:
    """Any flipped bit is noticed; with the journal nothing is missing."""
    disk = SimulatedDisk()
    table = opened(disk)
    for number in range(3):
        table.write(put=[Vhost(name="a"), queue("a", number)])
        steps.run(table.flush_steps())
    expected = state(table)
    data = read_file(disk, SNAPSHOT)
    for at in range(0, len(data), 7):
        copy = disk.kill()
        replace_file(copy, SNAPSHOT, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert expected == state(opened(copy))
    replace_file(disk, SNAPSHOT, data[:-9])
    replace_file(disk, SNAPSHOT + ".bak", b"{}\n1\n")
    with pytest.raises(ForeignStore, match="damaged"):
        opened(disk)


def test_a_virtual_host_whose_line_is_damaged_is_made_anew() -> None:
    """What is in it has lines of its own; the next start finds it, too."""
    disk = SimulatedDisk()
    table = opened(disk)
    table.write(put=[Vhost(name="a")])
    table.write(put=[queue("a", 0)])
    path = f"{FOLDER}/metadata.journal.1"
    file = disk.open(path, write=True)
    file.write([b"x"], 5)
    for _ in range(2):
        assert state(opened(disk)) == {"a 1", "a-q0"}


def test_what_cannot_be_written_is_not_there() -> None:
    """Neither in memory nor on the disk."""
    disk = SimulatedDisk()
    table = opened(disk)
    table.write(put=[User(name="u")])

    def full(call: str, _path: str) -> None:
        if call == "write":
            raise DiskFull("no space")

    disk.before = full
    with pytest.raises(DiskFull):
        table.write(put=[User(name="v")], gone=[User(name="u")])
    disk.before = None
    assert state(table) == state(opened(disk.kill())) == {"u"}
    table.write(put=[User(name="w")])
    assert state(opened(disk.kill())) == {"u", "w"}


def test_a_clean_stop_leaves_a_snapshot_alone() -> None:
    """The next start has nothing to read but that, and a second stop writes nothing."""
    disk = SimulatedDisk()
    table = opened(disk)
    to = Destination(ResourceKind.QUEUE, "a-q1")
    table.write(put=[Vhost(name="a"), queue("a", 1), binding("a", "amq.topic", to, "k")])
    expected = state(table)
    table.close()
    again = opened(disk)
    assert (state(again), again.journal.is_behind) == (expected, False)
    assert list(again.flush_steps()) == []
