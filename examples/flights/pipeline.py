"""What a data engineer does next: rows into a topic, the log into Parquet, a question in SQL."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.flights.processes import Failed
from examples.flights.source import TOPIC, Tables
from sprocket.rocketmq.client import Admin
from sprocket.spark import activate
from sprocket.spark.jobs import archive

LATE_TOPIC = "late-flights"
LATE_MINUTES = 60
SQL = f"""
    select tags as carrier, count(distinct msgId) as flights
    from {TOPIC} group by tags order by flights desc, carrier
"""  # noqa: S608 - of names that are ours
SQL_SECONDS_MAX = 120.0


def late(tables: Tables) -> int:
    """Flights that left so late that they are told of."""
    return int((tables.flights["dep_delay"] > LATE_MINUTES).sum())


async def make_topic(nameserver: str) -> None:
    """Create the topic of late flights."""
    async with Admin(nameserver) as admin:
        await admin.topic.create(LATE_TOPIC, queues=4)


def tell_late(spark: SparkSession, archived: Path, nameserver: str) -> None:
    """Write every late flight to a topic of its own: the sink, from the archive of the stream."""
    asyncio.run(make_topic(nameserver))
    rows = spark.read.parquet(str(archived)).dropDuplicates(["msgId"])
    chosen = rows.where(F.col("dep_delay") > LATE_MINUTES).select(
        F.to_json(F.struct("carrier", "tailnum", "origin", "dest", "dep_delay")).alias("body"),
        F.col("carrier").alias("tags"),
        F.col("tailnum").alias("keys"),
        "msgId",
    )
    activate(spark)  # it was started by another thread
    writer = chosen.write.format("rocketmq").mode("append")
    writer.option("nameServer", nameserver).option("topic", LATE_TOPIC).save()


def count_late(spark: SparkSession, store: Path) -> int:
    """Count late flights in the store, each unique key once."""
    source = spark.read.format("rocketmq").option("subscribe", LATE_TOPIC)
    count: int = source.option("columns", "msgId").load(str(store)).distinct().count()
    return count


def archive_log(spark: SparkSession, store: Path, to: Path) -> tuple[int, int]:
    """Archive the log, twice; return how many messages each run wrote."""
    first, second = (archive(spark, store=str(store), to=str(to)) for _ in range(2))
    return first.messages, second.messages


def flights_by_carrier(to: Path) -> pd.DataFrame:
    """Ask the archive by `sprocket sql`.

    Raises:
        Failed: It did not answer.
    """
    command = [sys.executable, "-m", "sprocket.cli.main", "sql", SQL, "--archive", str(to)]
    try:
        said = subprocess.run(
            [*command, "--json"],
            capture_output=True,
            text=True,
            check=True,
            timeout=SQL_SECONDS_MAX,
        )
    except subprocess.CalledProcessError as error:
        raise Failed(f"sprocket sql: {error.stderr.strip()}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"sprocket sql did not answer within {SQL_SECONDS_MAX:.0f} s") from None
    return pd.DataFrame([json.loads(line) for line in said.stdout.splitlines()])


def expected_by_carrier(tables: Tables) -> pd.DataFrame:
    """Answer as `flights_by_carrier` does, by pandas."""
    counts = tables.flights["carrier"].value_counts().reset_index()
    counts.columns = pd.Index(["carrier", "flights"])
    return counts.sort_values(["flights", "carrier"], ascending=[False, True], ignore_index=True)
