"""The format `rocketmq` of Spark: a store directory as a table, a live topic as a stream.

Spark runs `schema` and `reader` in short planner processes and `read` in workers, so what passes
between them is pickled: plain values only. Each new stream starts a process that imports this, so
what a query does not need is not imported.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

from sprocket.spark.catalog_table import kept, options_of_table, with_kept
from sprocket.spark.rocketmq import options as option_table
from sprocket.spark.rocketmq.rows.batches import schema_of, spark_schema


class RocketMQSource(DataSource):  # type: ignore[misc]
    """The data source; `sprocket.spark.register(spark)` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "rocketmq"

    def schema(self) -> Any:
        """Return the columns, when the user gave no schema; of a table, with its options."""
        of_table = options_of_table(self.options)
        if of_table is None:
            return spark_schema(option_table.read_any(self.options))
        return schema_of(option_table.read_any(of_table), kept(of_table))

    def reader(self, schema: Any) -> Any:
        """Return the reader of a batch: of live topics, or of store directories."""
        given = with_kept(schema, self.options)
        if option_table.is_live(given):
            from sprocket.spark.rocketmq.live.reader import TopicReader

            return TopicReader(schema, option_table.read_live_batch(given))
        options = option_table.read_directory(given)
        from sprocket.spark.rocketmq.folder import CompactedReader, DirectoryReader

        kind = CompactedReader if options.compacted else DirectoryReader
        return kind(schema, options)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        """Return the reader of a stream: of a live topic, or of a store directory."""
        given = with_kept(schema, self.options)
        if not option_table.is_live(given):
            from sprocket.spark.rocketmq.folder import DirectoryStream

            return DirectoryStream(schema, option_table.read_directory(given, is_stream=True))
        from sprocket.spark.rocketmq.live.stream import LiveReader

        return LiveReader(schema, option_table.read_live(given))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer of a DataFrame to live topics."""
        from sprocket.spark.rocketmq.sink.writer import BatchWriter

        return BatchWriter(schema, option_table.read_sink(self.options), overwrite=overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        """Return the writer of a stream to live topics."""
        from sprocket.spark.rocketmq.sink.writer import StreamWriter

        return StreamWriter(schema, option_table.read_sink(self.options), overwrite=overwrite)
