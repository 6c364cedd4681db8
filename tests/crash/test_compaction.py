"""Power may go at any moment of copying, compacting and swapping: no last value is lost.

What a consumer sees after any crash is compared with the messages that were acknowledged: the last
one of each key, or a newer one, is there, none that was deleted comes back, and nothing is seen
that was not sent at its offset. The log is cleaned all the time, so that mostly the copies are the
only place of a value. One seed per run; a failing one is printed.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.compacted import KEYS_BYTES, TOPIC, clean_log, opened, stepwise, view
from tests.stores import new

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFailed, StoreError
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import CHANGES, SimulatedDisk

SEED = int(os.environ.get("CRASH_SEED", "9"))
"""By default one with records that have no checksum of their own: they need their units."""
RUNS = int(os.environ.get("CRASH_RUNS", "2"))
RUNS_NIGHT = int(os.environ.get("CRASH_RUNS", "300"))
KEYS = 4
NOW_MS = 1_700_000_000_000


@dataclass
class Model:
    """What was sent, by queue offset, and up to where it is acknowledged.

    Attributes:
        sent: Keys and bodies that were given an offset; after a crash another one may get it.
        acknowledged: The newest acknowledged offset of each key, with its body.
    """

    sent: dict[int, set[tuple[str, bytes]]] = field(default_factory=dict)
    acknowledged: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def copy(self) -> "Model":
        """Return what is known now."""
        return Model({at: set(one) for at, one in self.sent.items()}, dict(self.acknowledged))

    def check(self, store: Store) -> None:
        """Compare with what a consumer sees."""
        found = view(store)
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        for offset, key, body in found:
            assert (key, body) in self.sent[offset], (offset, key, body)
        last = {key: (offset, body) for offset, key, body in found}
        for key, (offset, body) in self.acknowledged.items():
            if body and not self._may_be_deleted(key, offset):
                assert key in last, f"{key} is lost, {body!r} was at {offset}"
            if key in last:
                assert last[key][0] >= offset, f"{key}: {last[key]} came back, {offset} was last"

    def _may_be_deleted(self, key: str, offset: int) -> bool:
        """Say whether a message that was never acknowledged may have deleted a key."""
        return any(at > offset and (key, b"") in one for at, one in self.sent.items())


class Life:
    """A store that is used in random order until it ends."""

    def __init__(self, disk: SimulatedDisk, model: Model, random: Random, now_ms: int) -> None:
        self.clock = FakeClock(now_ms)
        self.random = random
        self.model = model
        self.store = opened(
            disk,
            clock=self.clock,
            flush=random.choice(("sync", "async")),
            crc_tail=random.choice((True, False)),
        )
        self._waiting: list[tuple[int, str, bytes]] = []
        self._round: Iterator[None] = iter(())
        self._upkeep: Iterator[None] = iter(())

    def step(self) -> None:
        """Do something."""
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                self._send()
            case 5 | 6:
                self._acknowledge()
            case 7 | 8:
                self._go_on()
            case 9 | 10:
                self._go_on_with_round()
            case 11:
                list(self._upkeep)
                clean_log(self.store)

    def _send(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            key = f"k{self.random.randrange(KEYS)}"
            number = len(self.model.sent)
            size = self.random.choice((0, 1, 1, 1, 1, 40))
            body = (b"%d " % number) * size
            offset = self.store.append(new(TOPIC, 0, body, keys=(key,))).queue_offset
            self.model.sent.setdefault(offset, set()).add((key, body))
            self._waiting.append((offset, key, body))
        self.clock.advance(self.random.randrange(50))

    def _acknowledge(self) -> None:
        self.store.write()
        self.store.sync()
        for offset, key, body in self._waiting:
            self.model.acknowledged[key] = offset, body
        self._waiting = []
        self.store.dispatch()

    def _go_on(self) -> None:
        if next(self._upkeep, self) is self:
            self._upkeep = stepwise(self.store.maintain_steps())

    def _go_on_with_round(self) -> None:
        for _ in range(self.random.randrange(1, 8)):
            if next(self._round, self) is self:
                bytes_max = self.random.choice((1, KEYS_BYTES))
                self._round = stepwise(self.store.compact_steps(bytes_max))

    def end(self) -> None:
        """Stop cleanly."""
        list(self._upkeep)
        list(self._round)
        self._acknowledge()
        self.store.close()


def run(seed: int, states_max: int = 6) -> int:
    """Run one seed; return how many states were checked."""
    random = Random(seed)
    disk, model, now_ms, states = SimulatedDisk(), Model(), NOW_MS, 0
    for life_number in range(4):
        taken: list[tuple[SimulatedDisk, Model]] = []

        def maybe_crash(
            call: str,
            path: str,
            disk: SimulatedDisk = disk,
            model: Model = model,
            taken: list[tuple[SimulatedDisk, Model]] = taken,
        ) -> None:
            chance = 0.1 if "/compaction" in path else 0.02
            if call in CHANGES and random.random() < chance and len(taken) < states_max:
                taken.append((disk.crash(random.randrange), model.copy()))

        disk.before = maybe_crash
        try:
            life = Life(disk, model, random, now_ms)
            for _ in range(random.randrange(20, 120)):
                life.step()
            if random.random() < 0.3:
                life.end()
        finally:
            disk.before = None
        taken.append((disk.crash(random.randrange), model.copy()))
        now_ms += 60_000
        for number, (found, known) in enumerate(taken):
            try:
                check(found.kill(), known.copy(), now_ms)
            except Exception as error:
                error.add_note(f"CRASH_SEED={seed}, life {life_number}, crash {number}")
                raise
        states += len(taken)
        disk, model = random.choice(taken)
        disk, model = disk.kill(), model.copy()
    return states


def check(disk: SimulatedDisk, model: Model, now_ms: int) -> None:
    """Open what a crash left, look, go on, compact it, and look again."""
    store = opened(disk, clock=FakeClock(now_ms))
    model.check(store)
    offset = store.append(new(TOPIC, 0, b"after", keys=("after",))).queue_offset
    assert offset > max((at for at, _ in model.acknowledged.values()), default=-1)
    store.write()
    store.sync()
    model.sent.setdefault(offset, set()).add(("after", b"after"))
    model.acknowledged["after"] = offset, b"after"
    steps.run(store.maintain_steps())
    model.check(store)
    steps.run(store.compact_steps(KEYS_BYTES))
    clean_log(store)
    model.check(store)
    store.close()
    model.check(opened(disk, clock=FakeClock(now_ms)))


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
def test_no_crash_loses_a_last_value(seed: int) -> None:
    """Whatever blocks, names and lengths it takes with it."""
    assert run(seed) > 10


@pytest.mark.nightly
def test_no_crash_loses_a_last_value_all_night() -> None:
    """The same, many times."""
    assert sum(run(seed, 30) for seed in range(1000, 1000 + RUNS_NIGHT)) > 50 * RUNS_NIGHT


def _used(disk: SimulatedDisk, model: Model) -> Store:
    """Use a compaction topic for everything that it has; go on after errors."""
    store = opened(disk, clock=FakeClock(NOW_MS))
    for number in range(45):
        key, body = f"k{number % KEYS}", b"%d" % number
        offset = store.append(new(TOPIC, 0, body, keys=(key,))).queue_offset
        model.sent.setdefault(offset, set()).add((key, body))
        store.write()
        store.sync()
        store.dispatch()
        model.acknowledged[key] = offset, body
        if number % 15 == 14:
            for work in (store.maintain_steps(), store.compact_steps(KEYS_BYTES)):
                with suppress(StoreError):
                    steps.run(work)
            model.check(store)
    return store


def _changes(disk: SimulatedDisk, at: int = -1) -> list[str]:
    """Have one change of what compaction keeps fail; give all of them, as they come."""
    seen: list[str] = []

    def before(call: str, path: str) -> None:
        if call in CHANGES and "/compaction" in path:
            seen.append(call)
            if len(seen) == at:
                disk.fail(call)

    disk.before = before
    return seen


def _count() -> int:
    disk = SimulatedDisk()
    seen = _changes(disk)
    _used(disk, Model())
    return len(seen)


def _fail_each(step: int) -> None:
    """Have changes fail, one in each run."""
    random = Random(step)
    for at in range(1 + random.randrange(step), _count() + 1, step):
        disk, model = SimulatedDisk(), Model()
        _changes(disk, at)
        store = _used(disk, model)
        disk.before = None
        disk.heal()
        for found in (disk.kill(), disk.crash(random.randrange), disk.kill().crash(lambda _: 0)):
            check(found.kill(), model.copy(), NOW_MS)
        for work in (store.maintain_steps(), store.compact_steps(KEYS_BYTES)):
            steps.run(work)
        model.check(store)


def test_changes_may_fail() -> None:
    """It is an error and never a lie: all is there, now and after the power went."""
    _fail_each(12)


@pytest.mark.nightly
def test_any_change_may_fail() -> None:
    """The same with each of them."""
    _fail_each(1)


def test_any_bit_of_the_units_may_be_wrong() -> None:
    """They are made again: nothing that is wrong is handed out, and nothing is missing."""
    disk = SimulatedDisk()
    store = _used(disk, Model())
    whole = view(store)
    store.close()
    units = [path for path in disk.contents() if "/compactionCq/" in path]
    random = Random(1)
    for path in units:
        data = disk.contents()[path]
        for position in range(0, len(data), 3):
            other = disk.kill()
            file = other.open(path, write=True)
            file.write([bytes([data[position] ^ 1 << random.randrange(8)])], position)
            store = opened(other, clock=FakeClock(NOW_MS))
            try:
                found = view(store)
            except DiskFailed:  # until upkeep has made them again
                steps.run(store.maintain_steps())
                found = view(store)
            assert found == whole
