"""The structured stream: one query archives every event, one keeps delays per carrier and hour.

Both read the live topic. A broker that is killed may end a query; it continues from its checkpoint,
so nothing is lost. A message that the producer had to send twice is archived twice and counted
once, by its unique key.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from examples.flights.processes import Failed
from examples.flights.source import NUMBERS, TOPIC, nullable_types

TRIGGER = "4 seconds"
ROWS_PER_TRIGGER_MAX = 80_000
"""Bounds the memory of a batch; a backlog is worked off in several."""
RESTARTS_MAX = 10
COLUMNS = "msgId,queueId,queueOffset,body"
"""The others are not decoded."""
SCHEMA = ", ".join(
    [
        "row int, scheduled_at timestamp",
        *(f"{name} int" for name in NUMBERS),
        "carrier string, tailnum string, origin string, dest string, time_hour string",
    ]
)


def flights(rows: DataFrame) -> DataFrame:
    """Parse the bodies: unique key, queue and offset, then the columns of the source."""
    body = F.from_json(F.col("body").cast("string"), SCHEMA)
    place = rows.select("msgId", "queueId", "queueOffset", body.alias("flight"))
    return place.select("msgId", "queueId", "queueOffset", "flight.*")


def in_utc(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Say what Spark's files leave out: that instants are in UTC."""
    times = table[column]
    return table.assign(**{column: times.dt.tz_localize("UTC") if times.dt.tz is None else times})


class Stream:
    """Two queries over one topic.

    Args:
        spark: The session.
        nameserver: Address of the NameServer.
        folder: Where archive, windows and checkpoints go.
    """

    def __init__(self, spark: SparkSession, nameserver: str, folder: Path) -> None:
        self._spark = spark
        self._nameserver = nameserver
        self.archive = folder / "archive"
        self.windows = folder / "windows"
        self._checkpoints = folder / "checkpoints"
        self._starts: dict[str, Callable[[], StreamingQuery]] = {
            "archive": self._start_archive,
            "windows": self._start_windows,
        }
        self._queries: dict[str, StreamingQuery] = {}
        self.restarts = 0

    def start(self) -> None:
        """Start both queries."""
        for name, begin in self._starts.items():
            self._queries[name] = begin()

    def heal(self) -> None:
        """Start a query again, from its checkpoint, that ended while the broker was away.

        Raises:
            Failed: That happened too often.
        """
        for name, query in self._queries.items():
            if not query.isActive:
                self.restarts += 1
                if self.restarts > RESTARTS_MAX:
                    raise Failed(f"the stream's query {name} keeps ending: {query.exception()}")
                self._queries[name] = self._starts[name]()

    def drain(self, seconds: float) -> None:
        """Wait until both queries have read all that the topic holds, then stop them.

        Raises:
            Failed: They were not through in time.
        """
        deadline = time.monotonic() + seconds
        for name in self._starts:
            while True:
                self.heal()
                try:
                    self._queries[name].processAllAvailable()
                    break
                except StreamingQueryException:
                    if time.monotonic() > deadline:
                        raise Failed(f"the query {name} did not read all in time") from None
        self.stop()

    def stop(self) -> None:
        """Stop both queries."""
        for query in self._queries.values():
            query.stop()

    def window_table(self) -> pd.DataFrame:
        """Read what the windows hold: for each carrier and hour the state of its last batch."""
        batches = sorted(self.windows.glob("batch=*"), key=lambda path: int(path.name[6:]))
        parts = [pd.read_parquet(path) for path in batches]
        table = pd.concat(parts, ignore_index=True)
        last = table.drop_duplicates(["hour", "carrier"], keep="last")
        return in_utc(last, "hour").sort_values(["hour", "carrier"], ignore_index=True)

    def archive_table(self) -> pd.DataFrame:
        """Read the archive, missing values as nulls."""
        table = pq.read_table(self.archive).to_pandas(types_mapper=nullable_types().get)
        return in_utc(table, "scheduled_at")

    def _read(self) -> DataFrame:
        rows = (
            self._spark.readStream.format("rocketmq")
            .option("nameServer", self._nameserver)
            .option("subscribe", TOPIC)
            .option("columns", COLUMNS)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(ROWS_PER_TRIGGER_MAX))
            .load()
        )
        return flights(rows)

    def _start_archive(self) -> StreamingQuery:
        return (
            self._read()
            .writeStream.queryName("archive")
            .format("parquet")
            .option("path", str(self.archive))
            .option("checkpointLocation", str(self._checkpoints / "archive"))
            .trigger(processingTime=TRIGGER)
            .start()
        )

    def _start_windows(self) -> StreamingQuery:
        hours = F.window("scheduled_at", "1 hour")
        kept = (
            self._read()
            .dropDuplicates(["msgId"])
            .groupBy(hours, "carrier")
            .agg(
                F.count("*").alias("flights"),
                F.count("dep_delay").alias("departed"),
                F.sum("dep_delay").alias("delay_minutes"),
            )
            .select(
                F.col("window.start").alias("hour"),
                *("carrier", "flights", "departed"),
                F.coalesce("delay_minutes", F.lit(0)).alias("delay_minutes"),
            )
        )
        return (
            kept.writeStream.queryName("windows")
            .outputMode("update")
            .foreachBatch(self._keep_windows)
            .option("checkpointLocation", str(self._checkpoints / "windows"))
            .trigger(processingTime=TRIGGER)
            .start()
        )

    def _keep_windows(self, changed: DataFrame, batch: int) -> None:
        """Write the windows that a batch changed; a batch that is done again replaces itself."""
        path = self.windows / f"batch={batch}"
        if path.exists():
            shutil.rmtree(path)
        changed.coalesce(1).write.parquet(str(path))
