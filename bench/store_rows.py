"""What the bench of the store measures, one function a group of rows.

Goals are ratios to a raw loop of the same run, since machines differ by more than commits do: it
writes the same bytes with as many calls, or, where nothing is written, reads, copies or hashes what
the store reads, copies or hashes. Memory is what it is.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench import store_samples as samples
from sprocket.base.checksum import crc32
from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk, SegmentFiles
from sprocket.base.units import GIB, KIB, MIB
from sprocket.rocketmq.codec.record import Entry, record, record_scan
from sprocket.rocketmq.geometry import Engine, IndexGeometry, QueueGeometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.index import INDEX_UNIT, SLOT_BYTES, UNIT_BYTES, Indexes, key_string
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.log import Tail
from sprocket.rocketmq.store.queue import FileQueues
from sprocket.rocketmq.store.reput import Reput
from sprocket.rocketmq.store.store import Store

BODIES = (100, KIB, 10 * KIB)
BATCH = 32
ROUND = 512
TURNS = 5
"""Times that two things which are compared take turns; each ratio is a median over them."""
TURN_SECONDS = 0.4
OPEN_RATIO_MAX: Mapping[Engine, float] = {"files": 17, "rocksdb": 9.5}
"""For opening 100,000 queues, to the time in which JSON gives a table of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row: what was measured, and what it should be.

    Attributes:
        at_least: The goal is a lower limit, not an upper one.
        note: What the figure was made of.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = True
    note: str = ""

    @property
    def is_met(self) -> bool:
        """Whether the goal is reached; without one nothing is missed."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def _store(folder: Path, flush: str) -> Store:
    return Store.open(
        RealDisk(),
        str(folder),
        StoreSettings(flush=flush),  # type: ignore[arg-type]
        SystemClock(),
    )


# Appends.


class _Raw:
    """A loop of `pwritev` and `fdatasync` into a file of its own, full of zeros or of holes."""

    def __init__(self, path: Path, buffers: Sequence[bytes], size: int, *, zeros: bool) -> None:
        self._buffers = buffers
        self._bytes = sum(map(len, buffers))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, size)
        for position in range(0, size if zeros else 0, MIB):
            os.pwrite(self._file, bytes(MIB), position)
        os.fsync(self._file)
        self._size = size
        self._position = 0

    def step(self) -> None:
        """Write one group and make it durable."""
        if self._position + self._bytes > self._size:
            self._position = 0
        os.pwritev(self._file, self._buffers, self._position)
        os.fdatasync(self._file)
        self._position += self._bytes

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class _Ours:
    """The same through a store: encoded, checksummed, written, synced."""

    def __init__(self, folder: Path, records: Sequence[NewRecord]) -> None:
        self._store = _store(folder, "sync")
        self._records = records
        self._step = 0
        self._store.append_all(records, together=True)
        self._store.write()
        self._store.sync()

    def prepare(self) -> None:
        """Fill the log ahead, which a broker does on its disk thread."""
        self._store.dispatch()
        self._store.dispatch_index()
        while (job := self._store.begin_fill()) is not None:
            job.run()
            job.finish(None)

    def step(self) -> None:
        """Append one group and make it durable."""
        if len(self._records) == 1:
            self._store.append(self._records[0])
        else:
            self._store.append_all(self._records, together=True)
        self._store.write()
        self._store.sync()

    def close(self) -> None:
        """Stop."""
        self._store.close()


def appends(folder: Path) -> Iterator[Figure]:
    """Measure durable appends beside the raw loop, then those without a sync."""
    for count in (1, BATCH):
        for body_bytes in BODIES:
            yield _durable_appends(folder / f"durable-{count}-{body_bytes}", body_bytes, count)
    yield _page_cache_appends(folder / "cached")


def _durable_appends(folder: Path, body_bytes: int, count: int) -> Figure:
    body = os.urandom(body_bytes)
    records = [samples.new_record(body, number) for number in range(count)]
    stored = [
        record.encode(new, queue_offset=0, physical_offset=0, stored_at_ms=0, crc_tail=True)
        for new in records
    ]
    folder.mkdir(parents=True)
    raw = _Raw(folder / "raw", stored, GIB, zeros=False)
    onto_zeros = _Raw(folder / "zeros", stored, 32 * MIB, zeros=True)
    ours = _Ours(folder / "store", records)
    ratios, zero_ratios, rates = [], [], []
    # Not more than what is filled ahead is written in a turn.
    steps_max = 48 * MIB // sum(map(len, stored))
    for _ in range(TURNS):
        ours.prepare()
        raw_rate = _rate(raw.step, steps_max)
        zero_rate = _rate(onto_zeros.step, steps_max)
        our_rate = _rate(ours.step, steps_max)
        ratios.append(our_rate / raw_rate)
        zero_ratios.append(our_rate / zero_rate)
        rates.append(our_rate * count)
    for each in (raw, onto_zeros, ours):
        each.close()
    shutil.rmtree(folder)
    name = "single appends" if count == 1 else f"appends in batches of {count}"
    return Figure(
        name=f"{name}, {_size(body_bytes)}, synced",
        value=statistics.median(ratios),
        unit="× raw",
        goal=0.6 if (count, body_bytes) == (BATCH, KIB) else None,
        note=f"{statistics.median(rates):,.0f} records/s; {statistics.median(zero_ratios):.2f} × "
        "raw onto zeros",
    )


def _rate(step: object, steps_max: int) -> float:
    """Return how many steps a second takes."""
    assert callable(step)
    done, began = 0, time.perf_counter()
    end = began + TURN_SECONDS
    while time.perf_counter() < end and done < steps_max:
        step()
        done += 1
    return done / (time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class _Times:
    """How long something takes: medians of turns, in seconds an item, and as a ratio to raw."""

    ours: float
    raw: float
    ratio: float


def in_turns(ours: Callable[[], int], raw: Callable[[], int], turns: int = TURNS) -> _Times:
    """Run both so often, one after the other; each returns how many items it dealt with."""
    took: list[tuple[float, float]] = []
    for _ in range(turns):
        pair = []
        for run in (ours, raw):
            began = time.perf_counter()
            items = run()
            pair.append((time.perf_counter() - began) / items)
        took.append((pair[0], pair[1]))
    return _Times(
        statistics.median([ours for ours, _ in took]),
        statistics.median([raw for _, raw in took]),
        statistics.median([ours / raw for ours, raw in took]),
    )


class _RawWrites:
    """Writes to one sparse file, each after the one before, without a sync."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, size)
        self._position = 0

    def write(self, buffers: Sequence[bytes]) -> None:
        """Write some buffers with one call."""
        self._position += os.pwritev(self._file, buffers, self._position)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _page_cache_appends(folder: Path) -> Figure:
    store = _store(folder / "store", "async")
    raw = _RawWrites(folder / "raw", GIB)
    body = os.urandom(KIB)
    records = [samples.new_record(body, number) for number in range(BATCH)]
    stored = [
        record.encode(new, queue_offset=0, physical_offset=0, stored_at_ms=0, crc_tail=True)
        for new in records
    ]
    groups = 600

    def append() -> int:
        for _ in range(groups):
            for new in records:
                store.append(new)
            store.write()
        return groups * BATCH

    def write() -> int:
        for _ in range(groups):
            raw.write(stored)
        return groups * BATCH

    times = in_turns(append, write)
    store.close()
    raw.close()
    return Figure(
        name=f"appends, {_size(KIB)}, not synced",
        value=times.ratio,
        unit="× raw's time",
        goal=20,
        at_least=False,
        note=f"{1 / times.ours:,.0f} records/s, written in turns of {BATCH}",
    )


def _size(body_bytes: int) -> str:
    return f"{body_bytes} B" if body_bytes < KIB else f"{body_bytes // KIB} KiB"


# Reads.


def reads(folder: Path) -> Iterator[Figure]:
    """Measure reads of 32 messages of a queue, all in the page cache."""
    store = _store(folder / "reads", "async")
    body = os.urandom(KIB)
    count = 40_000
    for number in range(count):
        store.append(samples.new_record(body, number, queue_id=number % 4))
        if number % 256 == 255:
            store.write()
    store.write()
    store.dispatch()
    offsets = [n * BATCH for n in range(count // 4 // BATCH)] * 4
    random.Random(1).shuffle(offsets)
    began = time.perf_counter()
    found = 0
    for offset in offsets:
        found += store.get_messages(samples.TOPIC, offset % 4, offset, max_count=BATCH).count
    seconds = time.perf_counter() - began
    assert found == len(offsets) * BATCH
    store.close()
    yield Figure(
        name=f"queue reads of {BATCH}, {_size(KIB)}",
        value=found / seconds,
        unit="records/s",
        note=f"{seconds / len(offsets) * 1e6:.0f} µs a read",
    )


# Index and dispatch.


def index_puts(folder: Path) -> Iterator[Figure]:
    """Measure keys put in rounds of 512, and one by one; raw hashes each and writes the units."""
    per_turn = 30_000
    rounds = samples.entries(TURNS * per_turn)
    indexes = Indexes(RealDisk(), str(folder / "puts"), IndexGeometry(), SystemClock())
    raw = _RawWrites(folder / "raw", GIB)
    per_round = ROUND // 2  # two keys a record
    units = [bytes(UNIT_BYTES * ROUND)]
    keys = [key.encode() for entry in rounds[:per_turn] for key in entry.keys]
    parts = iter([rounds[first : first + per_turn] for first in range(0, len(rounds), per_turn)])

    def put() -> int:
        part = next(parts)
        for first in range(0, per_turn, per_round):
            indexes.put_round(part[first : first + per_round])
        return 2 * per_turn

    def write() -> int:
        for first in range(0, len(keys), ROUND):
            [zlib.crc32(key) for key in keys[first : first + ROUND]]
            raw.write(units)
        return len(keys)

    times = in_turns(put, write)
    yield Figure(
        name=f"index puts in rounds of {ROUND}",
        value=times.ratio,
        unit="× raw's time",
        goal=6.5,
        at_least=False,
        note=f"{1 / times.ours:,.0f} keys/s",
    )
    place = rounds[-1].physical_offset
    count = 10_000
    lone_keys = [f"lone-{n}" for n in range(TURNS * count)]
    entries = [
        Entry("T", 0, 0, place + n, 1, 0, samples.AT_MS, (key,)) for n, key in enumerate(lone_keys)
    ]
    lone, raw_lone = iter(entries), iter(lone_keys)
    slots = array("i", bytes(SLOT_BYTES * count))

    def put_lone() -> int:
        for entry in islice(lone, count):
            indexes.put_round((entry,))
        return count

    def write_lone() -> int:
        for number, key in enumerate(islice(raw_lone, count)):
            checksum = zlib.crc32(f"T#{key}".encode()) & 0x7FFF_FFFF
            slot = checksum % count
            raw.write([INDEX_UNIT.pack(checksum, place, 0, slots[slot])])
            slots[slot] = number
        return count

    times = in_turns(put_lone, write_lone)
    indexes.close_handles()
    raw.close()
    yield Figure(
        name="index put of a lone key",
        value=times.ratio,
        unit="× raw's time",
        goal=7.5,
        at_least=False,
        note=f"{times.ours * 1e6:.1f} µs",
    )


def lookups(folder: Path) -> Iterator[Figure]:
    """Measure lookups in a full index file that is in the page cache; raw reads as many places."""
    count = 2000
    keys = [f"key-{number}" for number in range(count)]
    indexes = samples.full_index(folder / "index", keys)
    geometry = IndexGeometry()
    every = (geometry.units - 1) // count * 1000
    (path,) = (folder / "index").iterdir()
    raw = os.open(path, os.O_RDONLY)
    # The slot, the unit, and the mean number of others in its chain.
    reads_each = 2 + geometry.units // geometry.slots // 2
    drawn = random.Random(1)
    took, raw_took = [], []
    for warm in (False, True):
        for number, key in enumerate(keys):
            began = time.perf_counter()
            found = indexes.find(key_string(samples.TOPIC, key), 64)
            ended = time.perf_counter()
            assert number * every in found
            places = [drawn.randrange(geometry.file_bytes) for _ in range(reads_each)]
            raw_began = time.perf_counter()
            for place in places:
                os.pread(raw, UNIT_BYTES, place)
            if warm:
                raw_took.append(time.perf_counter() - raw_began)
                took.append(ended - began)
    indexes.close_handles()
    os.close(raw)
    took.sort()
    raw_took.sort()
    late = int(0.99 * count)
    yield Figure(
        name="lookup by key among 20,000,000",
        value=took[late] / raw_took[late],
        unit="× raw's time",
        goal=5,
        at_least=False,
        note=f"99th percentiles; ours {took[late] * 1e6:.0f} µs, "
        f"its median {took[count // 2] * 1e6:.0f}",
    )


def dispatch(folder: Path) -> Iterator[Figure]:
    """Measure queue units and two keys a record put in rounds of 512, read from the log.

    Raw copies the log, hashes each key, and writes as many units with as many calls.
    """
    root = folder / "dispatched"
    count = samples.log_of_a_gib(root, KIB)
    files = SegmentFiles(RealDisk(), StoreLayout(str(root)).commitlog, GIB, write=False)
    files.load()
    ends = _ends(files, count)
    queues = FileQueues(RealDisk(), str(folder / "queues"), QueueGeometry())
    indexes = Indexes(RealDisk(), str(folder / "keys"), IndexGeometry(), SystemClock())
    both = Reput(Tail(files), queues, indexes, 0)
    raw = _RawWrites(folder / "raw", GIB)
    rounds = [*ends[ROUND - 1 : -1 : ROUND], ends[-1]]
    shares = [
        rounds[len(rounds) * n // TURNS : len(rounds) * (n + 1) // TURNS] for n in range(TURNS)
    ]
    left, raw_left = iter(shares), iter(shares)
    queue_units, index_units = [bytes(UNIT_BYTES * ROUND // 8)], [bytes(UNIT_BYTES * 2 * ROUND)]
    key = bytes(32)
    view = files.segment(0).view

    def follow() -> int:
        share = next(left)
        before = both.queued_to
        for end in share:
            both.to_queues(end)
            both.take_fresh(someone_waits=True)
            both.to_index()
        return both.queued_to - before

    def copy() -> int:
        share = next(raw_left)
        start = begin = 0 if share is shares[0] else shares[shares.index(share) - 1][-1]
        for end in share:
            bytes(view[begin:end])
            [zlib.crc32(key) for _ in range(2 * ROUND)]
            for _ in range(samples.QUEUES):
                raw.write(queue_units)
            raw.write(index_units)
            begin = end
        return begin - start

    times = in_turns(follow, copy)
    assert both.queued_to == ends[-1]
    queues.close()
    indexes.close_handles()
    raw.close()
    per_record = times.ours * ends[-1] / count
    files.close()
    shutil.rmtree(root)
    yield Figure(
        name="dispatch, queue and index together",
        value=times.ratio,
        unit="× raw's time",
        goal=6,
        at_least=False,
        note=f"{1 / per_record:,.0f} records/s; rounds of {ROUND} records of 1 KiB with two keys, "
        "decoded from the log",
    )


def _ends(files: SegmentFiles, count: int) -> list[int]:
    """Return where each record of a log of one file ends."""
    segment = files.segment(0)
    starts, end = record_scan.positions(segment.view, 0, segment.size, count)
    assert len(starts) == count
    return [*starts[1:], end]


# Opening.


def recovery(folder: Path) -> Iterator[Figure]:
    """Measure the opening of a killed store with a GiB of log that is in no queue or index."""
    root = folder / "killed"
    count = samples.log_of_a_gib(root, KIB)
    opened(root)  # maps the file for the first time, which no later reader pays for
    for name in ("consumequeue", "index"):
        subprocess.run(["rm", "-r", str(root / name)], check=True)
    for name in ("checkpoint", "config/clean.json"):
        (root / name).unlink()
    (root / "abort").write_bytes(b"1 sprocket\n")
    store = _store(root, "sync")
    report = store.report
    store.close()
    assert report.records == report.units_rebuilt == report.index_entries_rebuilt == count
    seconds = report.seconds * GIB / report.bytes_scanned
    raw = statistics.median([_hashed_seconds(root) for _ in range(TURNS)])
    yield Figure(
        name=f"recovery of a GiB, records of {_size(KIB)}",
        value=seconds / raw,
        unit="× raw's time",
        goal=15,
        at_least=False,
        note=f"{seconds:.2f} s, {report.seconds / count * 1e6:.2f} µs each of {count:,} records",
    )


def _hashed_seconds(root: Path) -> float:
    """Return how long it takes to read a GiB of log and to make two checksums of it."""
    file = os.open(f"{StoreLayout(str(root)).commitlog}/{0:020d}", os.O_RDONLY)
    began = time.perf_counter()
    for position in range(0, GIB, MIB):
        data = os.pread(file, MIB, position)
        crc32(data)
        crc32(data)
    took = time.perf_counter() - began
    os.close(file)
    return took


def many_queues(folder: Path, engine: Engine) -> Iterator[Figure]:
    """Measure the opening of a store with 100,000 queues, in a process of its own."""
    root = folder / f"many-{engine}"
    samples.many_queues(root, 1000, 100, engine)
    os.sync()  # or the disk would still be busy with it
    seconds, memory = opened(root)
    raw = statistics.median([_table_seconds() for _ in range(TURNS)])
    for value, unit, goal, note in (
        (
            seconds / raw,
            "× raw's time",
            OPEN_RATIO_MAX[engine],
            f"{seconds:.2f} s; raw fills a table from JSON",
        ),
        (memory, "MB", 300, "peak of the process"),
    ):
        yield Figure(
            name=f"open of 100,000 queues in {engine}",
            value=value,
            unit=unit,
            goal=goal,
            at_least=False,
            note=note,
        )


def _table_seconds() -> float:
    """Return how long it takes to read 100,000 names with three numbers each, and to key them."""
    text = json.dumps([[f"Topic-{n:06d}", n, 2 * n, 3 * n] for n in range(100_000)])
    began = time.perf_counter()
    found = {(name, n): (low, high) for name, n, low, high in json.loads(text)}
    took = time.perf_counter() - began
    assert len(found) == 100_000
    return took


_OPEN = """
import json, sys, time
from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store

began = time.perf_counter()
store = Store.open(RealDisk(), sys.argv[1], StoreSettings(), SystemClock())
seconds = time.perf_counter() - began
with open("/proc/self/status") as status:
    kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps([seconds, kilobytes * 1024 / 1e6]))
sys.stdout.flush()
store.close()
"""


def opened(root: Path) -> tuple[float, float]:
    """Open a store in another process; return the seconds and the peak of its memory in MB."""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(root)], capture_output=True, text=True, check=True
    )
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes
