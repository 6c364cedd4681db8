"""Every call of the disk fails once, wherever it is made: an error, never a lie.

A script takes a store through its whole life: opening, appends and batches, writes, syncs, fills,
dispatch, reads, upkeep, deletions, rolls, a clean stop, a death, and recovery after each. The calls
of a life without faults are counted; then, for each of them, the same life is lived with that one
call failing for want of space, with an input/output error, or (writes) half done. What must hold:

* What was acknowledged is read, as it was sent, by the store that goes on and after any crash.
* Reads go on after the fault, and so do appends: in the same store, unless a sync failed; then
  appends are refused until it is reopened.
* No fault leaves a store that cannot be opened.

A failing one is replayed with `FAULT='1234 io'`.
"""

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from tests.crash import sites
from tests.crash.driver import GEOMETRY, ROOT, History, Life, check
from tests.stores import maintain

from sprocket.base.errors import DiskFailed, DiskFull, StoreError, StoreFailed
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.log import Appender, CommitLog, LogSync
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
SEED = 9
PARTS = 4
FULL_STEPS = 12
"""How many steps of the script the disk stays full."""

FAULTS = {
    # name: errno, how much of the call is done all the same by turns, which calls
    "space": (errno.ENOSPC, (0,), None),
    "io": (errno.EIO, (0, 1), None),
    "short": (errno.ENOSPC, (0.5, 0.9), "write"),
}

SCRIPT = (
    *("append", "append", "write", "sync", "dispatch", "read", "fill", "append_batch", "write"),
    *("append", "sync", "dispatch_index", "read", "maintain", "fill", "tick", "append", "append"),
    *("write", "append", "write", "sync", "append_batch", "append", "write", "sync", "maintain"),
    *("read", "reopen", "append", "append", "write", "sync", "fill", "append", "write", "sync"),
    *("maintain", "clean", "read", "append_batch", "append_batch", "write", "sync", "dispatch"),
    *("kill", "read", "append", "write", "sync", "tick", "maintain", "clean", "append", "append"),
    *("append", "write", "sync", "maintain", "read", "clean", "append", "write", "sync", "reopen"),
    *("read", "append", "write", "sync"),
)


class Script:
    """A life that goes on after a fault as whoever runs a store would go on.

    Args:
        disk: Where a fault is planted.
        after_fault: Called once, when the step in which the fault came has ended.
    """

    def __init__(self, disk: SimulatedDisk, has_failed: Callable[[], bool]) -> None:
        self.disk = disk
        self.history = History()
        self.errors: list[StoreError] = []
        self.life: Life | None = None
        self._random = Random(SEED)
        self._has_failed = has_failed
        self._is_told = False
        self._clock_ms = NOW_MS
        self.is_sync_fault = False

    def run(self) -> None:
        """Live it."""
        self._open()
        for step in SCRIPT:
            self.step(step)
            if self._has_failed() and not self._is_told:
                self._is_told = True
                self.after_fault()

    def step(self, name: str) -> None:
        """Do one step; note its error, and reopen a store that will not go on."""
        assert self.life is not None
        steps: dict[str, Callable[[], object]] = {
            "read": self.read,
            "tick": lambda: self.life.clock.advance(700),  # type: ignore[union-attr]
            "dispatch_index": self.life.store.dispatch_index,
        }
        try:
            (steps.get(name) or getattr(self.life, name))()
        except StoreError as error:
            self.errors.append(error)
            if name == "kill" or isinstance(error, StoreFailed) or not self.life.is_open:
                self._revive(is_dead=name == "kill")

    def _open(self) -> None:
        settings = StoreSettings(message_bytes_max=2048, fill_ahead_bytes=2048)
        for _ in range(2):
            try:
                self.life = Life(self.disk, self.history, self._random, NOW_MS, settings)
                break
            except StoreError as error:
                self.errors.append(error)
                self.disk.is_full = False
        assert self.life is not None, self.errors

    def _revive(self, *, is_dead: bool = False) -> None:
        """Stop, unless the process did, and start again once there is room."""
        life = self.life
        assert life is not None
        try:
            if not is_dead:
                life.store.close()
        except StoreError as error:
            self.errors.append(error)
        self.disk.is_full = False
        life.forget_unsynced()
        try:
            life.start()
        except StoreError as error:  # the fault may have come only now
            self.errors.append(error)
            life.start()

    def read(self) -> None:
        """Read some of what was acknowledged, in every way."""
        assert self.life is not None
        store = self.life.store
        known = sorted(self.history.acknowledged.items())
        for (topic, queue_id, offset), (body, physical_offset) in known[:: max(1, len(known) // 5)]:
            got = store.get_messages(topic, queue_id, offset, max_count=1)
            low = store.queue_range(topic, queue_id).min
            if physical_offset < store.first:  # the queue may follow a little later
                assert all(record.decode(r).queue_offset > offset for r in got.records)
                continue
            assert got.status is GetStatus.FOUND, (got.status, topic, queue_id, offset)
            message = record.decode(got.records[0])
            assert message.stored_body == body
            assert message.unique_key is not None
            assert store.find(topic, message.unique_key).offsets == [physical_offset]
            at_ms = store.stored_at_ms(topic, queue_id, offset)
            assert at_ms == message.stored_at_ms
            assert low <= store.offset_by_time(topic, queue_id, at_ms, Boundary.LOWER) <= offset

    def read_while_full(self) -> None:
        """Read all that was acknowledged; what has no unit yet is in the log."""
        assert self.life is not None
        store = self.life.store
        reader = Store.open_read_only(self.disk, ROOT, GEOMETRY)
        for (topic, queue_id, offset), (body, physical_offset) in self.history.acknowledged.items():
            if physical_offset < store.first:
                continue
            try:
                got = store.get_messages(topic, queue_id, offset, max_count=1)
                assert got.records, (got.status, topic, queue_id, offset)
                data = got.records[0]
            except DiskFull:
                assert offset >= reader.queue_range(topic, queue_id).max
                data = store.record_at(physical_offset)
            assert record.decode(data).stored_body == body

    def after_fault(self) -> None:
        """Reads go on, and writes as soon as there is room, reopened if a sync failed."""
        assert self.life is not None
        self.read_while_full()
        self.disk.is_full = False
        if not self.life.is_open:
            self._revive()
        try:
            self.life.append()
        except StoreFailed:
            if not self.is_sync_fault:
                raise
            self._revive()
            self.life.append()
        except DiskFailed:  # upkeep undoes what a failed write has left, now that there is room
            maintain(self.life.store)
            self.life.append()
        self.life.write()
        end = self.life.store.end
        self.life.sync()
        assert self.life.store.synced >= end
        self.read()


def calls_of_a_life() -> list[tuple[str, str]]:
    """Kind and place in the code of every call of a life without faults."""
    disk = SimulatedDisk()
    calls: list[tuple[str, str]] = []
    touched: Counter[tuple[str, str]] = Counter()

    def before(call: str, path: str) -> None:
        calls.append((call, sites.here()))
        touched[call, path.split("/")[2] if path.count("/") > 1 else ""] += 1

    disk.before = before
    script = Script(disk, lambda: False)
    script.run()
    assert script.errors == []
    for folder in ("commitlog", "consumequeue", "index"):
        for call in ("create",) if folder == "consumequeue" else ("create", "remove"):
            assert touched[call, folder] > 1, f"{call} in {folder}"
    return calls


def live_with(nth: int, fault: str, *, stays_full: bool = False) -> list[StoreError]:
    """Live a life whose nth call fails, crash it in four ways, and look at all of it."""
    disk = SimulatedDisk()
    number, kept, _ = FAULTS[fault]
    script = Script(disk, lambda: disk.calls["any"] >= nth)

    def before(call: str, _path: str) -> None:
        if disk.calls["any"] + 1 == nth:
            script.is_sync_fault = call == "sync" and not stays_full
            disk.is_full = stays_full

    disk.before = before
    if not stays_full:
        disk.fail("any", nth, number, kept[nth % len(kept)])
    script.run()
    disk.before = None
    script.after_fault()
    random = Random(nth)
    for choose in (lambda _count: 0, lambda count: count - 1, random.randrange, random.randrange):
        check(disk.crash(choose), script.history.copy(), NOW_MS + 600_000)
    return script.errors


def cases(calls: list[tuple[str, str]], *, every: bool) -> list[tuple[int, str]]:
    """Which call fails, counted from 1, and how.

    Args:
        calls: Those of a life.
        every: All of them; else the first from each place in the code.
    """
    if "FAULT" in os.environ:
        nth_text, fault = os.environ["FAULT"].split()
        return [(int(nth_text), fault)]
    seen = set()
    found = []
    for nth, (call, place) in enumerate(calls, 1):
        for fault, (_number, _kept, only) in FAULTS.items():
            key = call, place, fault
            if (every or key not in seen) and only in (None, call):
                seen.add(key)
                found.append((nth, fault))
    return found


def _try(part: list[tuple[int, str]], *, stays_full: bool = False) -> int:
    errors = 0
    for nth, fault in part:
        try:
            errors += bool(live_with(nth, fault, stays_full=stays_full))
        except (AssertionError, StoreError, KeyError) as error:
            raise AssertionError(f"FAULT='{nth} {fault}': {error!r}") from error
    return errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [2, *(pytest.param(part, marks=pytest.mark.nightly) for part in (0, 1, 3))]
)
def test_a_call_fails_once_at_each_place(part: int) -> None:
    """The first call from each place in the code, in each way; by day in half of the ways."""
    calls = calls_of_a_life()
    chosen = cases(calls, every=False)
    assert len(chosen) > 150 or "FAULT" in os.environ
    print(f"{len(calls)} calls in a life, {len(chosen)} faults tried")
    assert _try(chosen[part::PARTS]) > 0 or "FAULT" in os.environ


@pytest.mark.slow
def test_a_disk_that_fills_up() -> None:
    """From some call on nothing finds space, for a while."""
    calls = calls_of_a_life()
    places = [nth for nth, (call, _) in enumerate(calls, 1) if call in ("write", "create")]
    assert _try([(nth, "space") for nth in places[::9]], stays_full=True) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_every_call_fails_in_turn(part: int) -> None:
    """Each call of a life, in each way."""
    calls = calls_of_a_life()
    chosen = cases(calls, every=True)
    print(f"{len(calls)} calls in a life, {len(chosen)} faults tried")
    _try(chosen[part::PARTS])
    places = [nth for nth, (call, _) in enumerate(calls, 1) if call in ("write", "create")]
    _try([(nth, "space") for nth in places[part::PARTS]], stays_full=True)


_run = LogSync.run


def _believe(job: LogSync) -> None:
    """Take a sync that failed for one that did not."""
    with contextlib.suppress(StoreError):
        _run(job)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "planted", "place"),
    [
        (LogSync, "run", _believe, "flusher.LogSync.run"),
        (Appender, "_take_back", lambda _: None, "commit_log.CommitLog.write"),
        (CommitLog, "_take_back", lambda *_: None, "commit_log.CommitLog.write"),
    ],
)
def test_a_lie_is_noticed(
    owner: type,
    name: str,
    planted: Callable[..., None],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one answer to an error planted out of the code the suite fails."""
    calls = calls_of_a_life()
    chosen = [(nth, fault) for nth, fault in cases(calls, every=True) if calls[nth - 1][1] == place]
    monkeypatch.setattr(owner, name, planted)
    with pytest.raises(AssertionError):
        _try(chosen)
