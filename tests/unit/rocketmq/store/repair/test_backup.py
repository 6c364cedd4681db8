"""A store is copied while messages come, are put into queues, and old ones go."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interleaved import InterleavedDisk, now_and_then, require_any_look, work
from tests.stores import ROOT, SMALL, clean, maintain, new, open_store

from sprocket.base.disk import RealDisk, replace_file
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.rights import Acl, AclUser
from sprocket.rocketmq.settings import RetentionSettings, StoreSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.repair import back_up_store, check
from sprocket.rocketmq.store.rights_tables import RightsTables
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

COPY = "/copy"


class Load:
    """A broker's store at work; `stored` has the bodies of what is durable, by queue."""

    def __init__(self, disk: SimulatedDisk, rng: random.Random) -> None:
        self.disk = disk
        self.clock = FakeClock()
        self.store = open_store(disk, clock=self.clock)
        self.stored: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self.may_delete = True
        self._rng = rng

    def work(self) -> None:
        """Do one thing."""
        rng, store = self._rng, self.store
        self.clock.advance(1000)
        match rng.randrange(12):
            case 0:
                maintain(store)
            case 1:
                store.dispatch()
                store.dispatch_index()
            case 2 if self.may_delete and store.end - store.first > 3 * SMALL.log.segment_bytes:
                clean(store, RetentionSettings(keep_hours=0), at_once=True)
            case _:
                queue = rng.randrange(3)
                body = b"%d of %d" % (len(self.stored[queue]), queue)
                body = body.ljust(rng.choice((20, 20, 900)), b".")
                store.append(new("topic", queue, body, name=f"N{self.clock.now_ms()}"))
                store.write()
                store.sync()
                self.stored[queue].append(body)


def found(disk: SimulatedDisk) -> dict[int, dict[int, bytes]]:
    """Return the bodies of the copy by queue and offset; each has its unit."""
    store = Store.open(disk, COPY, StoreSettings(fill_ahead_bytes=0), FakeClock(), SMALL)
    bodies: dict[int, dict[int, bytes]] = {0: {}, 1: {}, 2: {}}
    for _, data in store.records():
        one = record.decode(data)
        bodies[one.queue_id][one.queue_offset] = bytes(one.body)
    assert store.report.damage == []
    for queue, here in bodies.items():
        assert store.queue_end("topic", queue) == max(here, default=-1) + 1 or not here
    store.close()
    assert list(check.check(disk, COPY)) == []
    return bodies


def check_copy(load: Load, meanwhile: Callable[[], None]) -> None:
    """Make a backup; what was stored and was not deleted since is in it, where it was."""
    before = {queue: list(bodies) for queue, bodies in load.stored.items()}
    kept = {at: record.decode(data) for at, data in load.store.records()}
    back_up_store(InterleavedDisk(load.disk, meanwhile), ROOT, COPY)
    bodies = found(load.disk)
    for one in (one for at, one in kept.items() if at >= load.store.first):
        assert bodies[one.queue_id][one.queue_offset] == before[one.queue_id][one.queue_offset]
    for queue, here in bodies.items():
        assert here == {offset: load.stored[queue][offset] for offset in here}


@pytest.mark.parametrize("seed", range(15))
def test_a_store_is_copied_at_work(seed: int) -> None:
    """Whatever it does meanwhile; files that are deleted then are in the copy."""
    disk, rng = SimulatedDisk(), random.Random(seed)
    disk.has_holes = seed % 3 > 0
    load = Load(disk, rng)
    work(load, rng.randrange(300))
    check_copy(load, now_and_then(load, rng))


@pytest.mark.slow
def test_much_may_happen_between_any_two_looks() -> None:
    """The log goes on in its next files."""

    def check(load: Load, meanwhile: Callable[[], None]) -> None:
        load.may_delete = False
        check_copy(load, meanwhile)

    require_any_look(lambda rng: Load(SimulatedDisk(), rng), check, count=60, every=5)


def test_what_is_not_the_stores_is_left_out() -> None:
    """The folder of another product, locks, and what a job has left."""
    disk = SimulatedDisk()
    load = Load(disk, random.Random(0))
    for name in ("rabbitmq/x", "mine", "rebuilt/x", "sprocket.room"):
        disk.make_folder(f"{ROOT}/{name}".rpartition("/")[0])
        replace_file(disk, f"{ROOT}/{name}", b"x")
    back_up_store(disk, ROOT, COPY, {"rabbitmq"})
    assert {*disk.list(COPY)} >= {"mine", "abort", "checkpoint", "config", "commitlog"}
    assert not {*disk.list(COPY)} & {"rabbitmq", "rebuilt", "sprocket.room", "lock"}
    load.store.close()


def test_users_are_copied_while_a_broker_has_them_open(tmp_path: Path) -> None:
    """As they are then; nobody who makes a backup loses who may do what."""
    disk, source, target = RealDisk(), str(tmp_path / "store"), str(tmp_path / "copy")
    layout = StoreLayout(source)
    for folder in (layout.commitlog, layout.consumequeue, layout.index):
        disk.make_folder(folder)
    tables = RightsTables(disk, source)
    for number in range(12):
        tables.put_user(AclUser(f"u{number:02}", "secret"))
        tables.put_acl(Acl(f"User:u{number:02}", ()))
    tables.delete_user("u03")
    users, acls = tables.users(), tables.acls()
    back_up_store(disk, source, target)
    tables.put_user(AclUser("later", "secret"))
    tables.close()
    copied = RightsTables(disk, target)
    assert (copied.users(), copied.acls()) == (users, acls)
    assert len(users) == 11
    copied.close()
