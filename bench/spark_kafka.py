"""Topics from Spark and back, beside Kafka's: `python -m bench.spark_kafka`.

The same job with the format `rocketmq` and one of our brokers, and with Spark's connector to Kafka
and one of Kafka's: a DataFrame of messages is written to a topic, and a topic is read as a stream
into Spark's `noop`, with what was written and where it lies. By itself, ours is also read with the
map of all properties in place of tag and unique key, and with all columns. Both brokers run on this
machine, neither waits for its disk; one is stopped while the other works. The jobs take turns in
one session. What is compared are medians.

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
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.goals import ASYNC, OURS, Goal, at_least
from tests.interop import peers

from bench import kafka, processes, spark_sink
from sprocket.base.errors import ClientError

ROUNDS, WARM_ROUNDS = 3, 2
WRITE, READ = "DataFrame to topic", "topic to noop"
READ_MAP, READ_ALL = "topic to noop, properties", "topic to noop, all columns"
COLUMNS = "keys,body,topic,queueId,queueOffset,storeTimestamp"
"""What Kafka's connector calls key, value, topic, partition, offset and timestamp."""
PAIRS = f"{COLUMNS},tags,msgId"
"""With what its two headers carry."""
MAP = f"{COLUMNS},properties"
JOBS = [WRITE, READ, READ_MAP, READ_ALL]
THEIRS = "kafka"
RATIOS = {WRITE: 1.0, READ: 1.0}
"""Messages per second, ours to Kafka's, at least."""


class Side(Protocol):
    """One of the two: a broker, and how Spark reaches it."""

    pid: int
    jobs: Mapping[str, Callable[[str], None]]
    """What is done with a topic, by name."""

    def new_topic(self) -> str:
        """Return the name of a new topic."""

    def write(self, topic: str, count: int) -> None:
        """Write so many messages to a topic."""


class Ours:
    """The format `rocketmq`; tag, key and unique key, as clients send them."""

    def __init__(self, wire: spark_sink.Wire) -> None:
        self._wire = wire
        self.pid = wire.brokers[ASYNC].pid
        read = partial(wire.read, ASYNC, count=spark_sink.READ)
        self.jobs: Mapping[str, Callable[[str], None]] = {
            WRITE: partial(self.write, count=spark_sink.WRITTEN),
            READ: partial(read, columns=PAIRS),
            READ_MAP: partial(read, columns=MAP),
            READ_ALL: read,
        }

    def new_topic(self) -> str:
        """Make a topic."""
        return self._wire.new_topic(ASYNC)

    def write(self, topic: str, count: int) -> None:
        """Write messages."""
        self._wire.write(ASYNC, topic, count)


class Theirs:
    """Kafka's connector; the same body and key, tag and unique key as two headers."""

    def __init__(self, spark: Any, broker: kafka.Kafka, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._where = {"kafka.bootstrap.servers": broker.address, "includeHeaders": "true"}
        self.pid = broker.pid
        self.jobs: Mapping[str, Callable[[str], None]] = {
            WRITE: partial(self.write, count=spark_sink.WRITTEN),
            READ: self._read,
        }

    def new_topic(self) -> str:
        """Name a topic, which its first message makes."""
        return f"bench-{time.monotonic_ns()}"

    def write(self, topic: str, count: int) -> None:
        """Write messages."""
        pairs = {"TAGS": "'bench'", "UNIQ_KEY": "lpad(cast(id AS string), 32, '0')"}
        headers = ", ".join(
            f"struct('{name}' AS key, CAST({value} AS binary) AS value)"
            for name, value in pairs.items()
        )
        columns = f"{spark_sink.BODY} AS value", f"{spark_sink.KEY} AS key"
        frame = self._spark.range(count).selectExpr(*columns, f"array({headers}) AS headers")
        frame.write.format("kafka").options(**self._where, topic=topic).save()

    def _read(self, topic: str) -> None:
        reader = self._spark.readStream.format("kafka").options(**self._where)
        frame = reader.options(subscribe=topic, startingOffsets="earliest").load()
        spark_sink.drain(frame, self._folder, spark_sink.READ)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_kafka", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each job runs")
    parser.add_argument("--warm", type=int, default=WARM_ROUNDS, help="rounds before these")
    parser.add_argument("--only", choices=JOBS, help="one of the jobs")
    parser.add_argument("--folder", default="build", help="on which disk; everything is removed")
    options = parser.parse_args()
    Path(options.folder).mkdir(exist_ok=True)
    processes.find_package()
    folder = Path(tempfile.mkdtemp(prefix="bench-kafka-", dir=options.folder))
    try:
        goals = _goals(folder, options)
    except (
        ClientError,
        OSError,
        RuntimeError,
        TimeoutError,
        peers.PeerMissing,
        subprocess.SubprocessError,
    ) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for goal in goals:
        print(goal)
    return 0 if all(goal.is_met for goal in goals) else 1


def _goals(folder: Path, options: argparse.Namespace) -> list[Goal]:
    from sprocket.spark import session

    jobs = [options.only] if options.only else JOBS
    jars = ",".join(map(str, kafka.connector()))
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        broker = peers.Sprocket(folder / OURS, folder / OURS / "store", ["--flush", ASYNC])
        stack.enter_context(broker)
        other = stack.enter_context(kafka.Kafka(folder / THEIRS, spark_sink.QUEUES))
        spark = session("bench", folder=str(folder / "spark"), settings={"spark.jars": jars})
        stack.callback(spark.stop)
        wire = spark_sink.Wire(spark, {ASYNC: broker}, folder)
        sides: dict[str, Side] = {OURS: Ours(wire), THEIRS: Theirs(spark, other, folder)}
        turns = _Turns(sides)
        for number in range(options.warm + options.rounds):
            for job in jobs:
                for name, side in sides.items():
                    if job in side.jobs:
                        rate = turns.rate(name, job)
                        if number >= options.warm:
                            rates.setdefault((job, name), []).append(rate)
    medians = {which: statistics.median(found) for which, found in rates.items()}
    return [
        at_least(f"{job}: messages/s to Kafka's", medians[job, OURS] / medians[job, THEIRS], limit)
        for job, limit in RATIOS.items()
        if job in jobs
    ]


class _Turns:
    """The runs: each has the machine for itself, and a topic that is new or filled before."""

    def __init__(self, sides: Mapping[str, Side]) -> None:
        self._sides = sides
        self._filled: dict[str, str] = {}

    def rate(self, name: str, job: str) -> float:
        """Return the messages per second of one run, and print what CPU all of it took."""
        side = self._sides[name]
        with processes.alone(side.pid, [one.pid for one in self._sides.values()]):
            count = spark_sink.WRITTEN if job == WRITE else spark_sink.READ
            topic = side.new_topic() if job == WRITE else self._filled_topic(name)
            broker_cpu = processes.cpu_seconds(side.pid)
            all_cpu = processes.family_cpu_seconds(os.getpid())
            began = time.perf_counter()
            side.jobs[job](topic)
            rate = count / (time.perf_counter() - began)
            time.sleep(processes.REST_SECONDS)  # what was put off belongs to the messages
            cpu = 1e6 * (processes.family_cpu_seconds(os.getpid()) - all_cpu) / count
            broker = 1e6 * (processes.cpu_seconds(side.pid) - broker_cpu) / count
        text = f"{rate:9,.0f} messages/s; CPU {cpu:.1f} µs a message, broker {broker:.1f}"
        print(f"  {job:26} {name:8} {text}", flush=True)
        return rate

    def _filled_topic(self, name: str) -> str:
        """Return a topic that has the messages to read."""
        if name not in self._filled:
            self._filled[name] = self._sides[name].new_topic()
            self._sides[name].write(self._filled[name], spark_sink.READ)
        return self._filled[name]


if __name__ == "__main__":
    sys.exit(main())
