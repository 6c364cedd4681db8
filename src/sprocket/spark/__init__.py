"""Topics, store directories and queues of a stopped RabbitMQ as PySpark sources.

`register(spark)` makes the formats `rocketmq` and `rabbitmq` known to a session, `session()` starts
one that suits a small machine. Importing this before a session is started lets its workers run this
interpreter, as an activated environment would. See docs/guides/spark.md and spark-rabbitmq.md.
"""

from typing import Any

from sprocket.spark import interpreter
from sprocket.spark.failures import QueryFailed, in_one_line
from sprocket.spark.late_session import LateSession
from sprocket.spark.package import package_zip
from sprocket.spark.pruning import pruned, sql
from sprocket.spark.session import activate, session

__all__ = [
    "LateSession",
    "QueryFailed",
    "activate",
    "in_one_line",
    "package_zip",
    "pruned",
    "read_stream",
    "register",
    "session",
    "sql",
    "traces",
    "transactions",
]

interpreter.choose()


def register(spark: Any) -> None:
    """Make `spark.read` with `.format("rocketmq")` and `"rabbitmq"` work, and what else they have.

    Args:
        spark: The SparkSession, local or of Spark Connect.
    """
    from sprocket.spark.rabbitmq import RabbitMQSource
    from sprocket.spark.rocketmq import RocketMQSource

    interpreter.correct(spark)
    spark.dataSource.register(RocketMQSource)
    spark.dataSource.register(RabbitMQSource)


def transactions(spark: Any, path: str, **options: object) -> Any:
    """Return a DataFrame with a row for each transaction of which a store has a half message.

    Its columns are `transactionId` (the unique key of the message), `topic`, `queueId` and
    `producerGroup`; `state`: `committed`, `rolled back`, `given up` (nobody knew, as often as the
    broker asked) or `unknown` (the half message still waits); `checks`, how often producers were
    asked; `sentAt`; and where the last half message is: `halfOffset`, `physicalOffset`.

    Args:
        spark: The SparkSession, local or of Spark Connect.
        path: The store's folder, on any file system of the source.
        options: Those of the format that say how a folder is read, such as `mode`.
    """
    from sprocket.spark.rocketmq import transactions as made

    return made(spark, path, **options)


def traces(spark: Any, path: str, **options: object) -> Any:
    """Return a DataFrame with a row for each note that a producer or a consumer has traced.

    Its columns are `messageId`, `event` (`sent`, `consume began`, `consume ended`,
    `transaction ended`, `recalled`), `at`, `topic`, `clientGroup`, `client` (`ip:port` of who
    noted it), `isSuccess`, `outcome`, `costMs`, `retries` (deliveries before this one),
    `requestId` (ties the end of consuming to its beginning), `tags`, `keys` and `bodyBytes`; null
    is what that kind of note does not say.

    Args:
        spark: The SparkSession, local or of Spark Connect.
        path: The store's folder, on any file system of the source.
        options: Those of the format that say how a folder is read, such as `mode`.
    """
    from sprocket.spark.rocketmq import traces as made

    return made(spark, path, **options)


def read_stream(spark: Any, *, checkpoint: str, schema: Any = None, **options: object) -> Any:
    """Return what `spark.readStream.format("rocketmq")` does, with a start that stays the same.

    Where `startingOffsets` is `latest`, or has -1 for a queue, or a time is given, this finds out
    the offsets, keeps them in the checkpoint's folder, and uses them whenever it is called with
    the same checkpoint. It asks the cluster, or looks into the store's folder, from here.

    Args:
        spark: The SparkSession, local or of Spark Connect.
        checkpoint: What the query gets as `checkpointLocation`, on any file system of Spark's.
        schema: Columns wanted, as `DataStreamReader.schema` takes them; by default as options say.
        options: Those of the format; `path` is a store's folder. Names with a dot go in
            `**{"fetchOffset.numRetries": 5}`.

    Returns:
        A streaming DataFrame.

    Raises:
        SettingsError: An option is unknown, unreadable or missing.
        DataLost: What the checkpoint has is of another release.
        ClientError: The cluster did not answer in time.
    """
    from sprocket.spark.rocketmq import kept_start

    return kept_start.read_stream(spark, checkpoint, schema, options)
