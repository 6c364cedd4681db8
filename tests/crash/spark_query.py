"""A program to be killed: two streaming queries in one Spark, over topics and over their store.

Each has a Spark session of its own. What workers find in their environment is a map that the
queries of a session share; Spark changes it when it plans a batch, while a task of the other query
may be serializing it, which then cannot be read (`OptionalDataException`).

    python -m tests.crash.spark_query NAMESERVER STORE FOLDER [finish]

Each writes Parquet files into `FOLDER/out/<source>` with its checkpoint in
`FOLDER/checkpoint/<source>`. With `finish` they end when all that is there was read.
"""

import sys
from pathlib import Path

from sprocket.spark import register, session

TOPIC = "Killed"
SOURCES = ("topic", "store")


def main(nameserver: str, store: str, folder: Path, is_last: bool) -> None:
    """Run both queries, for ever or to the end."""
    spark = session("killed", cores=2, folder=str(folder / "spark"), quiet=False)
    limits = ("1000000", "1g") if is_last else ("150", "48k")
    other = spark.newSession()
    register(other)
    sources = {
        "topic": spark.readStream.format("rocketmq")
        .options(nameServer=nameserver, subscribe=TOPIC, maxOffsetsPerTrigger=limits[0])
        .load(),
        "store": other.readStream.format("rocketmq")
        .options(subscribe=TOPIC, maxBytesPerTrigger=limits[1], maxPartitionBytes="16k")
        .load(store),
    }
    assert tuple(sources) == SOURCES
    trigger = {"availableNow": True} if is_last else {"processingTime": "0 seconds"}
    queries = [
        frame.selectExpr("queueId", "queueOffset", "CAST(body AS STRING) AS text")
        .writeStream.format("parquet")
        .option("path", str(folder / "out" / name))
        .option("checkpointLocation", str(folder / "checkpoint" / name))
        .trigger(**trigger)
        .start()
        for name, frame in sources.items()
    ]
    while not is_last and all(query.isActive for query in queries):
        queries[0].awaitTermination(1)
    for query in sorted(queries, key=lambda query: bool(query.isActive)):
        query.awaitTermination()  # raises what ended it; the other would go on for ever
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:] == ["finish"])
