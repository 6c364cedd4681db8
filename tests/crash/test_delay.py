"""Delayed messages survive: each is delivered at least once, whenever the process or power goes.

A broker's delivery runs on a simulated disk. Before many of the calls that change the disk, copies
of it are taken as a kill and as a loss of power would leave it: between a delivery and the note of
it, between the note and the file, in the middle of both. Each copy is opened and run until nothing
waits any more. Then

1. every message that waits in the opened store has been delivered there, at least once;
2. under sync flush every message that was acknowledged waits in the opened store;
3. after a kill no more than one batch of each level comes twice.
"""

import os
from random import Random

import pytest
from tests.stores import maintain
from tests.unit.rocketmq.broker.delay.test_delay import Harness

from sprocket.rocketmq.broker.delay.delay import BATCH
from sprocket.testing.disk import SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = 30
STEPS = 25
CHANGES = frozenset({"write", "sync", "rename", "resize", "create", "sync_folder", "remove"})
TAKEN_MAX = 6


class Life:
    """One process with messages that come, time that passes, and copies of its disk."""

    def __init__(self, random: Random, flush: str) -> None:
        self.random = random
        self.flush = flush
        self.harness = Harness(flush=flush).start()
        self.sent: list[bytes] = []
        self.states: list[tuple[SimulatedDisk, list[bytes], int, bool]] = []
        self.harness.disk.before = self._before

    def run(self) -> None:
        """Live for a while."""
        for _ in range(STEPS):
            kind = self.random.randrange(5)
            if kind < 2:
                for _ in range(self.random.choice((1, 3, BATCH))):
                    body = b"%d" % len(self.sent)
                    self.harness.wait(self.random.choice((1, 1, 2)), body)
                    self.sent.append(body)
            elif kind < 4:
                self.harness.timers.advance(self.random.choice((10, 500, 1010, 5000)))
            elif self.random.random() < 0.5:
                self.harness.progress.table.flush()
            else:
                maintain(self.harness.store)
        self.harness.disk.before = None

    def _before(self, call: str, _path: str) -> None:
        if call in CHANGES and self.random.random() < 0.04 and len(self.states) < TAKEN_MAX:
            is_kill = self.random.random() < 0.5
            disk = self.harness.disk
            found = disk.kill() if is_kill else disk.crash(self.random.randrange)
            self.states.append((found, list(self.sent), self.harness.clock.now_ms(), is_kill))


def check(life: Life, found: SimulatedDisk, sent: list[bytes], is_kill: bool, at: str) -> None:
    """Open a copy, deliver everything, and see that nothing is missing."""
    harness = Harness(found, clock=life.harness.clock, flush=life.flush).start()
    harness.timers.advance(10_000)
    waiting = [
        one.body
        for queue_id in (0, 1)
        for one in harness.delivered("SCHEDULE_TOPIC_XXXX", queue_id)
    ]
    bodies = harness.bodies()
    missing = set(waiting) - set(bodies)
    assert not missing, f"CRASH_SEED={at}: not delivered: {sorted(missing)}"
    if life.flush == "sync":
        assert set(sent) <= set(waiting), f"CRASH_SEED={at}: acknowledged and gone"
    if is_kill:
        twice = len(bodies) - len(set(bodies))
        assert twice <= 2 * BATCH, f"CRASH_SEED={at}: {twice} came twice"


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_every_delayed_message_is_delivered(flush: str) -> None:
    """Over many lives, kills and losses of power."""
    states = 0
    for seed in range(SEED, SEED + RUNS):
        life = Life(Random(seed), flush)
        life.run()
        for found, sent, _, is_kill in life.states:
            check(life, found, sent, is_kill, str(seed))
        states += len(life.states)
    assert states >= 2 * RUNS or RUNS < 10


def test_a_delivery_noted_before_its_copy_would_be_found() -> None:
    """The checks above see a message that is lost: progress ahead of the copies loses it."""
    life = Life(Random(1), "sync")
    life.harness.wait(1, b"lost")
    life.harness.progress.note(1, 1)
    with pytest.raises(AssertionError, match="not delivered"):
        check(life, life.harness.disk.kill(), [b"lost"], is_kill=True, at="1")
