"""Every call of the disk fails once under a virtual host's store: an error, never a lie.

A script opens a folder, publishes, acknowledges, flushes, purges, collects, stops and starts. The
same script is lived with each of its calls failing in turn, for want of space or with an I/O error,
not done or done all the same. What was synced is there afterwards, also when the power goes; what
was settled, and that was synced, is not.
"""

import contextlib
import errno
from itertools import count

import pytest
from tests.rabbit_vhosts import LARGE, ROOT, Q, flush, ids, opened, publish

from sprocket.base.disk import steps
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.rabbitmq.store.vhost import VhostStore
from sprocket.testing.disk import SimulatedDisk

NAMES = (Q, QueueName("/", "other"))
SCRIPT = (
    *("publish", "commit", "publish", "flush", "ack", "commit", "upkeep", "publish", "commit"),
    *("stop", "publish", "ack", "commit", "flush", "upkeep", "publish", "commit", "purge"),
    *("publish", "commit", "flush", "upkeep", "ack", "kill", "publish", "commit", "ack", "commit"),
    *("upkeep", "publish", "flush", "commit", "stop"),
)


EVERY = 5
"""So many calls further the next one fails: the four kinds of faults begin at different ones."""


class Life:
    """One run of the script, and what it may rely on."""

    def __init__(self, nth: int, code: int, kept: int) -> None:
        self.disk = SimulatedDisk()
        self.disk.fail("any", nth, code, kept)
        self.is_faulty = True
        self._fault = nth, code, kept
        self.confirmed: set[int] = set()
        self.settling: set[int] = set()
        self.settled: set[int] = set()
        self.errors = 0
        self._pending: set[int] = set()
        self._next = 0
        self._store: VhostStore | None = None

    def run(self) -> None:
        """Live it; whoever meets an error goes on as an owner would."""
        for step in SCRIPT:
            try:
                self._step(step)
            except StoreError:
                self.errors += 1
                store = self._store
                if store is None or store.log.failure or step in ("stop", "kill"):
                    self._end()

    def _end(self) -> None:
        """Give the store up; what was not synced is not promised."""
        if self._store is not None:
            self._store.close()
        self._follow()
        self._store = None
        self._pending = set()

    def _follow(self) -> None:
        """Go on with what the process leaves; a fault that has not come yet is still to come."""
        nth, code, kept = self._fault
        nth -= self.disk.calls["any"]
        self.disk = self.disk.kill()
        self.is_faulty = nth > 0
        if self.is_faulty:
            self._fault = nth, code, kept
            self.disk.fail("any", *self._fault)

    def _step(self, step: str) -> None:
        if self._store is None:
            self._store = opened(self.disk)
        store = self._store
        queues = [store.queue(name) for name in NAMES]
        match step:
            case "publish":
                first = max(self._next, *(queue.next_seq_id for queue in queues))
                self._next = first + 3
                for queue in queues:
                    publish(queue, first, first + 1)
                    publish(queue, first + 2, size=LARGE)
                self._pending |= {first, first + 1, first + 2}
            case "commit":
                store.log.commit()
                self._note_sync()
            case "flush":
                flush(store, *queues)
                self._note_sync()
            case "upkeep":
                steps.run(store.flush_steps(store.flush_due(0)))
                steps.run(store.collect_steps())
            case "ack":
                left = ids(queues[0])
                self.settling |= set(left[::2])
                for queue in queues:
                    queue.ack([one for one in left[::2] if one in ids(queue)])
            case "purge":
                self.settling |= set(ids(queues[0]))
                for queue in queues:
                    queue.purge()
            case "stop":
                steps.run(store.close_steps())
                self._note_sync()
                self._store = None
            case "kill":
                self._end()

    def _note_sync(self) -> None:
        self.confirmed |= self._pending
        self._pending = set()
        self.settled |= self.settling

    def check(self) -> None:
        """See what is there after a kill, and after a loss of power."""
        self._end()
        for disk in (self.disk.kill(), self.disk.crash(lambda _: 0)):
            store = opened(disk)
            for name in NAMES:
                found = set(ids(store.queue(name)))
                assert self.confirmed - self.settling <= found
                assert not self.settled & found
            assert store.report.lost == 0 or self.errors


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_each_call_fails_once(code: int, kept: int) -> None:
    """Of any kind, wherever it is made."""
    told = 0
    for nth in count(1 + (code + kept) % EVERY, EVERY):
        life = Life(nth, code, kept)
        life.run()
        life.check()
        told += life.errors > 0
        if life.is_faulty:  # the script is over before it comes
            break
    assert told > 100 // EVERY


def fill_up(disk: SimulatedDisk, nth: int) -> None:
    """Have a disk be full from its nth call on."""
    left = [nth]

    def look(_call: str, _path: str) -> None:
        left[0] -= 1
        disk.is_full = disk.is_full or left[0] == 0

    disk.before = look


@pytest.mark.slow
def test_a_store_goes_on_when_there_is_room_again() -> None:
    """The same process, full from any call on: nothing is lost, and all that is due can be done."""
    for nth in count(1):
        disk = SimulatedDisk()
        store = opened(disk)
        queue = store.queue(Q)
        publish(queue, *range(12), size=LARGE)
        store.log.commit()
        queue.ack(range(10))
        fill_up(disk, nth)
        for work in (store.log.commit_steps(), store.flush_steps([queue]), store.collect_steps()):
            with contextlib.suppress(StoreError):
                steps.run(work)
        was_full, disk.is_full, disk.before = disk.is_full, False, None
        assert store.log.failure is None
        publish(queue, 20, size=LARGE)
        for work in (store.log.commit_steps(), store.flush_steps([queue]), store.collect_steps()):
            steps.run(work)
        assert ids(queue) == [10, 11, 20]
        steps.run(store.close_steps())
        assert list(check_vhost(disk, ROOT)) == []
        again = opened(disk)
        assert (again.report.clean_stop, ids(again.queue(Q))) == (True, [10, 11, 20])
        if not was_full:
            assert nth > 30
            return
