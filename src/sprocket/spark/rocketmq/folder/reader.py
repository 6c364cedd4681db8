"""The reader of a store directory: plans its tasks, and gives the rows of one."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sprocket.base.disk import RealDisk
from sprocket.spark.rocketmq.folder.known_topics import require_topics
from sprocket.spark.rocketmq.folder.plan import Span, plan
from sprocket.spark.rocketmq.folder.scan import scan
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches


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
