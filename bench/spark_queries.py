"""What queries over a log cost that use little of it: `python -m bench.spark_queries`.

What each figure stands for: `bench/README.md`. Each query runs in each way once in a round, over
one store and over what Spark itself wrote of it as Parquet. A goal is the ratio of two ways in the
same rounds.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import contextlib
import io
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.goals import Goal, at_most

from bench import processes, spark_samples
from sprocket.base.errors import StoreError
from sprocket.base.units import MIB
from sprocket.cli import sql as command
from sprocket.spark import sql

ROUNDS = 5
RESULTS = Path("build/bench-spark-queries.json")
BODY_BYTES, FILE_BYTES = 256, 640 * MIB
TOPICS = ("orders", "refunds", "carts", "payments", "visits")
PLAIN_RATIO_MAX, PARQUET_RATIO_MAX = 0.25, 3.0

QUERIES = {
    "count()": "SELECT count(*) AS n FROM {log}",
    "by topic": "SELECT topic, count(*) AS n FROM {log} GROUP BY topic",
    "where topic": """SELECT queueId, count(*) AS n FROM {log} WHERE topic = 'orders'
    GROUP BY queueId""",
    "JSON": """SELECT get_json_object(CAST(body AS STRING), '$.order') % 10 AS d, count(*) AS n
    FROM {log} GROUP BY 1""",
}
ASKED = ("count()", "by topic")
"""Those of which goals are asked."""


class BenchError(Exception):
    """What was measured is not what should have been."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What is asked: a store, and what Spark wrote of it; each time from the folder on.

    Spark keeps what a Python source has planned with the DataFrame, so one that is used again would
    be spared what another has to do.
    """

    spark: Any
    store: str
    parquet: str

    def ask_plain(self, text: str) -> list[Any]:
        """Ask the store as Spark does by itself, which makes all columns."""
        self.spark.read.format("rocketmq").load(self.store).createOrReplaceTempView("log")
        return _listed(self.spark.sql(text.format(log="log")))

    def ask_pruned(self, text: str) -> list[Any]:
        """Ask it by `sprocket.spark.sql`."""
        self.spark.read.format("rocketmq").load(self.store).createOrReplaceTempView("log")
        return _listed(sql(text.format(log="log"), spark=self.spark))

    def ask_parquet(self, text: str) -> list[Any]:
        """Ask what Spark wrote of it as Parquet."""
        self.spark.read.parquet(self.parquet).createOrReplaceTempView("log")
        return _listed(self.spark.sql(text.format(log="log")))

    def ask_topic_plain(self, text: str) -> list[Any]:
        """Ask the table of one topic that the command makes, as Spark does by itself."""
        self._views(verify=True)["orders"].frame(self.spark).createOrReplaceTempView("orders")
        rows = self.spark.sql(text.format(log="orders")).limit(command.ROWS_MAX + 1).toArrow()
        return sorted(tuple(row.values()) for row in rows.to_pylist())

    def ask_topic(self, text: str, *, verify: bool = True) -> list[Any]:
        """Ask that table by `sprocket sql`, in this session."""
        views = self._views(verify=verify)
        responder = command.SqlResponder(self.spark, views, limit=command.ROWS_MAX, as_json=True)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            responder.answer(text.format(log="orders"))
        lines = shown.getvalue().splitlines()
        return sorted(tuple(json.loads(line).values()) for line in lines)

    def _views(self, *, verify: bool) -> dict[str, command.View]:
        sources = command.Sources(store=[self.store], verify=verify)
        return command.found(sources, command.AskedCluster(nameserver=""))


PLAIN, PARQUET, TOPIC = "plain", "Parquet", "one topic, plain"
WAYS: dict[str, Callable[[Tables, str], list[Any]]] = {
    PLAIN: Tables.ask_plain,
    "sprocket.spark.sql": Tables.ask_pruned,
    PARQUET: Tables.ask_parquet,
    TOPIC: Tables.ask_topic_plain,
    "sprocket sql": Tables.ask_topic,
    "sprocket sql --no-verify": partial(Tables.ask_topic, verify=False),
}
SAME = {
    "sprocket.spark.sql": PLAIN,
    PARQUET: PLAIN,
    "sprocket sql": TOPIC,
    "sprocket sql --no-verify": TOPIC,
}
"""Beside which way each is put: both give the same."""


def _listed(frame: Any) -> list[Any]:
    return sorted(tuple(row) for row in frame.collect())


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_queries", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each query runs")
    parser.add_argument("--folder", default="build", help="on which disk; everything is removed")
    arguments = parser.parse_args()
    Path(arguments.folder).mkdir(exist_ok=True)
    RESULTS.parent.mkdir(exist_ok=True)
    processes.find_package()
    folder = Path(tempfile.mkdtemp(prefix="bench-queries-", dir=arguments.folder))
    try:
        goals = _goals(folder, arguments.rounds)
    except (BenchError, StoreError, OSError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for goal in goals:
        print(goal)
    return 0 if all(goal.is_met for goal in goals) else 1


def _goals(folder: Path, rounds: int) -> list[Goal]:
    from sprocket.spark import session

    store = spark_samples.store(folder / "store", BODY_BYTES, topics=TOPICS, file_bytes=FILE_BYTES)
    _derive(store.folder)
    print(f"{store.count:,} messages, {store.size / 1e6:,.0f} MB")
    spark = session("bench", folder=str(folder / "spark"))
    try:
        parquet = str(folder / "parquet")
        spark.read.format("rocketmq").load(store.folder).write.parquet(parquet)
        took = _seconds(Tables(spark, store.folder, parquet), store.count, rounds)
    finally:
        spark.stop()
    RESULTS.write_text(json.dumps({" ".join(key): runs for key, runs in took.items()}, indent=1))
    return _shown(took)


def _derive(folder: str) -> None:
    """Make what a broker keeps of a log: queues, index, the table of topics."""
    command = [str(Path(sys.executable).with_name("sprocket")), "store", "recover", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(done.stderr)


def _seconds(tables: Tables, count: int, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Return how long each query took in each way, after one time to warm up."""
    took: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for name, text in QUERIES.items():
            answers = {}
            for way, ask in WAYS.items():
                began = time.perf_counter()
                answers[way] = ask(tables, text)
                seconds = time.perf_counter() - began
                if number:
                    took.setdefault((name, way), []).append(seconds)
                print(f"  round {number}: {name:12} {way:24} {seconds:6.2f} s", flush=True)
            for way, other in SAME.items():
                if answers[way] != answers[other]:
                    raise BenchError(f"{name}: {way} gives {answers[way][:3]}, not as {other}")
    if tables.ask_plain(QUERIES["count()"]) != [(count,)]:
        raise BenchError(f"the store has {count} messages")
    return took


def _shown(took: dict[tuple[str, str], list[float]]) -> list[Goal]:
    """Print the medians, and return the goals: medians of the ratios of each round."""
    goals = []
    for name in QUERIES:
        for way in WAYS:
            text = f"{name:12} {way:24} {statistics.median(took[name, way]):6.2f} s"
            if way in SAME:
                text += f"  {_ratio(took[name, way], took[name, SAME[way]]):5.2f} of {SAME[way]}"
            print(text)
        if name in ASKED:
            ours = took[name, "sprocket.spark.sql"]
            for other, limit in ((PLAIN, PLAIN_RATIO_MAX), (PARQUET, PARQUET_RATIO_MAX)):
                ratio = _ratio(ours, took[name, other])
                goals.append(at_most(f"{name}, sprocket.spark.sql to {other}", ratio, limit))
    return goals


def _ratio(ours: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, others, strict=True))


if __name__ == "__main__":
    sys.exit(main())
