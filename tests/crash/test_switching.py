"""Members of a set take turns as master: nothing acknowledged is lost, and all logs become equal.

Three members and a decider that says only what one transaction of it may say: who is in the in-sync
set may take over, each time with an epoch that is one higher; the set changes only at the word of
whoever is the master. Everything else happens at random: a master goes on that does not know yet
that another one has taken over; links are cut, with half a frame on its way; the power goes, with
any of what was not synced lost; slaves follow whom they please, old masters too; logs are cut.

What a master confirms is acknowledged. From then on each later master has it, in its place. In the
end all three follow the last master and have its log, byte for byte.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.members import Member
from tests.replicas import log_of

from sprocket.base.errors import StoreError
from sprocket.rocketmq.replication import EpochSpeech, MemberLog
from sprocket.rocketmq.store.cutting import log_cut
from sprocket.rocketmq.store.epoch_file import EpochFile

SEED = int(os.environ.get("CRASH_SEED", "1"))
RUNS = int(os.environ.get("CRASH_RUNS", "12"))
RUNS_NIGHT = int(os.environ.get("CRASH_RUNS", "300"))
STEPS = 80


class Broken(AssertionError):
    """Something acknowledged is lost, or two logs differ."""


@dataclass
class Decided:
    """What the decider has.

    Attributes:
        epoch: Of the last master.
        master: Which member it is.
        in_sync: Which members each have all that was ever acknowledged.
    """

    epoch: int = 0
    master: int = -1
    in_sync: set[int] = field(default_factory=lambda: {0, 1, 2})


class History:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.members = [Member(number + 1) for number in range(3)]
        self.decided = Decided()
        self.acknowledged = b""
        """The log as far as it was ever acknowledged."""
        self.switches = 0
        self.stubborn = self.members[0]
        """Who does not hear by itself that another one is the master; the first one is it."""
        self.loyal = self.random.choice([0.1, 0.7])
        """How likely a slave follows the newest master, and not any that runs."""

    def run(self) -> None:
        """Have things happen, then have all follow the last master."""
        self.take_over(0)
        happenings: list[tuple[int, Callable[[], None]]] = [
            (8, self.send),
            (16, self.deliver),
            (8, self.link),
            (1, self.cut_link),
            (8, self.grow),
            (1, self.shrink),
            (6, self.switch),
            (3, self.step_down),
            (1, self.lose_power),
        ]
        weights = [weight for weight, _ in happenings]
        for _ in range(STEPS):
            self.random.choices([do for _, do in happenings], weights)[0]()
            self.note()
        self.end()

    # What is acknowledged.

    def masters(self) -> list[Member]:
        """Return all that think they are."""
        return [one for one in self.members if one.epoch >= 0]

    def note(self) -> None:
        """Note what masters confirm: it must agree with what was acknowledged before."""
        for one in self.masters():
            log, confirmed = log_of(one.store), one.slaves.confirmed
            if confirmed > len(log):
                raise Broken(f"{confirmed} bytes are confirmed of {len(log)}")
            shared = min(confirmed, len(self.acknowledged))
            if log[:shared] != self.acknowledged[:shared]:
                raise Broken(f"epoch {one.epoch} has other bytes than were acknowledged")
            if confirmed > len(self.acknowledged):
                self.acknowledged = log[:confirmed]

    def check(self, one: Member) -> None:
        """Check that a master has all that was acknowledged."""
        if log_of(one.store)[: len(self.acknowledged)] != self.acknowledged:
            raise Broken(f"the master of epoch {one.epoch} lacks what was acknowledged")

    # What happens.

    def send(self) -> None:
        """Some master gets messages."""
        found = self.masters()
        if found:
            one = self.random.choice(found)
            one.add(
                *[self.random.choice([1, 40, 300, 1500]) for _ in range(self.random.randrange(3))]
            )

    def slaves(self) -> list[Member]:
        """Return all that follow."""
        return [one for one in self.members if one.epoch < 0]

    def deliver(self) -> None:
        """Some slave takes some of what it is sent, and cuts its log if it must."""
        found = [one for one in self.slaves() if one.wire.sent]
        if not found:
            return
        one = self.random.choice(found)
        size = self.random.choice([1, 36, self.random.randrange(1, 3000), 1 << 20, 1 << 20])
        one.take(size, syncs=self.random.random() < 0.8)
        if one.log.must_cut is not None:
            self.maybe_lose_power(one)
            if one.log.must_cut is not None:
                one.cut()

    def link(self) -> None:
        """Some slave follows whoever it thinks is the master, mostly the one that is."""
        found = self.masters()
        if self.slaves() and found:
            one = self.random.choice(self.slaves())
            newest = max(found, key=lambda master: master.epoch)
            one.link(newest if self.random.random() < self.loyal else self.random.choice(found))

    def cut_link(self) -> None:
        """Some link ends."""
        if self.slaves():
            self.random.choice(self.slaves()).cut_link()

    def current(self) -> Member | None:
        """Return the master that the decider knows, if it runs."""
        one = self.members[self.decided.master]
        return one if one.epoch == self.decided.epoch else None

    def require(self, one: Member, pending: set[int]) -> None:
        """Tell a master who must have a message."""
        numbers = (self.decided.in_sync | pending) - {self.decided.master}
        one.require([self.members[number] for number in numbers])

    def grow(self) -> None:
        """The master takes one into the in-sync set that has all that is confirmed.

        From before it asks until it knows, messages wait for that one too.
        """
        one = self.current()
        if one is None:
            return
        for slave in one.slaves.all:
            number = next(n for n, m in enumerate(self.members) if m.replica_id == slave.replica_id)
            if number in self.decided.in_sync or slave.acknowledged < one.slaves.confirmed:
                continue
            self.require(one, {number})
            if self.random.random() < 0.8:
                self.decided.in_sync.add(number)
            self.require(one, set())

    def shrink(self) -> None:
        """The master goes on without one."""
        one = self.current()
        others = sorted(self.decided.in_sync - {self.decided.master})
        if one is not None and others:
            self.decided.in_sync.remove(self.random.choice(others))
            self.require(one, set())

    def switch(self) -> None:
        """Some slave of the in-sync set takes over; the master does not know it yet."""
        ready = [
            number
            for number, one in enumerate(self.members)
            if number in self.decided.in_sync and one.epoch < 0
        ]
        if ready:
            self.take_over(self.random.choice(ready))

    def take_over(self, number: int) -> None:
        """Make one the master."""
        self.switches += 1
        self.decided.epoch += 1
        self.decided.master, self.decided.in_sync = number, {number}
        one = self.members[number]
        if self.random.random() < 0.3:
            one.close(crash=self.random.randrange)
        one.open_master(self.decided.epoch)
        self.check(one)

    def step_down(self) -> None:
        """Whoever is not the master any more learns of it, sooner or later."""
        for one in self.masters():
            if one is not self.current() and (one.outrun or one is not self.stubborn):
                self.maybe_lose_power(one)
                one.open_slave()
                one.outrun.clear()

    def maybe_lose_power(self, one: Member) -> None:
        """Have the power go for one that is about to do something else."""
        if self.random.random() < 0.3:
            one.close(crash=self.random.randrange)
            one.open_slave()

    def lose_power(self) -> None:
        """Some member dies; a master comes back as a slave."""
        one = self.random.choice(self.members)
        if one is not self.stubborn or one.epoch < 0:
            one.close(crash=self.random.randrange)
            one.open_slave()

    # The end.

    def end(self) -> None:
        """Have one of the in-sync set take over, and all others follow it."""
        for one in self.masters():
            one.open_slave()
        number = self.random.choice(sorted(self.decided.in_sync))
        self.take_over(number)
        master = self.members[number]
        master.add(7, 70)
        for one in self.slaves():
            one.follow(master)
        self.note()
        for one in self.slaves():
            if log_of(one.store) != log_of(master.store):
                raise Broken("logs differ")
            if one.epochs.epochs != master.epochs.epochs:
                raise Broken("epochs differ")
            one.close()
        master.close()


def run(seed: int) -> History:
    """Run one seed."""
    history = History(seed)
    history.run()
    return history


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    """And all logs are equal in the end."""
    run(seed)


@pytest.mark.nightly
def test_nothing_acknowledged_is_lost_in_many_runs() -> None:
    """Of which enough acknowledge something, switch, and cut logs."""
    histories = [run(seed) for seed in range(1000, 1000 + RUNS_NIGHT)]
    assert sum(len(one.acknowledged) for one in histories) > 1000 * RUNS_NIGHT
    assert sum(one.switches for one in histories) > 3 * RUNS_NIGHT
    cuts = [cut for one in histories for member in one.members for cut in member.cuts]
    assert len(cuts) > RUNS_NIGHT // 2
    assert any(cut.keeps_nothing for cut in cuts)


def finds(runs: int = 100) -> bool:
    """Tell whether one of some runs finds that something is wrong."""
    for seed in range(1, runs):
        try:
            run(seed)
        except (AssertionError, StoreError, ValueError):
            print(f"found by seed {seed}")
            return True
    return False


def test_an_epoch_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that goes back to a master whose epoch is over acknowledges what is lost then."""
    monkeypatch.setattr(MemberLog, "_check_epoch", lambda _: None)
    monkeypatch.setattr(EpochSpeech, "_check_epoch", lambda *_: None)
    monkeypatch.setattr(EpochFile, "promise", lambda *_: None)
    assert finds()


def test_a_cut_without_zeros_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old bytes come to be a part of the log again (RocketMQ #10666)."""
    monkeypatch.setattr(log_cut, "_cut", lambda *_: None)
    assert finds()


@pytest.mark.nightly
def test_a_log_that_is_padded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that repairs its log as a single broker does has another one than its master."""
    monkeypatch.setattr(Member, "ends_at_damage", False)
    assert finds(300)
