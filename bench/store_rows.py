"""What the bench of the store measures, one function a group of rows."""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import store_samples as samples
from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk
from sprocket.base.segments import SegmentFiles
from sprocket.base.units import GIB, KIB, MIB
from sprocket.rocketmq.codec import record
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import Engine, IndexGeometry, QueueGeometry, StoreSettings
from sprocket.rocketmq.store.dispatch import Dispatch
from sprocket.rocketmq.store.index import Indexes, key_string
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queues.files import FileQueues
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.tail import Tail

BODIES = (100, KIB, 10 * KIB)
BATCH = 32
ROUND = 512
TURNS = 5
"""Times that two things which are compared take turns; each ratio is a median over them."""
TURN_SECONDS = 0.4


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
            self._store.finish_fill(job)

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
        goal=0.7 if (count, body_bytes) == (BATCH, KIB) else None,
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


def _page_cache_appends(folder: Path) -> Figure:
    store = _store(folder, "async")
    body = os.urandom(KIB)
    records = [samples.new_record(body, number) for number in range(BATCH)]
    rates = []
    for _ in range(TURNS):
        began = time.perf_counter()
        for _ in range(600):
            for new in records:
                store.append(new)
            store.write()
        rates.append(600 * BATCH / (time.perf_counter() - began))
        store.dispatch()
        store.dispatch_index()
    store.close()
    return Figure(
        name=f"appends, {_size(KIB)}, not synced",
        value=statistics.median(rates),
        unit="records/s",
        goal=150_000,
        note=f"written in turns of {BATCH}",
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
    """Measure keys put in rounds of 512, and one by one."""
    rounds = samples.entries(150_000)
    indexes = Indexes(RealDisk(), str(folder / "puts"), IndexGeometry(), SystemClock())
    per_round = ROUND // 2  # two keys a record
    began = time.perf_counter()
    for first in range(0, len(rounds), per_round):
        indexes.put_round(rounds[first : first + per_round])
    seconds = time.perf_counter() - began
    yield Figure(
        name=f"index puts in rounds of {ROUND}",
        value=2 * len(rounds) / seconds,
        unit="keys/s",
        goal=1_000_000,
    )
    place = rounds[-1].physical_offset
    lone = [Entry("T", 0, 0, place + n, 1, 0, samples.AT_MS, (f"lone-{n}",)) for n in range(20_000)]
    began = time.perf_counter()
    for entry in lone:
        indexes.put_round((entry,))
    seconds = time.perf_counter() - began
    indexes.close_handles()
    yield Figure(
        name="index put of a lone key",
        value=seconds / len(lone) * 1e6,
        unit="µs",
        goal=10,
        at_least=False,
    )


def lookups(folder: Path) -> Iterator[Figure]:
    """Measure lookups in a full index file that is in the page cache."""
    count = 2000
    keys = [f"key-{number}" for number in range(count)]
    indexes = samples.full_index(folder / "index", keys)
    every = (IndexGeometry().units - 1) // count * 1000
    took = []
    for warm in (False, True):
        for number, key in enumerate(keys):
            began = time.perf_counter()
            found = indexes.find(key_string(samples.TOPIC, key), 64)
            if warm:
                took.append(time.perf_counter() - began)
            assert number * every in found
    indexes.close_handles()
    took.sort()
    yield Figure(
        name="lookup by key among 20,000,000",
        value=took[int(0.99 * count)] * 1e3,
        unit="ms",
        goal=1,
        at_least=False,
        note=f"99th percentile; median {took[count // 2] * 1e6:.0f} µs",
    )


def dispatch(folder: Path) -> Iterator[Figure]:
    """Measure queue units and two keys a record put in rounds of 512, read from the log."""
    root = folder / "dispatched"
    count = samples.log_of_a_gib(root, KIB)
    files = SegmentFiles(RealDisk(), StoreLayout(str(root)).commitlog, GIB, write=False)
    files.load()
    ends = _ends(files, count)
    queues = FileQueues(RealDisk(), str(folder / "queues"), QueueGeometry())
    indexes = Indexes(RealDisk(), str(folder / "keys"), IndexGeometry(), SystemClock())
    both = Dispatch(Tail(files), queues, indexes, 0)
    began = time.perf_counter()
    for end in [*ends[ROUND - 1 : -1 : ROUND], ends[-1]]:
        both.to_queues(end)
        both.take_fresh(someone_waits=True)
        both.to_index()
    seconds = time.perf_counter() - began
    assert both.queued_to == ends[-1]
    queues.close()
    indexes.close_handles()
    files.close()
    shutil.rmtree(root)
    yield Figure(
        name="dispatch, queue and index together",
        value=count / seconds,
        unit="records/s",
        goal=300_000,
        note=f"rounds of {ROUND} records of 1 KiB with two keys, decoded from the log",
    )


def _ends(files: SegmentFiles, count: int) -> list[int]:
    """Return where each record of a log of one file ends."""
    segment = files.segment(0)
    starts, end = record.places(segment.view, 0, segment.size, count)
    assert len(starts) == count
    return [*starts[1:], end]


# Opening.


def recovery(folder: Path) -> Iterator[Figure]:
    """Measure the opening of a killed store with a GiB of log that is in no queue or index."""
    root = folder / "killed"
    count = samples.log_of_a_gib(root, KIB)
    _opened(root)  # maps the file for the first time, which no later reader pays for
    for name in ("consumequeue", "index"):
        subprocess.run(["rm", "-r", str(root / name)], check=True)
    for name in ("checkpoint", "config/clean.json"):
        (root / name).unlink()
    (root / "abort").write_bytes(b"1 sprocket\n")
    store = _store(root, "sync")
    report = store.report
    store.close()
    assert report.records == report.units_rebuilt == report.index_entries_rebuilt == count
    yield Figure(
        name=f"recovery of a GiB, records of {_size(KIB)}",
        value=report.seconds * GIB / report.bytes_scanned,
        unit="s",
        goal=3,
        at_least=False,
        note=f"{report.seconds / count * 1e6:.2f} µs each of {count:,} records",
    )


def many_queues(folder: Path, engine: Engine) -> Iterator[Figure]:
    """Measure the opening of a store with 100,000 queues, in a process of its own."""
    root = folder / f"many-{engine}"
    samples.many_queues(root, 1000, 100, engine)
    os.sync()  # or the disk would still be busy with it
    seconds, memory = _opened(root)
    for value, unit, goal in ((seconds, "s", 2), (memory, "MB", 300)):
        yield Figure(
            name=f"open of 100,000 queues in {engine}",
            value=value,
            unit=unit,
            goal=goal,
            at_least=False,
            note="" if unit == "s" else "peak of the process",
        )


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


def _opened(root: Path) -> tuple[float, float]:
    """Open a store in another process; return the seconds and the peak of its memory in MB."""
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(root)], capture_output=True, text=True, check=True
    )
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes
