"""The pipeline on Spark beside what Spark itself can carry: `python -m bench.spark`.

What each figure stands for: `bench/README.md`. Rows are functions, all named in `ROWS`; in each
round every one runs once, and beside it, as the ceiling, a query that only sends the rows of such
a store again and again. A goal is a ratio to that ceiling in the same run, a speed, which is asked
of machines whose ceiling leaves room for it, or a limit of its own.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.goals import Goal, at_least, at_most
from bench.spark_resent import FORMAT as RESENT
from bench.spark_resent import ResentSource

from bench import processes, spark_samples
from sprocket.base.errors import StoreError
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Admin, Producer
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.jobs import archive, fsck, rebuild_index, rebuild_queues
from sprocket.testing.local_broker import LocalBroker

ROUNDS = 5
RESULTS = Path("build/bench-spark.json")
CEILINGS = {1024: 1.9, 100: 1.5}
"""GB/s of two quiet cores of a current server by the size of a body; floors are a part of what
these did."""
BUSY = 0.6
"""Of such a machine, the part that is left to one that is busy: what floors are, and the ceiling
from which on they are asked."""
PLANNED = 3
"""Times, each in a process of its own."""
PLAN_SECONDS_MAX = 3.0
PLAN_MIB_MAX = 300.0
PLANNED_QUEUES = 10_000
QUEUES_OF_TOPIC = 8
QUEUES_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What the rows work with: a session, the stores by the size of a body, a folder for output."""

    spark: Any
    stores: dict[int, spark_samples.Store]
    folder: Path

    def log(self, body_bytes: int, source: str = "rocketmq", **options: str) -> Any:
        """Return the DataFrame of the store with such bodies."""
        reader = self.spark.read.format(source).options(**options)
        return reader.load(self.stores[body_bytes].folder)

    def count(self, body_bytes: int, **options: str) -> None:
        """Count the rows of a store, every column of which Spark is sent."""
        found, wanted = self.log(body_bytes, **options).count(), self.stores[body_bytes].count
        if found != wanted:
            raise BenchError(f"{found} rows, there are {wanted} messages")

    def with_queues(self, body_bytes: int) -> str:
        """Return the folder of a store with the same log that has its queues as well."""
        folder = self.folder / f"queues-{body_bytes}"
        if not folder.exists():
            log, linked = (
                Path(StoreLayout(str(one)).commitlog)
                for one in (self.stores[body_bytes].folder, folder)
            )
            linked.mkdir(parents=True)
            for file in log.iterdir():
                (linked / file.name).hardlink_to(file)
            rebuild_queues(self.spark, store=str(folder))
        return str(folder)


class BenchError(Exception):
    """What was measured is not what should have been."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what is done with the store whose bodies have so many bytes.

    Args:
        name: What it is, without the size of the bodies.
        body_bytes: Which store.
        run: Does it once; raises BenchError if the result is wrong.
        ratio: Bytes of the log per second to those of the ceiling, at least; None for no goal.
        floor: GB of the log per second, at least, where the ceiling is `BUSY` of `CEILINGS`; None
            for no goal.
    """

    name: str
    body_bytes: int
    run: Callable[[Bench, int], None]
    ratio: float | None = None
    floor: float | None = None

    def __str__(self) -> str:
        """Name it whole."""
        size = "1 KiB" if self.body_bytes == 1024 else f"{self.body_bytes} B"
        return f"{self.name}, {size}"


def _all_columns(bench: Bench, body_bytes: int) -> None:
    bench.count(body_bytes)


def _metadata(bench: Bench, body_bytes: int) -> None:
    bench.count(body_bytes, view="meta")


def _parquet(bench: Bench, body_bytes: int) -> None:
    target = str(bench.folder / "parquet")
    frame = bench.log(body_bytes).write.option("compression", "zstd")
    frame.mode("overwrite").parquet(target)


def _archive(bench: Bench, body_bytes: int) -> None:
    target, wanted = bench.folder / "archive", bench.stores[body_bytes].count
    report = archive(bench.spark, store=bench.stores[body_bytes].folder, to=str(target))
    if report.messages != wanted:
        raise BenchError(f"{report.messages} messages were archived, there are {wanted}")
    shutil.rmtree(target)


def _fsck(bench: Bench, body_bytes: int) -> None:
    report = fsck(bench.spark, store=bench.with_queues(body_bytes))
    wanted = bench.stores[body_bytes].count
    if report.messages != wanted or report.findings:
        wrong = f"{len(report.findings)} findings"
        raise BenchError(f"{report.messages} messages and {wrong}, there are {wanted} and none")


def _queues(bench: Bench, body_bytes: int) -> None:
    _made_again(bench, body_bytes, rebuild_queues, "consumequeue")


def _index(bench: Bench, body_bytes: int) -> None:
    _made_again(bench, body_bytes, rebuild_index, "index")


def _made_again(bench: Bench, body_bytes: int, job: Callable[..., Any], folder: str) -> None:
    """Run a job that makes a folder of the store, and remove it: other rows have a log alone."""
    store = bench.stores[body_bytes]
    report = job(bench.spark, store=store.folder)
    if report.records != store.count:
        raise BenchError(f"{report.records} records, there are {store.count}")
    shutil.rmtree(f"{store.folder}/{folder}")


ROWS = (
    Row("all columns", 1024, _all_columns, 0.6),
    Row("all columns", 100, _all_columns, 0.5),
    Row("metadata", 1024, _metadata, 1.3),
    Row("metadata", 100, _metadata),
    Row("Parquet by Spark's writer", 1024, _parquet),
    Row("Parquet by Spark's writer", 100, _parquet),
    Row("archive", 1024, _archive, 0.28, 0.32),
    Row("archive", 100, _archive, 0.41, 0.37),
    Row("fsck", 1024, _fsck, 0.89, 1.0),
    Row("fsck", 100, _fsck, 0.67, 0.6),
    Row("queues made again", 1024, _queues, 0.79, 0.9),
    Row("queues made again", 100, _queues, 0.47, 0.42),
    Row("index made again", 1024, _index),
    Row("index made again", 100, _index),
)


def main() -> int:
    """Measure, print, and return the exit code."""
    arguments = _arguments()
    processes.find_package()
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-", dir=arguments.folder))
    try:
        goals = _jobs(folder, arguments.rounds, arguments.row)
        if not arguments.row:
            goals += _planning(folder / "large")
            goals += _planning_queues()
    except (BenchError, StoreError, OSError, subprocess.SubprocessError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for goal in goals:
        print(goal)
    return 0 if all(goal.is_met for goal in goals) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each row runs")
    parser.add_argument("--row", default="", help="only rows whose name begins so, no planning")
    parser.add_argument("--folder", default="build", help="on which disk; everything is removed")
    found = parser.parse_args()
    Path(found.folder).mkdir(exist_ok=True)
    RESULTS.parent.mkdir(exist_ok=True)
    return found


def _jobs(folder: Path, rounds: int, wanted: str) -> list[Goal]:
    """Run the rows in turns, and print what each came to."""
    from sprocket.spark import session

    rows = [row for row in ROWS if str(row).startswith(wanted)]
    if not rows:
        raise BenchError(f"no row begins with {wanted!r}; there are {', '.join(map(str, ROWS))}")
    sizes = sorted({row.body_bytes for row in rows}, reverse=True)
    ceilings = [Row("ceiling", size, _resent) for size in sizes]
    stores = {size: spark_samples.store(folder / f"store-{size}", size) for size in sizes}
    spark = session("bench", folder=str(folder / "spark"))
    try:
        spark.dataSource.register(ResentSource)
        bench = Bench(spark, stores, folder)
        seconds = _seconds(bench, [*ceilings, *rows], rounds)
    finally:
        spark.stop()
    speeds = {
        row: statistics.median(stores[row.body_bytes].size / one for one in took)
        for row, took in seconds.items()
    }
    _show(speeds, seconds, stores)
    by_size = {row.body_bytes: speed for row, speed in speeds.items() if row in ceilings}
    ratios = [
        at_least(f"{row}: to the ceiling", speeds[row] / by_size[row.body_bytes], row.ratio)
        for row in rows
        if row.ratio is not None
    ]
    return ratios + _floors(rows, speeds, by_size)


def _floors(
    rows: Sequence[Row], speeds: dict[Row, float], ceilings: dict[int, float]
) -> list[Goal]:
    """Return the goals in GB/s, and print those that this machine is too slow to be asked for."""
    asked = []
    for row in rows:
        if row.floor is None:
            continue
        floor = at_least(f"{row}: GB/s", speeds[row] / 1e9, row.floor)
        ceiling, needed = ceilings[row.body_bytes] / 1e9, BUSY * CEILINGS[row.body_bytes]
        if ceiling >= needed:
            asked.append(floor)
        else:
            figures = f"{floor.figure:.2f}, {floor.limit:.2f} is asked from"
            print(f"{floor.what}: {figures} a ceiling of {needed:.2f} on; here it is {ceiling:.2f}")
    return asked


def _resent(bench: Bench, body_bytes: int) -> None:
    """Do what costs nothing but the transport: all columns, each batch sent again and again."""
    bench.log(body_bytes, RESENT).count()


def _seconds(bench: Bench, rows: Sequence[Row], rounds: int) -> dict[Row, list[float]]:
    """Return how long each row took, after one time to warm up the JVM and the page cache."""
    took: dict[Row, list[float]] = {row: [] for row in rows}
    for number in range(rounds + 1):
        for row in rows:
            began = time.perf_counter()
            row.run(bench, row.body_bytes)
            if number:
                took[row].append(time.perf_counter() - began)
    return took


def _show(
    speeds: dict[Row, float],
    seconds: dict[Row, list[float]],
    stores: dict[int, spark_samples.Store],
) -> None:
    """Print the medians, and write them with all runs to a file."""
    ceilings = {row.body_bytes: speed for row, speed in speeds.items() if row.run is _resent}
    for row, speed in speeds.items():
        store = stores[row.body_bytes]
        rate = speed / store.size * store.count
        ratio = speed / ceilings[row.body_bytes]
        print(f"{row!s:36} {speed / 1e9:6.2f} GB/s {rate / 1e6:6.2f} M/s  {ratio:5.2f}")
    RESULTS.write_text(json.dumps({str(row): took for row, took in seconds.items()}, indent=1))


# Growth: a log of 64 GiB, planned by a process of its own.


def _planning(folder: Path) -> list[Goal]:
    """Plan a large log some times, and hold the medians against their limits.

    The files are on the disk before: what is measured is not how long they take to get there.
    """
    store = spark_samples.large_store(folder)
    os.sync()
    found = _planned(path=store.folder)
    if found["records_end"] != store.size:
        raise BenchError(f"the log was planned to {found['records_end']}, not to {store.size}")
    print(f"{store.size / 2**30:.0f} GiB are {found['tasks']:.0f} tasks")
    return [
        at_most("64 GiB planned, s", found["seconds"], PLAN_SECONDS_MAX),
        at_most("64 GiB planned, MiB of memory", found["mib"], PLAN_MIB_MAX),
    ]


def _planning_queues() -> list[Goal]:
    """Plan 10,000 queues with a message in each: of a live cluster, and of its folder."""
    topics = [f"topic{number}" for number in range(PLANNED_QUEUES // QUEUES_OF_TOPIC)]
    offsets: dict[str, dict[str, dict[int, int]]] = {}
    with LocalBroker() as broker:
        with Admin(broker.nameserver) as admin:
            for topic in topics:
                admin.topic.create(topic, queues=QUEUES_OF_TOPIC)
        with Producer(broker.nameserver, group="bench") as producer:
            for topic in topics:
                for queue in producer.queues(topic):
                    producer.send(Message(topic, b"one"), queue=queue)
                    brokers = offsets.setdefault(topic, {})
                    brokers.setdefault(queue.broker_name, {})[queue.queue_id] = 0
        broker.settle()
        pattern = {"subscribePattern": "topic[0-9]+"}
        live = _planned(nameServer=broker.nameserver, **pattern)
        # One word of a command has 128 KiB at most.
        named = json.dumps(offsets, separators=(",", ":"))
        folder = _planned(path=broker.folder, startingOffsets=named, **pattern)
    if live["queues"] != PLANNED_QUEUES:
        raise BenchError(f"{live['queues']} queues are planned, there are {PLANNED_QUEUES}")
    return [
        at_most("10,000 queues of a cluster planned, s", live["seconds"], QUEUES_SECONDS_MAX),
        at_most("10,000 queues of a folder planned, s", folder["seconds"], QUEUES_SECONDS_MAX),
    ]


def _planned(**options: str) -> dict[str, float]:
    """Plan a query some times, each in a process of its own; return the medians."""
    words = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "bench.spark_plan", *words]
    runs = []
    for _ in range(PLANNED):
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        runs.append(json.loads(answer))
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


if __name__ == "__main__":
    sys.exit(main())
