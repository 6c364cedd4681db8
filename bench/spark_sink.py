"""Spark to topics and back, over the wire: `python -m bench.spark_sink`.

A DataFrame of messages of 1 KiB with a tag and a key is written to a topic, with async and with
sync flush, and the topic is read as a stream into Spark's `noop`; bodies of 5,000 bytes of JSON are
written as they are and packed by each method. Broker, JVM and Python workers
share the machine. In each round every row runs once; the figures are medians.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.goals import ASYNC, SYNC, Goal
from tests.interop import peers

from bench import processes
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.blocking import Admin

ROUNDS = 3
WRITTEN, READ = 400_000, 2_000_000
"""Messages of a run: a few seconds, so that what a query costs at its start counts little."""
BODY_BYTES = 1024
LONG_WRITTEN = 60_000
LONG_BODY = """left(to_json(transform(sequence(1, 60), i -> named_struct(
    'order', xxhash64(id, i), 'customer', array('anna', 'bert', 'carl')[cast(id % 3 AS int)],
    'price', (id * i) % 9973 / 100, 'state', 'waits for its payment'))), 5000)"""
"""A fifth to a third of it is left when it is packed."""
LONG_RATE_MIN, PACKED_RATE_MIN = 8_000.0, 1_000.0
QUEUES = 4
WRITE_RATE_MIN, READ_RATE_MIN = 60_000.0, 150_000.0
BODY = f"rpad(concat('message ', id), {BODY_BYTES}, 'x')"
KEY = "lpad(cast(id AS string), 10, '0')"


@dataclass(frozen=True, slots=True)
class Wire:
    """What the rows work with.

    Args:
        spark: A session.
        brokers: A broker that runs, by flush mode.
        folder: For checkpoints.
        filled: Topics with messages to read, by flush mode.
    """

    spark: Any
    brokers: dict[str, peers.Sprocket]
    folder: Path
    filled: dict[str, str] = field(default_factory=dict)

    def new_topic(self, flush: str) -> str:
        """Make a topic of its own for a run; return its name."""
        name = f"bench-{time.monotonic_ns()}"
        with Admin(self.brokers[flush].nameserver) as admin:
            admin.create_topic(name, queues=QUEUES)
        return name

    def messages(self, count: int) -> Any:
        """Return the DataFrame to write."""
        columns = f"{BODY} AS body", f"{KEY} AS keys", "'bench' AS tags"
        return self.spark.range(count).selectExpr(*columns)

    def write(self, flush: str, topic: str, count: int) -> None:
        """Write it."""
        self._write(self.messages(count), flush, topic)

    def write_long(self, flush: str, topic: str, count: int, *, compression: str) -> None:
        """Write bodies of 5,000 bytes, packed as asked."""
        frame = self.spark.range(count).selectExpr(f"{LONG_BODY} AS body", f"{KEY} AS keys")
        self._write(frame, flush, topic, compression=compression)

    def _write(self, frame: Any, flush: str, topic: str, **options: str) -> None:
        writer = frame.write.format("rocketmq").mode("append").options(**options)
        writer.options(nameServer=self.brokers[flush].nameserver, topic=topic).save()

    def read(self, flush: str, topic: str, count: int, **options: str) -> None:
        """Read a topic that has so many messages as a stream that then ends."""
        server = self.brokers[flush].nameserver
        reader = self.spark.readStream.format("rocketmq").options(**options)
        drain(reader.options(nameServer=server, subscribe=topic).load(), self.folder, count)


def drain(frame: Any, folder: Path, count: int) -> None:
    """Run a stream that must have `count` rows into `noop`, with a checkpoint below `folder`.

    Raises:
        ClientError: It has another number of rows.
    """
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    checkpoint = str(folder / f"read-{time.monotonic_ns()}")
    query = writer.option("checkpointLocation", checkpoint).start()
    query.awaitTermination()
    read = sum(one["numInputRows"] for one in query.recentProgress)
    if read != count:
        raise ClientError(f"{read} rows were read, {count} messages are there")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what is prepared, and what is measured then.

    Args:
        name: What it is.
        flush: Of which broker.
        count: Messages of a run.
        rate: Messages per second, at least.
        prepare: Returns the topic of a run.
        run: Does it.
    """

    name: str
    flush: str
    count: int
    rate: float
    prepare: Callable[[Wire, str, int], str]
    run: Callable[[Wire, str, str, int], None]


def _new(wire: Wire, flush: str, _count: int) -> str:
    return wire.new_topic(flush)


def _filled(wire: Wire, flush: str, count: int) -> str:
    if flush not in wire.filled:
        wire.filled[flush] = wire.new_topic(flush)
        wire.write(flush, wire.filled[flush], count)
    return wire.filled[flush]


ROWS = (
    Row("DataFrame to topic, async flush", ASYNC, WRITTEN, WRITE_RATE_MIN, _new, Wire.write),
    Row("DataFrame to topic, sync flush", SYNC, WRITTEN, WRITE_RATE_MIN, _new, Wire.write),
    *(
        Row(
            f"5,000 B to topic, {method}",
            ASYNC,
            LONG_WRITTEN,
            LONG_RATE_MIN if method == "none" else PACKED_RATE_MIN,
            _new,
            partial(Wire.write_long, compression=method),
        )
        for method in ("none", "lz4", "zstd", "zlib")
    ),
    Row("topic to noop", ASYNC, READ, READ_RATE_MIN, _filled, Wire.read),
)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_sink", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each row runs")
    parser.add_argument("--row", default="", help="only rows whose name has this in it")
    parser.add_argument("--folder", default="build", help="on which disk; everything is removed")
    options = parser.parse_args()
    Path(options.folder).mkdir(exist_ok=True)
    processes.find_package()
    folder = Path(tempfile.mkdtemp(prefix="bench-sink-", dir=options.folder))
    try:
        goals = _goals(folder, options)
    except (ClientError, OSError, subprocess.SubprocessError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for goal in goals:
        print(goal)
    return 0 if all(goal.is_met for goal in goals) else 1


def _goals(folder: Path, options: argparse.Namespace) -> list[Goal]:
    from sprocket.spark import session

    rows = [row for row in ROWS if options.row in row.name]
    spark = session("bench", folder=str(folder / "spark"))
    with ExitStack() as stack:
        stack.callback(spark.stop)
        brokers = {}
        for flush in sorted({row.flush for row in rows}):
            given = ["--flush", flush]
            broker = peers.Sprocket(folder / flush, folder / flush / "store", given)
            brokers[flush] = stack.enter_context(broker)
        wire = Wire(spark, brokers, folder)
        rates: dict[Row, list[float]] = {row: [] for row in rows}
        for number in range(options.rounds + 1):
            for row in rows:
                rate = _rate(wire, row)
                if number:  # the first one warms
                    rates[row].append(rate)
    return [
        Goal(
            what=f"{row.name}, messages/s",
            figure=statistics.median(found),
            limit=row.rate,
            is_at_most=False,
        )
        for row, found in rates.items()
    ]


def _rate(wire: Wire, row: Row) -> float:
    """Return the messages per second of one run, and print where the CPU went."""
    topic = row.prepare(wire, row.flush, row.count)
    pid = wire.brokers[row.flush].pid
    broker_cpu, all_cpu = processes.cpu_seconds(pid), processes.family_cpu_seconds(os.getpid())
    began = time.perf_counter()
    row.run(wire, row.flush, topic, row.count)
    took = time.perf_counter() - began
    busy = 1e6 * (processes.family_cpu_seconds(os.getpid()) - all_cpu) / row.count
    broker = 1e6 * (processes.cpu_seconds(pid) - broker_cpu) / row.count
    rate = row.count / took
    text = f"{rate:9,.0f} messages/s; CPU {busy:.1f} µs a message, broker {broker:.1f}"
    print(f"  {row.name:34} {text}", flush=True)
    return rate


if __name__ == "__main__":
    sys.exit(main())
