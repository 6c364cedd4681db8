"""Topics and store directories as PySpark sources.

`register(spark)` makes the format `rocketmq` known to a session, `session()` starts one that suits
a small machine. Importing this before a session is started lets its workers run this interpreter,
as an activated environment would. See docs/guides/spark.md.
"""

from typing import Any

from sprocket.spark import interpreter
from sprocket.spark.failures import QueryFailed, in_one_line
from sprocket.spark.package import package_zip
from sprocket.spark.session import session

__all__ = ["QueryFailed", "in_one_line", "package_zip", "register", "session"]

interpreter.choose()


def register(spark: Any) -> None:
    """Make `spark.read.format("rocketmq")` and `spark.readStream` of the same name work.

    Args:
        spark: The SparkSession, local or of Spark Connect.
    """
    from sprocket.spark.rocketmq import RocketMQSource

    interpreter.correct(spark)
    spark.dataSource.register(RocketMQSource)
