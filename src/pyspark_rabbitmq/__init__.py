"""Lets Spark find the format `rabbitmq` by itself: it looks into every module named `pyspark_*`."""

from sprocket.spark.rabbitmq import RabbitMQSource as DefaultSource

__all__ = ["DefaultSource"]
