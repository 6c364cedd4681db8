"""The reader of live topics as a table: a batch with a beginning and an end, fixed when planned.

Short queues of a broker share a task; a long one is a task, or several with `minPartitions`.
Offsets of all queues are asked for many at a time, so that planning 10,000 of them costs some
seconds and not minutes.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sprocket.rocketmq.model.route import QueueSlice
from sprocket.spark.rocketmq.live import chosen, cluster, offsets
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches


class TopicReader(DataSourceReader):  # type: ignore[misc]
    """Reads live topics, from the first to the last message that a query wants of each queue.

    Args:
        schema: The StructType that Spark wants filled.
        options: Those of a batch over topics.
    """

    def __init__(self, schema: Any, options: Options) -> None:
        self._schema = schema
        self._options = options
        Batches(schema, options)

    def partitions(self) -> list[Any]:
        """Ask where queues begin and end, once, and plan the tasks.

        Raises:
            NoSuchTopic: Nobody knows a topic; the text names the nearest.
            SettingsError: Options name a queue that is not there, or end before they begin, or no
                topic fits the pattern.
            DataLost: An offset is outside of its queue, and that is an error.
            ClientError: The cluster did not answer in time.
        """
        live = cluster.open_live(self._options)
        try:
            slices = self._slices(live)
        finally:
            live.close()
        tasks = offsets.tasks(slices, self._options.partitions_min)
        return [InputPartition(slices) for slices in tasks]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one task."""
        slices: list[QueueSlice] | None = partition.value
        if slices is None:  # Spark gives it in place of an empty list
            return
        yield from cluster.read_task(slices, self._schema, self._options)

    def _slices(self, live: Live) -> list[QueueSlice]:
        """Return what to read of each queue."""
        options = self._options
        found = sorted(chosen.new_queues(live, options))
        if not found:
            chosen.require_pattern(live, options)
            return []
        starts = chosen.starting(live, options, found)
        ends = chosen.ending(live, options, found)
        chosen.require_inside(live, options, starts, ends)
        filters = options.filters or {}
        return [
            QueueSlice(queue, starts[queue], ends[queue])
            for queue in found
            if starts[queue] < ends[queue]
            and queue.topic in filters.get("topic", (queue.topic,))
            and queue.queue_id in filters.get("queueId", (queue.queue_id,))
        ]
