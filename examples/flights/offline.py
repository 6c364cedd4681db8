"""The store's own folder, without a broker: as a DataFrame, and through its index."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from examples.flights import answers
from examples.flights.answers import PlaneDay
from examples.flights.source import TOPIC, Event, Tables
from examples.flights.stream import COLUMNS, flights
from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.store import Store

FOUND_MAX = 10_000
"""More than any plane flew in the year."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the log holds, compared with what was sent."""

    records: int
    unique_keys: int
    missing: int
    """Events of the source that no record holds byte for byte."""
    foreign: int
    """Records whose body was never sent."""
    out_of_order: int
    """Events that stand in their queue after a later one of the same plane."""
    gaps: int
    """Queue offsets that no record has."""


def read(spark: SparkSession, store: Path) -> DataFrame:
    """Open the folder as a DataFrame of the topic's messages."""
    rows = spark.read.format("rocketmq").option("subscribe", TOPIC).option("columns", COLUMNS)
    return rows.load(str(store))


def audit(rows: DataFrame, sent: Sequence[Event]) -> Audit:
    """Compare every body in the log with what was sent, bytes with bytes."""
    table = rows.select("msgId", "queueId", "queueOffset", "body").toArrow()
    order = {event.body: place for place, event in enumerate(sent)}
    places = sorted(
        zip(
            table["queueId"].to_pylist(),
            table["queueOffset"].to_pylist(),
            (order.get(body, -1) for body in table["body"].to_pylist()),
            strict=True,
        )
    )
    latest: dict[str, int] = {}
    ends: dict[int, int] = {}
    seen: set[int] = set()
    foreign = out_of_order = gaps = 0
    for queue, offset, place in places:
        gaps += offset != ends.get(queue, 0)
        ends[queue] = offset + 1
        foreign += place < 0
        if place < 0 or place in seen:
            continue
        seen.add(place)
        tail = sent[place].tail
        if tail:
            out_of_order += place < latest.get(tail, -1)
            latest[tail] = place
    return Audit(
        records=table.num_rows,
        unique_keys=len(set(table["msgId"].to_pylist())),
        missing=len(sent) - len(seen),
        foreign=foreign,
        out_of_order=out_of_order,
        gaps=gaps,
    )


def once(rows: DataFrame) -> DataFrame:
    """Parse the messages, each unique key once, and keep them for several questions."""
    return flights(rows).dropDuplicates(["msgId"]).cache()


def by_carrier(all_flights: DataFrame, tables: Tables) -> pd.DataFrame:
    """Answer as `answers.by_carrier` does, by Spark."""
    airlines = all_flights.sparkSession.createDataFrame(tables.airlines)
    late = (F.col("dep_delay") > answers.LATE_MINUTES).cast("int")
    asked = all_flights.groupBy("carrier").agg(
        F.count("*").alias("flights"),
        F.sum(F.col("dep_time").isNull().cast("int")).alias("cancelled"),
        F.avg("dep_delay").alias("departure_minutes"),
        (100.0 * F.sum(late) / F.count("dep_delay")).alias("late_percent"),
        F.avg("arr_delay").alias("arrival_minutes"),
    )
    columns = ["carrier", "name", "flights", "cancelled", "departure_minutes", "late_percent"]
    named = asked.join(F.broadcast(airlines), "carrier", "left")
    ordered = named.orderBy(F.desc("departure_minutes"), "carrier")
    return ordered.select(*columns, "arrival_minutes").toPandas()


def worst_routes(all_flights: DataFrame, tables: Tables) -> pd.DataFrame:
    """Answer as `answers.worst_routes` does, by Spark."""
    names = all_flights.sparkSession.createDataFrame(tables.airports[["faa", "name"]])
    asked = (
        all_flights.where("arr_delay is not null")
        .groupBy("origin", "dest")
        .agg(
            F.count("*").alias("flights"),
            F.avg("arr_delay").alias("mean_minutes"),
            F.max("arr_delay").alias("worst_minutes"),
        )
        .where(F.col("flights") >= answers.ROUTE_FLIGHTS_MIN)
    )
    for end in ("origin", "dest"):
        named = names.select(F.col("faa").alias(end), F.col("name").alias(f"{end}_name"))
        asked = asked.join(F.broadcast(named), end, "left")
    columns = ["origin", "origin_name", "dest", "dest_name", "flights", "mean_minutes"]
    ordered = asked.orderBy(F.desc("mean_minutes"), "origin", "dest").limit(answers.ROUTES)
    return ordered.select(*columns, "worst_minutes").toPandas()


def plane_day(store: Path, asked: PlaneDay) -> pd.DataFrame:
    """Answer as `answers.plane_day` does, by the store's index: the key is the tail number."""
    opened = Store.open_read_only(RealDisk(), str(store))
    try:
        found = opened.find(TOPIC, asked.tail, max_count=FOUND_MAX)
        messages = [record.decode(opened.record_at(offset)) for offset in found.offsets]
    finally:
        opened.close()
    # The index compares hashes only, so that another key may be among them.
    mine = {m.message_id: json.loads(m.body) for m in messages if asked.tail in m.keys}
    day = [f for f in mine.values() if (f["month"], f["day"]) == (asked.month, asked.day)]
    day.sort(key=lambda flight: (flight["scheduled_at"], flight["row"]))
    columns = ["row", "flight", "origin", "dest", "sched_dep_time", "dep_delay", "arr_delay"]
    return pd.DataFrame(day, columns=columns)
