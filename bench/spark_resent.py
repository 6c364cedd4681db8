"""The ceiling of the bench of Spark: a batch of the source that is sent again and again.

Nothing is read or decoded but one slice of the log for each task, so what a query over this format
costs is what Spark and the transport to it cost for such rows. Workers import this module, which
is why it is one of its own.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceReader

from sprocket.spark.rocketmq import RocketMQSource
from sprocket.spark.rocketmq.folder import DirectoryReader
from sprocket.spark.rocketmq.options import read_directory

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
    """Plans as the real reader does; each task sends one of its batches instead of all others."""

    def read(self, partition: Any) -> Iterator[Any]:
        """Give a batch of a task as often as its bytes of the log ask for.

        It is the second: the first slice of a file is shorter than those that come after it.
        """
        spans = partition.value
        size = sum(span.end - span.start for span in spans)
        batches = super().read(partition)
        *_, batch = itertools.islice(batches, 2)
        batches.close()  # type: ignore[attr-defined]
        sizes = np.frombuffer(batch.column("size").buffers()[1], np.int32)
        each = int(sizes[: batch.num_rows].sum())
        return itertools.repeat(batch, round(size / each))
