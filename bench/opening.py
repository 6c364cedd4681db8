"""The opening of 100,000 queues, and of 1,000,000 unended transactions, after a kill.

The queues are those of a store of ours, and of one that RocketMQ left. A process makes each store
and ends without closing it, another one opens it. The last seconds before the kill are 100
messages; but of a store that RocketMQ left everything in the last log file is put again, as its
checkpoint runs ahead of its queues. Of the store with transactions a whole broker is started, which
has to know which of them have ended.

Exit code 0 if every goal is met, 1 if one is missed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from bench.goals import Goal, at_most
from bench.store_rows import opened
from tests.interop import peers

from bench import processes
from bench import store_samples as samples
from sprocket.base.disk import steps
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import HALF_TOPIC
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store

Kind = Literal["ours", "rocketmq"]
KINDS: dict[Kind, str] = {"ours": "ours", "rocketmq": "RocketMQ's"}

TOPICS, QUEUES, ROUNDS = 12_500, 8, 3
"""Each queue has a message of each round."""
LAST = 100
"""Messages of the last seconds."""
SECONDS_MAX = 10.0
MEGABYTES_MAX = 400.0
HALVES, HALVES_TOGETHER = 1_000_000, 1000
HALVES_SECONDS_MAX = 10.0
HALVES_MIB_MAX = 400.0
_FLUSH_TOPICS = 500
_ROUND_MS = 10_000


class _Clock:
    """A clock whose rounds take ten seconds."""

    def __init__(self) -> None:
        self.at_ms = samples.AT_MS

    def now_ms(self) -> int:
        """Return the time of the round."""
        return self.at_ms

    def monotonic(self) -> float:
        """Return the machine's."""
        return time.perf_counter()


def main() -> int:
    """Measure, or make a store if told so; return the exit code."""
    if sys.argv[1:]:
        _make(Path(sys.argv[1]), sys.argv[2])
    Path("build").mkdir(exist_ok=True)
    goals: list[Goal] = []
    for kind, whose in KINDS.items():
        folder = Path(tempfile.mkdtemp(prefix="bench-opening-", dir="build"))
        try:
            root = folder / "store"
            subprocess.run([sys.executable, "-m", "bench.opening", str(root), kind], check=True)
            os.sync()  # or the disk would still be busy with it
            seconds, megabytes = opened(root)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        for unit, figure, limit in (
            ("s", seconds, SECONDS_MAX),
            ("MB", megabytes, MEGABYTES_MAX),
        ):
            what = f"open 100,000 queues killed, {whose}, {unit}"
            goals.append(Goal(what=what, figure=figure, limit=limit, is_at_most=True))
            print(goals[-1], flush=True)
    goals += _halves()
    return 0 if all(goal.is_met for goal in goals) else 1


def _halves() -> list[Goal]:
    """Open a store with transactions that have not ended, and return the goals."""
    folder = Path(tempfile.mkdtemp(prefix="bench-opening-", dir="build"))
    try:
        root = folder / "store"
        subprocess.run([sys.executable, "-m", "bench.opening", str(root), "halves"], check=True)
        os.sync()
        began = time.perf_counter()
        with peers.Sprocket(folder, root) as broker:
            seconds = time.perf_counter() - began
            memory = processes.memory(broker.pid)["anonymous_mib"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    what = f"open {HALVES:,} unended transactions killed"
    goals = [
        at_most(f"{what}, s", seconds, HALVES_SECONDS_MAX),
        at_most(f"{what}, MiB", memory, HALVES_MIB_MAX),
    ]
    for goal in goals:
        print(goal, flush=True)
    return goals


def _make(root: Path, kind: str) -> None:
    """Make a store and end this process as a kill does."""
    clock = _Clock()
    disk = samples.NeverSynced()
    store = Store.open(disk, str(root), StoreSettings(fill_ahead_bytes=0), clock)
    if kind == "halves":
        _make_halves(store, clock)
        os._exit(0)
    for _ in range(ROUNDS):
        clock.at_ms += _ROUND_MS
        for topic in range(TOPICS):
            for queue_id in range(QUEUES):
                _append(store, topic, queue_id)
            store.write()
            if topic % _FLUSH_TOPICS == 0:
                store.sync()
                steps.run(store.maintain_steps())
    store.sync()
    steps.run(store.maintain_steps())
    clock.at_ms += _ROUND_MS
    for topic in range(LAST):
        _append(store, topic, 0)
    store.write()
    store.sync()
    steps.run(store.maintain_steps())
    if kind == "rocketmq":
        layout = StoreLayout(str(root))
        for path in (layout.geometry, layout.queue_table, layout.recovery):
            Path(path).unlink(missing_ok=True)
        Path(layout.abort).write_bytes(b"4711")
    os._exit(0)


def _make_halves(store: Store, clock: _Clock) -> None:
    """Store messages of transactions, and have all but the last seconds in their queue."""
    clock.at_ms = time.time_ns() // 1_000_000
    for first in range(0, HALVES, HALVES_TOGETHER):
        store.append_all([_half(number) for number in range(first, first + HALVES_TOGETHER)])
        store.write()
        if first % (100 * HALVES_TOGETHER) == 0:
            store.sync()
            steps.run(store.maintain_steps())
    store.sync()
    steps.run(store.maintain_steps())
    store.append_all([_half(number) for number in range(LAST)])
    store.write()
    store.sync()


def _half(number: int) -> NewRecord:
    key = f"{number:032X}"
    found = {
        "UNIQ_KEY": key,
        "TRAN_MSG": "true",
        "PGROUP": "producers",
        "REAL_TOPIC": "Orders",
        "REAL_QID": "1",
        "__transactionId__": key,
    }
    host, text = samples.HOST, properties.encode(found)
    return NewRecord(HALF_TOPIC, 0, bytes(100), text, host, host)


def _append(store: Store, topic: int, queue_id: int) -> None:
    record = samples.new_record(bytes(100), topic=f"Topic-{topic:05d}", queue_id=queue_id)
    store.append(record)


if __name__ == "__main__":
    sys.exit(main())
