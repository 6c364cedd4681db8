"""Whatever is lost or overwritten beside the log, the next opening makes it again from the log.

The stores are those that a real RocketMQ 5.3.3 wrote: as it left them, stopped or killed, and as
Sprocket leaves them. What the original loses in each case stands in docs/formats/store-folder.md.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.recorded import CASES, Recorded
from tests.stores import killed, maintain

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.message import is_indexable
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.queue import UnitAssigner
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

SPECIAL = {"10c-lmq", "10b-cq-ext-sql"}
"""Their queues hold units that a record alone does not tell."""
UNIT = struct.Struct(">qiq")

Damage = Callable[[Path, Random], bool]
"""Damages what lies beside the log; says whether there was anything to damage."""


def _files(root: Path, pattern: str) -> list[Path]:
    return sorted(path for path in root.glob(pattern) if path.is_file())


def _remove(pattern: str) -> Damage:
    """Remove one of the files, or of the folders with their files, that match."""

    def damage(root: Path, random: Random) -> bool:
        found = sorted(root.glob(pattern))
        if not found:
            return False
        chosen = random.choice(found)
        for path in sorted([chosen, *chosen.rglob("*")], reverse=True):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
        return True

    return damage


def _overwrite(pattern: str, content: Callable[[bytes], bytes]) -> Damage:
    """Give one of the files that match another content."""

    def damage(root: Path, random: Random) -> bool:
        found = _files(root, pattern)
        if not found:
            return False
        chosen = random.choice(found)
        chosen.write_bytes(content(chosen.read_bytes()))
        return True

    return damage


def _unit(change: Callable[[int, int, int], tuple[int, int, int]]) -> Damage:
    """Change one unit of a queue."""

    def damage(root: Path, random: Random) -> bool:
        queues = [p for p in _files(root, "consumequeue/*/*/*") if any(p.read_bytes())]
        if not queues:
            return False
        path = random.choice(queues)
        data = bytearray(path.read_bytes())
        units = [
            at
            for at in range(0, len(data), UNIT.size)
            if UNIT.unpack_from(data, at)[1] not in (0, 0x7FFF_FFFF)
        ]
        at = random.choice([units[0], units[-1], random.choice(units)]) if units else 0
        UNIT.pack_into(data, at, *change(*UNIT.unpack_from(data, at)))
        path.write_bytes(data)
        return bool(units)

    return damage


def _garbage(data: bytes) -> bytes:
    """Keep a file's length and its first bytes, and nothing else."""
    return data[:40] + Random(1).randbytes(len(data) - 40)


DAMAGES: dict[str, Damage] = {
    "all queues": _remove("consumequeue"),
    "a topic": _remove("consumequeue/*"),
    "a queue": _remove("consumequeue/*/*"),
    "a queue file": _remove("consumequeue/*/*/*"),
    "a queue file zeroed": _overwrite("consumequeue/*/*/*", lambda data: bytes(len(data))),
    "a queue file cut": _overwrite("consumequeue/*/*/*", lambda data: data[: len(data) // 2]),
    "a unit a little further": _unit(lambda place, size, code: (place + 1, size, code)),
    "a unit far ahead": _unit(lambda place, size, code: (place + (1 << 40), size, code)),
    "a unit far back": _unit(lambda place, size, code: (place // 2, size, code)),
    "a unit of another size": _unit(lambda place, size, code: (place, size + 1, code)),
    "a unit zeroed": _unit(lambda *_: (0, 0, 0)),
    "a unit made a filler": _unit(lambda *_: (0, 0x7FFF_FFFF, 0)),
    "the index": _remove("index"),
    "an index file": _remove("index/*"),
    "an index file zeroed": _overwrite("index/*", lambda data: bytes(len(data))),
    "an index file of garbage": _overwrite("index/*", _garbage),
    "an index file cut": _overwrite("index/*", lambda data: data[: len(data) // 2]),
    "the checkpoint": _remove("checkpoint"),
    "the checkpoint zeroed": _overwrite("checkpoint", lambda data: bytes(len(data))),
    "a checkpoint of the future": _overwrite(
        "checkpoint", lambda data: struct.pack(">qqq", *[1 << 50] * 3) + data[24:]
    ),
    "the note of a clean stop": _remove("config/clean.json"),
    "a note that is none": _overwrite("config/clean.json", lambda _: b"{"),
    "the table of queues": _remove("config/queues.json"),
    "abort": _remove("abort"),
}


def _open(recorded: Recorded, root: Path, geometry: Geometry | None = None) -> Store:
    return Store(_open_parts(recorded, root, geometry))


def _open_parts(recorded: Recorded, root: Path, geometry: Geometry | None = None) -> Opened:
    clock = FakeClock(recorded.expected["stopped_at_ms"])
    settings, wanted = StoreSettings(), geometry or recorded.geometry
    return opening.to_write(RealDisk(), str(root), settings, clock, wanted)


def _records(recorded: Recorded, root: Path) -> list[bytes]:
    """Return the records of the log, which nothing that lies beside it may change."""
    store = Store.open_read_only(RealDisk(), str(root), recorded.geometry)
    try:
        return [bytes(stored) for _, stored in store.records()]
    finally:
        store.close()


def _assert_whole(store: Store) -> None:
    """Every record of the log is in its queue and under its keys."""
    newest = {}
    for _, stored in store.records():
        entry = record.entry(stored)
        if entry.queueable:
            for due in UnitAssigner().each(entry):
                newest[due.topic, due.queue_id, due.queue_offset] = due
        if is_indexable(entry.sys_flag):
            for key in entry.keys:
                found = store.find(entry.topic, key, max_count=10_000)
                assert entry.physical_offset in found.offsets, entry
    for (topic, queue_id, offset), entry in newest.items():
        (unit,) = store.units(topic, queue_id, offset, 1)
        assert (entry.physical_offset, entry.size, entry.tags_code) == unit[1:4]


def _check(name: str, what: str, state: str, folder: Path) -> None:
    """Damage one thing in a store that was left in one way, and open it."""
    recorded = Recorded(name)
    root = Path(recorded.unpack(folder))
    if state != "theirs":
        opened = _open_parts(recorded, root)
        store = Store(opened)
        if state == "ours, stopped":
            store.close()
        else:
            maintain(store)
            killed(opened)
    before = _records(recorded, root)
    if not DAMAGES[what](root, Random(f"{name} {what} {state}")):
        return
    store = _open(recorded, root)
    assert [bytes(stored) for _, stored in store.records()] == before
    assert store.report.misplaced == []
    _assert_whole(store)
    ranges = list(store.queues())
    store.close()
    again = _open(recorded, root, store.geometry)  # a lone queue file that is cut tells another one
    assert (again.report.records, again.report.queues_rebuilt) == (0, [])
    assert again.report.index_entries_rebuilt == 0
    assert ranges == list(again.queues())
    again.close()


STATES = ("theirs", "ours, stopped", "ours, killed")
QUICK = ("02-kill9-load", "09-index", "14-retention", "15-rewritten-tail")


@pytest.mark.slow
@pytest.mark.parametrize("what", DAMAGES)
def test_some_recorded_stores_are_whole_again_after_each_damage(what: str, tmp_path: Path) -> None:
    """Each damage, in stores left in every way, drawn from four recorded ones."""
    names = Random(what).sample(QUICK, len(STATES))
    for name, state in zip(names, STATES, strict=True):
        _check(name, what, state, tmp_path / state)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", sorted({*CASES} - SPECIAL))
def test_every_recorded_store_is_whole_again_after_each_damage(
    name: str, state: str, tmp_path: Path
) -> None:
    """Each damage in every recorded store, left in every way."""
    for what in DAMAGES:
        _check(name, what, state, tmp_path / what)
