"""A store's folder as jobs read it: planned once, its parts read inside of the workers.

Planning and reading are the source's own (`spark.read.format("rocketmq")`), so a job sees the rows
that a query sees; only the way through the JVM is spared.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from sprocket.spark.rocketmq.folder.reader import DirectoryReader
from sprocket.spark.rocketmq.options import read_directory
from sprocket.spark.rocketmq.rows.batches import spark_schema


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A store's log, cut into parts.

    Args:
        reader: Reads a part.
        parts: In the order of the log; each is for one task.
    """

    reader: DirectoryReader
    parts: tuple[Any, ...]

    def __reduce__(self) -> Any:
        """Leave the parts out: a worker is given the one that it reads."""
        return Stored, (self.reader, ())

    @classmethod
    def plan(
        cls,
        spark: Any,
        folder: str,
        *,
        columns: Sequence[str],
        topics: Sequence[str] = (),
        internal: bool = False,
        **more: str,
    ) -> "Stored":
        """Cut a log into parts, and fix its end.

        Args:
            spark: The SparkSession.
            folder: The store's root.
            columns: Names of the columns wanted.
            topics: Only these; none for all.
            internal: Whether internal topics and half messages count.
            more: Options of the source by their names.

        Raises:
            SettingsError: A topic or column is unknown.
            StoreError: The folder is no store, or lacks a file.
        """
        given = {"path": folder, "columns": ",".join(columns), **more}
        if topics:
            given["subscribe"] = ",".join(topics)
        if internal:
            given["includeInternalTopics"] = "true"
        options = read_directory(given)
        schema = spark.createDataFrame([], spark_schema(options)).schema
        reader = DirectoryReader(schema, options)
        return cls(reader, tuple(part.value for part in reader.partitions()))

    def read(self, part: Any) -> Iterator[Any]:
        """Give the Arrow batches of one part; runs in a worker."""
        from pyspark.sql.datasource import InputPartition

        return self.reader.read(InputPartition(part))
