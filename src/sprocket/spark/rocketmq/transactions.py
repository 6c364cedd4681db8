"""Transactions of a store as rows: what its half messages, and the records after them, say.

A half message never changes: that its transaction was committed is said by a copy in the topic
where it was to go, and that it has ended by an op message. See docs/formats/half-messages.md.
"""

from typing import Any

from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, OP_TOPIC

_COLUMNS = (
    "topic, queueOffset, physicalOffset, storeTimestamp, transactionState, msgId, properties"
).replace(" ", "")


def transactions(spark: Any, path: str, **options: object) -> Any:
    """Return a row for each transaction of which a store has a half message.

    Args:
        spark: The SparkSession.
        path: The store's folder.
        options: Those of the format that say how a folder is read, such as `mode`.
    """
    from pyspark.sql import functions as F

    def read(**more: object) -> Any:
        every = options | {"includeInternalTopics": "true"} | more
        return spark.read.format("rocketmq").options(**every).load(path)

    has = F.col("properties").getItem
    key = F.coalesce(has(properties.TRANSACTION_ID), "msgId").alias("transactionId")
    marked = read(columns=_COLUMNS, filter=f"{properties.TRAN_MSG} = 'true'").withColumn("key", key)
    halves = (
        marked.where(F.col("topic") == HALF_TOPIC)
        .groupBy(F.col("key").alias("transactionId"))
        .agg(
            F.max_by(
                F.struct("properties", "queueOffset", "physicalOffset"), "physicalOffset"
            ).alias("last"),
            F.min("storeTimestamp").alias("sentAt"),
        )
    )
    ops = read(columns="topic,body").where(F.col("topic") == OP_TOPIC)
    said = F.explode(F.split(F.col("body").cast("string"), ",")).alias("said")
    ended = ops.select(said).select(F.expr("try_cast(said AS bigint)").alias("halfOffset"))
    is_copy = (F.col("transactionState") == "commit") & (F.col("topic") != HALF_TOPIC)
    committed = _keys(marked.where(is_copy), "isCommitted")
    given_up = _keys(marked.where(F.col("topic") == CHECKED_TOO_OFTEN_TOPIC), "isGivenUp")
    has = F.col("last.properties").getItem
    state = (
        F.when(F.col("isCommitted"), "committed")
        .when(F.col("isGivenUp"), "given up")
        .when(F.col("hasEnded"), "rolled back")
        .otherwise("unknown")
    )
    return (
        halves.withColumn("halfOffset", F.col("last.queueOffset"))
        .join(ended.distinct().withColumn("hasEnded", F.lit(True)), "halfOffset", "left")
        .join(committed, "transactionId", "left")
        .join(given_up, "transactionId", "left")
        .select(
            "transactionId",
            has(properties.REAL_TOPIC).alias("topic"),
            has(properties.REAL_QID).cast("int").alias("queueId"),
            has(properties.PRODUCER_GROUP).alias("producerGroup"),
            state.alias("state"),
            F.coalesce(has(properties.TRANSACTION_CHECK_TIMES).cast("int"), F.lit(0)).alias(
                "checks"
            ),
            "sentAt",
            "halfOffset",
            F.col("last.physicalOffset").alias("physicalOffset"),
        )
    )


def _keys(rows: Any, name: str) -> Any:
    """Return the transactions that have one of these records, and a column that says so."""
    from pyspark.sql import functions as F

    return rows.select(F.col("key").alias("transactionId")).distinct().withColumn(name, F.lit(True))
