"""The format `rabbitmq` of Spark: queues of a stopped server as a table.

Spark runs `schema` and `reader` in short planner processes and `read` in workers, so what passes
between them is pickled: plain values only.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

from sprocket.spark.catalog_table import kept, options_of_table, with_kept
from sprocket.spark.rabbitmq.batches import schema_of, spark_schema
from sprocket.spark.rabbitmq.options import read_any, read_options
from sprocket.spark.rabbitmq.reader import VhostsReader


class RabbitMQSource(DataSource):  # type: ignore[misc]
    """The data source; `sprocket.spark.register(spark)` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "rabbitmq"

    def schema(self) -> Any:
        """Return the columns, when the user gave no schema; of a table, with its options."""
        of_table = options_of_table(self.options)
        if of_table is None:
            return spark_schema(read_any(self.options))
        return schema_of(read_any(of_table), kept(of_table))

    def reader(self, schema: Any) -> Any:
        """Return the reader of a batch."""
        return VhostsReader(schema, read_options(with_kept(schema, self.options)))
