"""Whatever kinds of queues a store has: they hold just what its log says, after any end of it."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.stores import ROOT, SMALL, maintain, new

from sprocket.rocketmq.codec.bloom import Bloom
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import INNER_BATCH, NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.opening import Opened
from sprocket.rocketmq.store.queue import FILLER_SIZE, GroupFilter, Queues, UnitAssigner
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

BLOOM = Bloom()
FILTERS = {
    "topic": [
        GroupFilter(BLOOM.positions("even", "topic"), lambda p: int(p.get("N", "1")) % 2 == 0),
        GroupFilter(BLOOM.positions("none", "topic"), lambda _: False),
    ]
}
STEPS = ("plain", "plain", "batch", "light", "delayed", "prepared", "write", "sync", "keep")


def opened(disk: SimulatedDisk, **settings: Any) -> Opened:
    """Open the store: `batches` has batch queues, the filters of `topic` are registered."""
    options: Any = {"fill_ahead_bytes": 0, "message_bytes_max": 2048, "light_queues": True}
    disk.make_folder(f"{ROOT}/batchconsumequeue/batches")
    wanted = StoreSettings(**options, **settings)
    return opening.to_write(disk, ROOT, wanted, FakeClock(), SMALL, FILTERS)


def made(kind: str, rng: random.Random, number: int) -> NewRecord:
    """Return a record of some kind."""
    pairs = {"N": str(number), "TAGS": "T"}
    topic, sys_flag = "topic", 0
    if kind == "batch":
        topic, sys_flag = "batches", INNER_BATCH
        pairs["INNER_NUM"] = str(rng.randint(1, 9))
    elif kind == "light":
        names = rng.sample(["%LMQ%a", "%LMQ%b", "%LMQ%c"], rng.randint(1, 3))
        pairs["INNER_MULTI_DISPATCH"] = ",".join(names)
    elif kind == "delayed":
        topic = SCHEDULE_TOPIC
        pairs["DELAY"] = str(rng.randint(1, 20))
    elif kind == "prepared":
        sys_flag = 4
    record_ = new(topic, rng.randrange(2), bytes(rng.randrange(300)), sys_flag=sys_flag)
    return structs.replace(record_, properties=properties.encode(pairs))


def held(queues: Queues) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """Return what the queues of a store hold: offset, place, size, count, code, bits."""
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for queue in queues.by_key.values():
        units = found[queue.topic, queue.queue_id] = []
        offset: int = queue.min_offset
        while offset < queue.max_offset:
            for first, place, size, code, count in queue.units(offset, 100):
                extended = queue.extended(code)
                code = code if extended is None else extended.tags_code
                bits = None if extended is None else extended.bit_map
                if size != FILLER_SIZE:  # its message was lost, unsynced
                    units.append((first, place, size, count, code, bits))
                offset = first + count
    return {key: units for key, units in found.items() if units}


def due(
    store: Store, units: UnitAssigner, *, extend: bool
) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """Return what they should hold by the log."""
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for _, stored in store.records():
        entry = record.entry(stored)
        if not entry.queueable:
            continue
        for unit in units.of([entry]):
            bits = None
            if extend and unit.topic != "batches" and not unit.topic.startswith("%LMQ%"):
                bits = b"" if unit.extra is None else unit.extra.bit_map
            found.setdefault((unit.topic, unit.queue_id), []).append(
                (
                    unit.queue_offset,
                    unit.physical_offset,
                    unit.size,
                    unit.next_offset - unit.queue_offset,
                    unit.tags_code,
                    bits,
                )
            )
    return found


@pytest.mark.slow
@given(
    seed=st.integers(0, 1 << 32),
    lives=st.lists(
        st.tuples(
            st.lists(st.sampled_from(STEPS), max_size=40),
            st.sampled_from(["close", "kill", "crash"]),
        ),
        min_size=1,
        max_size=3,
    ),
    extend=st.booleans(),
    flush=st.sampled_from(["sync", "async"]),
)
def test_queues_hold_what_the_log_says(
    seed: int, lives: list[tuple[list[str], str]], extend: bool, flush: str
) -> None:
    """After a stop, a kill or a loss of power; and nothing synced is lost."""
    rng = random.Random(seed)
    disk = SimulatedDisk()
    number = synced = 0
    for steps, end in lives:
        parts = opened(disk, extended_units=extend, flush=flush)
        store = Store(parts)
        assert held(parts.parts.queues) == due(store, parts.parts.units, extend=extend)
        assert store.end >= synced
        for step in steps:
            if step == "write":
                store.write()
            elif step == "sync":
                store.write()
                synced = max(synced, store.sync())
                store.dispatch()
            elif step == "keep":
                store.write()
                maintain(store)
            elif rng.random() < 0.3:
                batch = [made(step, rng, number + n) for n in range(rng.randint(1, 3))]
                store.append_all(batch, together=True)
                number += len(batch)
            else:
                store.append(made(step, rng, number))
                number += 1
        if end == "close":
            store.close()
            synced = store.written
        disk = disk.kill() if end != "crash" else disk.crash(rng.randrange)
    parts = opened(disk, extended_units=extend)
    store = Store(parts)
    assert held(parts.parts.queues) == due(store, parts.parts.units, extend=extend)
    assert store.end >= synced
    store.close()
