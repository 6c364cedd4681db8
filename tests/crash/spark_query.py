"""A program to be killed: three streaming queries in one Spark, from topics and from their store.

Each has a Spark session of its own. What workers find in their environment is a map that the
queries of a session share; Spark changes it when it plans a batch, while a task of another query
may be serializing it, which then cannot be read (`OptionalDataException`).

    python -m tests.crash.spark_query NAMESERVER STORE FOLDER

Two write Parquet files into `FOLDER/out/<source>`. The third copies the topic to another one by the
sink; what it copies has no unique key of its own, so each row gets one of query, batch, partition
and number. Checkpoints are in `FOLDER/checkpoint/<source or copy>`.
"""

import sys
from pathlib import Path
from typing import Any

from sprocket.spark import register, session

TOPIC = "Killed"
COPIED = "Copied"
SOURCES = ("topic", "store")
COPY = "copy"
COPY_RATE = 2_000
"""Rows a second: a micro-batch is sent for a part of a second, and a kill falls into that."""


def start(spark: Any, nameserver: str, store: str, folder: Path, *, is_last: bool) -> list[Any]:
    """Start the queries, for ever, or to end once all that is there was read."""
    trigger = {"availableNow": True} if is_last else {"processingTime": "0 seconds"}

    def stream(**options: object) -> Any:
        own = spark.newSession()
        register(own)
        return own.readStream.format("rocketmq").options(subscribe=TOPIC, **options)

    def rows(count: int) -> int:
        return 1_000_000 if is_last else count

    frames = {
        "topic": stream(nameServer=nameserver, maxOffsetsPerTrigger=rows(150)).load(),
        "store": stream(
            maxBytesPerTrigger="1g" if is_last else "48k", maxPartitionBytes="16k"
        ).load(store),
    }
    assert tuple(frames) == SOURCES
    writers = {
        name: frame.selectExpr("queueId", "queueOffset", "CAST(body AS STRING) AS text")
        .writeStream.format("parquet")
        .option("path", str(folder / "out" / name))
        for name, frame in frames.items()
    }
    writers[COPY] = (
        stream(nameServer=nameserver, maxOffsetsPerTrigger=rows(600))
        .load()
        .select("body")
        .writeStream.format("rocketmq")
        .options(nameServer=nameserver, topic=COPIED, maxMessagesPerSecond=COPY_RATE)
    )
    return [
        writer.option("checkpointLocation", str(folder / "checkpoint" / name))
        .trigger(**trigger)
        .start()
        for name, writer in writers.items()
    ]


def wait(queries: list[Any]) -> None:
    """Wait for all of them; raise what ended one, as the others would go on for ever."""
    while active := [query for query in queries if query.isActive]:
        for query in queries:
            if not query.isActive:
                query.awaitTermination()
        active[0].awaitTermination(0.2)
    for query in queries:
        query.awaitTermination()


def main(nameserver: str, store: str, folder: Path) -> None:
    """Run them for ever."""
    spark = session("killed", cores=2, folder=str(folder / "spark"), quiet=False)
    wait(start(spark, nameserver, store, folder, is_last=False))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
