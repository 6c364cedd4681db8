"""Whatever of the last writes to a file is there, recovery makes a store of it that is whole.

Exhaustive by night: every cut point of the last two records, units or entries of each kind of
file. By day every seventh, which no field's size divides. Behind the cut lie zeros, or other bytes,
or the file ends there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import pytest
from tests.stores import ROOT, SMALL, maintain, new

from sprocket.base.disk import read_file
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.geometry import Geometry, LogGeometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.repair.check import check
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

LONG = "%RETRY%" + "g" * 121
GARBAGE = bytes(range(1, 256)) * 17

Tail = Callable[[bytes, int, int], bytes]


def zeroed(data: bytes, cut: int, end: int) -> bytes:
    """The bytes from the cut on never got there."""
    return data[:cut] + bytes(end - cut) + data[end:]


def garbled(data: bytes, cut: int, end: int) -> bytes:
    """Something else lies there."""
    return data[:cut] + GARBAGE[: end - cut] + data[end:]


def shortened(data: bytes, cut: int, end: int) -> bytes:
    """The file ends there."""
    del end
    return data[:cut]


TAILS = (zeroed, garbled, shortened)
STEPS = [
    pytest.param(17, id="every 17th cut"),
    pytest.param(1, id="every cut", marks=pytest.mark.nightly),
]


def some(cuts: range, step: int) -> list[int]:
    """Return cut points that are a step apart, and the last one."""
    return sorted({*cuts[::step], cuts[-1]})


WITH_TAIL = StoreSettings(fill_ahead_bytes=0)
NO_TAIL = StoreSettings(crc_tail=False, fill_ahead_bytes=0)
EXTENDED = StoreSettings(extended_units=True, fill_ahead_bytes=0)


@dataclass(frozen=True)
class Kind:
    """What the log of a store holds when its process dies."""

    make: Callable[[int], list[NewRecord]] = lambda n: [new("t", n % 2, b"body", name=f"N{n}")]
    count: int = 6
    segment_bytes: int = SMALL.log.segment_bytes
    settings: StoreSettings = WITH_TAIL
    batch_topics: frozenset[str] = frozenset()

    @property
    def geometry(self) -> Geometry:
        """Sizes of the store's files."""
        return replace(SMALL, log=LogGeometry(segment_bytes=self.segment_bytes))


def long_topic(number: int) -> list[NewRecord]:
    """A record of version 2."""
    return [new(LONG, 0, b"b", name=f"N{number}")]


KINDS = {
    "V1 with a tail": Kind(),
    "V1 without": Kind(settings=NO_TAIL),
    "V2 with a tail": Kind(long_topic),
    "V2 without": Kind(long_topic, settings=NO_TAIL),
    "a batch": Kind(lambda n: [new("t", 0, b"%d" % i, name=f"N{n}.{i}") for i in range(2)]),
    "the first of a file": Kind(count=5, segment_bytes=512),
    "over the end of a file": Kind(count=4, segment_bytes=512),
    "extended units": Kind(settings=EXTENDED),
    "batch queues": Kind(batch_topics=frozenset("t")),
}
"""Three records of the first kind fill a file of 512 bytes."""


@lru_cache(maxsize=16)
def killed(kind: str) -> tuple[SimulatedDisk, tuple[tuple[int, int], ...]]:
    """Return a store whose process died after a checkpoint, and place and size of its records."""
    made, disk, clock = KINDS[kind], SimulatedDisk(), FakeClock()
    store = Store.open(disk, ROOT, made.settings, clock, made.geometry)
    store.batch_topics.update(made.batch_topics)
    places: list[tuple[int, int]] = []
    for number in range(made.count):
        appended = store.append_all(made.make(number), together=True)
        clock.advance(100)
        store.write()
        places += [(at, len(store.record_at(at))) for at in appended.physical_offsets]
        store.sync()
        store.dispatch()
        maintain(store)
    return disk.kill(), tuple(places)


def damaged(disk: SimulatedDisk, path: str, content: bytes) -> SimulatedDisk:
    """Return a copy of a disk on which a file has another content."""
    copy = disk.kill()
    file = copy.open(path, write=True)
    file.resize(len(content))
    file.write([content], 0)
    return copy


def recovered(disk: SimulatedDisk) -> list[tuple[int, bytes]]:
    """Open the store, stop it, find nothing wrong with it; return its records but for padding."""
    settings = StoreSettings(fill_ahead_bytes=0)
    store = Store.open(disk, ROOT, settings, FakeClock())
    store.close()
    findings = list(check(disk, ROOT))
    assert findings == []
    reader = Store.open_read_only(disk, ROOT)
    records = [(int(offset), bytes(data)) for offset, data in reader.records()]
    for offset, data in records:
        entry = record.entry(data)
        for key in entry.keys:
            assert offset in reader.find(entry.topic, key).offsets
    reader.close()
    return [(offset, data) for offset, data in records if record.entry(data).queueable]


def ends(kind: str) -> Iterator[tuple[int, range, int]]:
    """Start of the file, cut points, and where what was written ends, as places of the log.

    They go over the last two records, and over the blank between them if there is one.
    """
    (first, first_size), (last, last_size) = killed(kind)[1][-2:]
    file_bytes = KINDS[kind].segment_bytes
    start = last - last % file_bytes
    if first >= start:
        yield start, range(first, last + last_size), last + last_size
    else:
        end = first + first_size + record_layout.BLANK_BYTES
        yield start - file_bytes, range(first, end), end
        yield start, range(last, last + last_size), last + last_size


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tail", TAILS, ids=lambda tail: tail.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_torn_log(kind: str, tail: Tail, step: int) -> None:
    """Whole records are kept, also behind the torn ones, and these are not.

    Only of a record whose properties were replaced by other bytes, its tail included, nobody can
    say that it had a tail; then its body is whole.
    """
    disk, places = killed(kind)
    for start, cuts, end in ends(kind):
        path = f"{ROOT}/commitlog/{start:020d}"
        data = read_file(disk, path)
        if tail is shortened and len(disk.list(f"{ROOT}/commitlog")) > 1 and not start:
            continue  # it is on the disk before the next one is begun, and refused
        whole = {place: stored(disk, place, size, kind) for place, size in places}
        for cut in some(cuts, step):
            torn = damaged(disk, path, tail(data, cut - start, end - start))
            kept = {p: d for p, d in whole.items() if stored(torn, p, len(d), kind) == d}
            found = dict(recovered(torn))
            assert kept == {place: found.get(place) for place in kept}, cut
            for place in found.keys() - kept.keys():
                assert tail is garbled
                body = record.decode(whole[place]).stored_body
                assert body == record.decode(found[place], check_tail=True).stored_body, cut


def stored(disk: SimulatedDisk, place: int, size: int, kind: str) -> bytes:
    """Return bytes of the log."""
    start = place - place % KINDS[kind].segment_bytes
    return disk.open(f"{ROOT}/commitlog/{start:020d}").read(place - start, size)


def derived() -> Iterator[tuple[str, str, range, int]]:
    """Kind, path, cut points, and where what was written ends, of each file made from the log."""
    kind = "V1 with a tail"
    disk, places = killed(kind)
    (name,) = disk.list(f"{ROOT}/index")
    slots_end = 40 + 4 * SMALL.index.slots
    entries_end = slots_end + 20 * (1 + len(places))
    yield kind, f"index/{name}", range(40), 40
    yield kind, f"index/{name}", range(40, slots_end), slots_end
    yield kind, f"index/{name}", range(entries_end - 40, entries_end), entries_end
    yield kind, "checkpoint", range(40), 40
    abort = len(read_file(disk, f"{ROOT}/abort"))
    yield kind, "abort", range(abort), abort
    units = (
        (kind, "consumequeue", 20),
        ("extended units", "consumequeue", 20),
        ("extended units", "consumequeue_ext", 20),
        ("batch queues", "batchconsumequeue", 46),
    )
    for kind, folder, size in units:
        end = len(places) // 2 * size
        yield kind, f"{folder}/t/0/{0:020d}", range(end - 2 * size, end), end


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tail", TAILS, ids=lambda tail: tail.__name__)
def test_a_torn_file_made_from_the_log(tail: Tail, step: int) -> None:
    """Queues, index, checkpoint and mark: no record is lost, whatever is left of them."""
    for kind, name, cuts, end in derived():
        disk, places = killed(kind)
        path = f"{ROOT}/{name}"
        data = read_file(disk, path)
        assert any(data[end - 20 : end]) or "queue" not in name, name
        for cut in some(cuts, step):
            content = tail(data, cut, end)
            records = recovered(damaged(disk, path, content))
            sizes = [(offset, len(stored)) for offset, stored in records]
            assert list(places) == sizes, (name, cut)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("tail", TAILS, ids=lambda tail: tail.__name__)
@pytest.mark.parametrize("name", ["clean.json", "queues.json", "recovery.json"])
def test_a_torn_note(name: str, tail: Tail, step: int) -> None:
    """Our notes of a clean stop, of the queues and of the last recovery."""
    disk, places = killed("V1 with a tail")
    disk = disk.kill()
    Store.open(disk, ROOT, StoreSettings(fill_ahead_bytes=0), FakeClock(), SMALL).close()
    path = f"{ROOT}/config/{name}"
    data = read_file(disk, path)
    for cut in some(range(len(data)), step):
        content = tail(data, cut, len(data))
        records = recovered(damaged(disk, path, content))
        assert list(places) == [(offset, len(stored)) for offset, stored in records], cut


@pytest.mark.parametrize("tail", TAILS, ids=lambda tail: tail.__name__)
def test_a_torn_table(tail: Tail) -> None:
    """The old content or the new one is read, and the file is whole again after that."""
    disk = SimulatedDisk()
    disk.make_folder("/config")
    path = "/config/topics.json"
    file = ConfigFile(disk, path)
    old = {"offsetTable": {"t@g": {"0": 5, "1": 7}}}
    made = {"offsetTable": {"t@g": {"0": 6, "1": 7}}}
    file.replace(old)
    file.replace(made)
    data = read_file(disk, path)
    for cut in range(len(data)):
        torn = damaged(disk, path, tail(data, cut, len(data)))
        again = ConfigFile(torn, path)
        assert again.load(fastjson.Members, dict) in (old, made)
        assert read_file(torn, path) in (fastjson.write(old), fastjson.write(made))
        again.replace(made)
        assert read_file(torn, path + ".bak") in (fastjson.write(old), fastjson.write(made))
