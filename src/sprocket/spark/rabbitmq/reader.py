"""The reader of folders of virtual hosts: plans its tasks, and gives the rows of one."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sprocket.rabbitmq.store.reading import VhostReader
from sprocket.spark.rabbitmq.batches import MessageBatches
from sprocket.spark.rabbitmq.options import RabbitOptions
from sprocket.spark.rabbitmq.plan import QueueShare, open_folder, plan
from sprocket.spark.rabbitmq.stored_terms import StoredTerms


class VhostsReader(DataSourceReader):  # type: ignore[misc]
    """Reads virtual hosts of a stopped server, RabbitMQ's or ours.

    Args:
        schema: The StructType that Spark wants filled.
        options: What to read and how.
    """

    def __init__(self, schema: Any, options: RabbitOptions) -> None:
        self._schema = schema
        self._options = options
        MessageBatches(schema, options)

    def partitions(self) -> list[Any]:
        """Plan the tasks."""
        return [InputPartition(shares) for shares in plan(self._options)]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one task."""
        shares: list[QueueShare] = partition.value or []  # Spark gives None for an empty list
        batches = MessageBatches(self._schema, self._options)
        disk = open_folder(self._options)
        compares_sums = self._options.compares_sums
        for root, of_vhost in groupby(shares, key=lambda share: share.root):
            reader = VhostReader(disk, root, compares_sums=compares_sums)
            stored = StoredTerms(disk, reader.layout, compares_sums=compares_sums)
            for share in of_vhost:
                yield from _of_share(share, reader, stored, batches)


def _of_share(
    share: QueueShare, reader: VhostReader, stored: StoredTerms, batches: MessageBatches
) -> Iterator[Any]:
    """Give the batches of one queue, and report what is wrong with its files."""
    told = len(reader.faults)
    if share.tells_vhost:
        reader.tell_missing_queues()
    inside = f"{reader.layout.queue(share.folder).root}/"
    for number, rows in enumerate(reader.rows_of_all(share.part)):
        if number % share.count == share.number:
            yield from batches.of(share, rows, stored)
    for fault in reader.faults[told:]:
        is_of_queue = fault.path.startswith(inside)
        if share.tells_vhost if not is_of_queue else share.number == 0:
            yield from batches.damage(share.queue, fault, is_of_queue=is_of_queue)
