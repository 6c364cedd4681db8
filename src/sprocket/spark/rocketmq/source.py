"""The format `rocketmq` of Spark: a store directory as a table, a live topic as a stream.

Spark runs `schema` and `reader` in short planner processes and `read` in workers, so what passes
between them is pickled: plain values only.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

from sprocket.spark.rocketmq import options as option_table
from sprocket.spark.rocketmq.folder.reader import DirectoryReader
from sprocket.spark.rocketmq.rows.batches import spark_schema


class RocketMQSource(DataSource):  # type: ignore[misc]
    """The data source; `sprocket.spark.register(spark)` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "rocketmq"

    def schema(self) -> str:
        """Return the columns, when the user gave no schema."""
        return spark_schema(option_table.read_any(self.options))

    def reader(self, schema: Any) -> DirectoryReader:
        """Return the reader of a store directory."""
        return DirectoryReader(schema, option_table.read_directory(self.options))

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        """Return the reader of a stream: of a live topic, or of a store directory."""
        if not option_table.is_live(self.options):
            from sprocket.spark.rocketmq.folder.stream import DirectoryStream

            return DirectoryStream(
                schema, option_table.read_directory(self.options, is_stream=True)
            )
        from sprocket.spark.rocketmq.live.stream import LiveReader

        return LiveReader(schema, option_table.read_live(self.options))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer of a DataFrame to live topics."""
        from sprocket.spark.rocketmq.sink.writer import BatchWriter

        return BatchWriter(schema, option_table.read_sink(self.options), overwrite=overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        """Return the writer of a stream to live topics."""
        from sprocket.spark.rocketmq.sink.writer import StreamWriter

        return StreamWriter(schema, option_table.read_sink(self.options), overwrite=overwrite)
