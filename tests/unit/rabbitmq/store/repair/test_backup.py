"""A virtual host is copied while queues get, lose and flush messages."""

import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.interleaved import (
    AtLook,
    InterleavedDisk,
    now_and_then,
    require_any_look,
    work,
)
from tests.rabbit_vhosts import LARGE, PATHS, ROOT, Q, ids, opened, publish, segment

from sprocket.base.disk import steps
from sprocket.base.errors import StoreLocked
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store import vhost
from sprocket.rabbitmq.store.repair import back_up_node, check_vhost
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import SimulatedDisk

NODE, COPY = "/node", "/copy"
FOLDER = f"{NODE}/msg_stores{ROOT}"
COPIED = f"{COPY}/msg_stores{ROOT}"
QUEUES = (Q, QueueName("/", "other"), QueueName("/", "third"))


def at(disk: SimulatedDisk, folder: str) -> VhostStore:
    """Open the store in a folder."""
    place = VhostPlace(disk, folder, "/")
    return VhostStore.open(place, VhostStoreSettings.small(), VhostGeometry.small())


class Load:
    """Random work of three queues; `held` is what each of them has, as far as is durable."""

    def __init__(self, disk: SimulatedDisk, rng: random.Random) -> None:
        self.disk = disk
        self.store = at(disk, FOLDER)
        self.queues = {name: self.store.queue(name) for name in QUEUES}
        self.held: dict[QueueName, set[int]] = {name: set() for name in QUEUES}
        self.acked: dict[QueueName, set[int]] = {name: set() for name in QUEUES}
        self._next = dict.fromkeys(QUEUES, 0)
        self._rng = rng
        self._now = 0.0

    def work(self) -> None:
        """Do one thing, durably."""
        rng = self._rng
        if job := self.store.log.begin_fill():  # as group commit has it done, ahead of the writer
            job.run()
            job.finish(None)
        name = rng.choice(QUEUES)
        queue, held = self.queues[name], self.held[name]
        match rng.randrange(8):
            case 0 | 1 | 2:
                number = self._next[name]
                self._next[name] += 1
                publish(queue, number, size=rng.choice((20, 20, LARGE)))
                self.store.log.commit()
                held.add(number)
            case 3 | 4 if held:
                gone = rng.sample(sorted(held), rng.randint(1, len(held)))
                queue.ack(gone)
                self.store.log.commit()
                held.difference_update(gone)
                self.acked[name].update(gone)
            case _:
                self._now += 10
                steps.run(self.store.flush_steps(self.store.flush_due(self._now)))
                steps.run(self.store.collect_steps())


def check(load: Load, meanwhile: Callable[[], None]) -> None:
    """Make a backup; what was there and was not acknowledged since is in it, and nothing else."""
    before = {name: set(held) for name, held in load.held.items()}
    acked = {name: set(gone) for name, gone in load.acked.items()}
    back_up_node(InterleavedDisk(load.disk, meanwhile), NODE, COPY)
    copy = at(load.disk, COPIED)
    assert copy.report.damage == []
    assert copy.report.lost == 0
    for name in QUEUES:
        found = set(ids(copy.queue(name)))
        assert before[name] - load.acked[name] <= found
        assert not found & acked[name]
    steps.run(copy.close_steps())
    assert list(check_vhost(load.disk, COPIED)) == []


@pytest.mark.parametrize("seed", range(15))
def test_a_node_is_copied_at_work(seed: int) -> None:
    """Whatever its queues do meanwhile, a little or a lot."""
    rng = random.Random(seed)
    load = Load(SimulatedDisk(), rng)
    work(load, rng.randrange(200))
    check(load, now_and_then(load, rng))


@pytest.mark.slow
def test_much_may_happen_between_any_two_looks() -> None:
    """The log goes on in its next file, for one."""
    require_any_look(lambda rng: Load(SimulatedDisk(), rng), check, count=40)


def test_a_virtual_host_that_is_deleted_meanwhile_is_left_out() -> None:
    """At whichever look: all of it is in the copy, or nothing."""
    number, is_deleted = 0, True
    while is_deleted:
        load = Load(SimulatedDisk(), random.Random(number))
        work(load, 20)
        load.store.close()
        number += 1
        disk = load.disk
        back_up_node(
            InterleavedDisk(disk, AtLook(number, partial(disk.remove_tree, FOLDER))), NODE, COPY
        )
        is_deleted = not disk.is_folder(FOLDER)
        if disk.is_folder(COPIED):
            copy = at(disk, COPIED)
            assert copy.report.damage == []
            copy.close()
    assert number > 30


def test_a_start_and_a_stop_wait_for_a_backup() -> None:
    """And so does a second one, though not for ever."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0)
    store.log.commit()
    lock = vhost.lock_upkeep(disk, PATHS)
    for wanted in (lambda: vhost.lock_upkeep(disk, PATHS), lambda: steps.run(store.close_steps())):
        with pytest.raises(StoreLocked):
            wanted()
    store.close()
    with pytest.raises(StoreLocked):
        opened(disk)
    lock.release()
    store = opened(disk)
    assert ids(store.queue(Q)) == [0]


def test_a_flush_is_due_again_after_a_backup() -> None:
    """Nothing was flushed while it had the lock."""
    disk = SimulatedDisk()
    store = opened(disk)
    queue = store.queue(Q)
    publish(queue, 0)
    store.log.commit()
    store.flush_due(0)
    for is_copied in (True, False):
        lock = vhost.lock_upkeep(disk, PATHS) if is_copied else None
        due = store.flush_due(1e9)
        assert due == [queue]
        steps.run(store.flush_steps(due))
        assert disk.exists(segment(0)) is not is_copied
        if lock is not None:
            lock.release()
    assert ids(queue) == [0]
