"""Lets Spark find the format `rocketmq` by itself: it looks into every module named `pyspark_*`."""

from sprocket.spark.rocketmq import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
