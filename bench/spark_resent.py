"""The ceiling of the bench of Spark: a batch of the source that is sent again and again.

Nothing is read or decoded but one slice of the log for each task, so what a query over this format
costs is what Spark and the transport to it cost for such rows. Workers import this module, which
is why it is one of its own.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader

from sprocket.base.disk import RealDisk
from sprocket.spark.rocketmq import RocketMQSource
from sprocket.spark.rocketmq.folder.reader import DirectoryReader
from sprocket.spark.rocketmq.folder.scan import scan
from sprocket.spark.rocketmq.options import read_directory
from sprocket.spark.rocketmq.rows.batches import Batches

FORMAT = "rocketmq-resent"


class ResentSource(DataSource):  # type: ignore[misc]
    """As the format `rocketmq` on a folder, but that most of its rows are copies."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return FORMAT

    def schema(self) -> Any:
        """Return the columns."""
        return RocketMQSource(self.options).schema()

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader."""
        return _ResentReader(schema, read_directory(self.options))


class _ResentReader(DirectoryReader):
    """Plans as the real reader does; each task sends its first batch instead of all others."""

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the first batch of a task as often as its bytes of the log ask for."""
        spans = partition.value
        size = sum(span.end - span.start for span in spans)
        given = scan(
            RealDisk(), spans, Batches(self._schema, self._options), fail_on_data_loss=True
        )
        first = next(given)
        given.close()  # type: ignore[attr-defined]
        sizes = first.column("size").to_numpy()
        sent = 0
        while sent < size:
            yield first
            sent += int(sizes.sum())
