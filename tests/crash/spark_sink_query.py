"""A program to be killed: a streaming query that copies a topic to another by the sink.

    python -m tests.crash.spark_sink_query NAMESERVER STORE FOLDER [finish]

Its checkpoint is in `FOLDER/checkpoint/copy`. What it copies has no unique key of its own, so each
row gets one of query, batch, partition and number. With `finish` it ends when all is copied.
"""

import sys
from pathlib import Path

from tests.crash.spark_query import TOPIC

from sprocket.spark import session

COPY = "Copied"
RATE = 2_000
"""Rows a second: a micro-batch is sent for a part of a second, and a kill falls into that."""
BATCH_ROWS = 600


def main(nameserver: str, folder: Path, is_last: bool) -> None:
    """Run the query, for ever or to the end."""
    spark = session("killed", cores=2, folder=str(folder / "spark"), quiet=False)
    trigger = {"availableNow": True} if is_last else {"processingTime": "0 seconds"}
    query = (
        spark.readStream.format("rocketmq")
        .options(nameServer=nameserver, subscribe=TOPIC, maxOffsetsPerTrigger=BATCH_ROWS)
        .load()
        .select("body")
        .writeStream.format("rocketmq")
        .options(nameServer=nameserver, topic=COPY, maxMessagesPerSecond=RATE)
        .option("checkpointLocation", str(folder / "checkpoint" / "copy"))
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[3]), sys.argv[4:] == ["finish"])
