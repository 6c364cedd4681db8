"""The reader of store directories: plans its tasks, and gives the rows of one."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.codec.columns import Records
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files, open_files
from sprocket.spark.mode import Mode
from sprocket.spark.rocketmq.folder.known_offsets import require_offsets
from sprocket.spark.rocketmq.folder.known_topics import require_pattern, require_topics
from sprocket.spark.rocketmq.folder.plan import Span, log_files, plan
from sprocket.spark.rocketmq.folder.scan import DamagedRange, pieces, scan
from sprocket.spark.rocketmq.folder.stored_times import part_of_times
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches


class DirectoryReader(DataSourceReader):  # type: ignore[misc]
    """Reads store directories: a live broker's or a dead one's, ours or RocketMQ's.

    Args:
        schema: The StructType that Spark wants filled.
        options: Those of a batch over directories.
        is_to_break: As for `plan`.
    """

    def __init__(self, schema: Any, options: Options, *, is_to_break: bool = False) -> None:
        self._schema = schema
        self._options = options
        self._is_to_break = is_to_break
        Batches(schema, options)

    def partitions(self) -> list[Any]:
        """Plan the tasks, and fix the ends of the logs for this query.

        Raises:
            SettingsError: A topic or queue that is named is not there.
            DataLost: A message that is named is not there any more, and that is an error.
        """
        least = -(-self._options.partitions_min // len(self._folders))
        return [
            InputPartition(spans)
            for folder in self._folders
            for spans in self._parts(folder, least)
        ]

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one task."""
        # Spark gives None in place of an empty list.
        return self.batches(partition.value or [])

    def batches(
        self, spans: Sequence[Span], damage: list[DamagedRange] | None = None
    ) -> Iterator[Any]:
        """Do the same, and add what is damaged to a list, if there is one."""
        if not spans:
            return iter(())
        options = self._options
        return scan(
            self._files(spans),
            spans,
            Batches(self._schema, options),
            fail_on_data_loss=options.fail_on_data_loss,
            damage=damage,
        )

    def records(self, spans: Sequence[Span]) -> Iterator[Records | DamagedRange]:
        """Give all records of one task as they are; see `Stored.records`."""
        files = self._files(spans)
        for span in spans:
            with closing(files.open(span.path)) as file:
                for piece in pieces(file, span, skip_bodies=isinstance(files, RealDisk)):
                    if isinstance(piece, DamagedRange) and self._options.mode is Mode.FAILFAST:
                        raise CorruptRecord(
                            f"{span.path}: at physical offset {piece.start}: {piece.why}"
                        )
                    yield piece

    def _files(self, spans: Sequence[Span]) -> Files:
        """Return what reads the files of a task."""
        folder = max((one for one in self._folders if spans[0].path.startswith(f"{one}/")), key=len)
        return open_files(folder, dict(self._options.file_system))

    @property
    def _folders(self) -> tuple[str, ...]:
        """The directories, without a slash behind."""
        folders = self._options.paths or (self._options.path,)
        return tuple(folder.rstrip("/") for folder in folders)

    def _parts(self, folder: str, partitions_min: int) -> list[list[Span]]:
        """Return what each task reads of one directory."""
        options = self._options
        files = open_files(folder, dict(options.file_system))
        require_topics(files, folder, options.topics or tuple(options.assigned or ()))
        require_pattern(files, folder, options.topic_pattern)
        require_offsets(files, folder, options)
        groups = plan(
            files,
            folder,
            options.partition_bytes_max,
            by_chain=options.split_mode == "chain",
            partitions_min=partitions_min,
            is_to_break=self._is_to_break,
        )
        if options.starting_at_ms is None and options.ending_at_ms is None:
            return groups
        log = log_files(files, StoreLayout(folder))
        start, end = part_of_times(files, log, options.starting_at_ms, options.ending_at_ms)
        kept = ([one for one in spans if one.end > start and one.start < end] for spans in groups)
        return [spans for spans in kept if spans]
