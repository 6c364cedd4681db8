"""The format `rocketmq` of Spark: a store directory as a table, a live topic as a stream.

Spark runs `schema` and `reader` in short planner processes and `read` in workers, so what passes
between them is pickled: plain values only.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from sprocket.base.disk import RealDisk
from sprocket.spark.rocketmq import options as option_table
from sprocket.spark.rocketmq.batches import Batches, spark_schema
from sprocket.spark.rocketmq.known_topics import require_topics
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.plan import Span, plan
from sprocket.spark.rocketmq.scan import scan


class RocketMQSource(DataSource):  # type: ignore[misc]
    """The data source; `sprocket.spark.register(spark)` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "rocketmq"

    def schema(self) -> str:
        """Return the columns, when the user gave no schema."""
        return spark_schema(self._options())

    def reader(self, schema: Any) -> "DirectoryReader":
        """Return the reader of a store directory."""
        return DirectoryReader(schema, option_table.read_directory(self.options))

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        """Return the reader of a live topic."""
        from sprocket.spark.rocketmq.stream import LiveReader

        return LiveReader(schema, option_table.read_live(self.options))

    def _options(self) -> Options:
        if "nameserver" in {name.lower() for name in self.options}:
            return option_table.read_live(self.options)
        return option_table.read_directory(self.options)


class DirectoryReader(DataSourceReader):  # type: ignore[misc]
    """Reads a store directory: a live broker's or a dead one's, ours or RocketMQ's."""

    def __init__(self, schema: Any, options: Options) -> None:
        self._schema = schema
        self._options = options
        Batches(schema, options)

    def partitions(self) -> list[Any]:
        """Plan the tasks, and fix the end of the log for this query."""
        options = self._options
        require_topics(RealDisk(), options.path, options.topics)
        by_chain = options.split_mode == "chain"
        groups = plan(RealDisk(), options.path, options.partition_bytes_max, by_chain=by_chain)
        return [InputPartition(spans) for spans in groups]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one task."""
        spans: list[Span] = partition.value or []  # Spark gives None in place of an empty list
        batches = Batches(self._schema, self._options)
        loss = self._options.fail_on_data_loss
        return scan(RealDisk(), spans, batches, fail_on_data_loss=loss)
