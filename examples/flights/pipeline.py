"""What a data engineer does next: rows into a topic, the log into Parquet, a question in SQL."""

import asyncio
import json
import sys
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from examples.flights.processes import Child, Children
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
    """Flights that left so late that their passengers are notified."""
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


def late_keys(spark: SparkSession, store: Path) -> list[str]:
    """Return the unique key of each message about a late flight that is in the store."""
    source = spark.read.format("rocketmq").option("subscribe", LATE_TOPIC)
    rows = source.option("columns", "msgId").load(str(store))
    keys: list[str] = rows.toArrow()["msgId"].to_pylist()
    return keys


def archive_log(spark: SparkSession, store: Path, to: Path) -> tuple[int, int]:
    """Archive the log, twice; return how many messages each run wrote."""
    first, second = (archive(spark, store=str(store), to=str(to)) for _ in range(2))
    return first.messages, second.messages


def ask(held: Children, archived: Path, log: Path) -> Child:
    """Ask the archive by `sprocket sql`, in a process of its own; it continues meanwhile."""
    sprocket = str(Path(sys.executable).with_name("sprocket"))
    command = [sprocket, "sql", SQL, "--archive", str(archived), "--json"]
    return held.start("sprocket sql", command, log)


def flights_by_carrier(asked: Child) -> pd.DataFrame:
    """Return the answer of `ask`.

    Raises:
        Failed: There is none.
    """
    return pd.DataFrame([json.loads(line) for line in asked.finish(SQL_SECONDS_MAX)])


def expected_by_carrier(tables: Tables) -> pd.DataFrame:
    """Answer as `flights_by_carrier` does, by pandas."""
    counts = tables.flights["carrier"].value_counts().reset_index()
    counts.columns = pd.Index(["carrier", "flights"])
    return counts.sort_values(["flights", "carrier"], ascending=[False, True], ignore_index=True)
