"""The reader of store directories: plans its tasks, and gives the rows of one."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias

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
from sprocket.spark.rocketmq.folder.scan import pieces, scan
from sprocket.spark.rocketmq.folder.slices import time_of_record
from sprocket.spark.rocketmq.folder.stored_times import part_of_times
from sprocket.spark.rocketmq.folder.unit_counts import UnitCounts
from sprocket.spark.rocketmq.options import Options
from sprocket.spark.rocketmq.rows.batches import Batches
from sprocket.spark.rocketmq.rows.damage import DamagedRange, LeftOut, without_wrong

RecordsOrDamage: TypeAlias = Records | DamagedRange


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
            CorruptRecord: The log has lost its end, and the mode is FAILFAST.
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

    def batches(self, spans: Sequence[Span], left_out: LeftOut | None = None) -> Iterator[Any]:
        """Do the same, and add what is left out of it to something, if there is that."""
        if not spans:
            return
        options = self._options
        batches = Batches(self._schema, options, left_out=left_out)
        folder, files = self._folder(spans), self._files(spans)
        made = scan(
            files,
            spans,
            batches,
            fail_on_data_loss=options.fail_on_data_loss,
            counts=UnitCounts(files, StoreLayout(folder)) if batches.counts_queues else None,
        )
        yield from batches.added_up(made)

    def records(self, spans: Sequence[Span]) -> Iterator[Records | DamagedRange]:
        """Give all records of one task as they are; see `Stored.records`."""
        files = self._files(spans)
        verifies = self._options.verify_crc is not False
        for span in spans:
            if span.why:
                yield self._allowed(span.damage)
                continue
            with closing(files.open(span.path)) as file:
                skip_bodies = isinstance(files, RealDisk) and not verifies
                for piece in pieces(file, span, skip_bodies=skip_bodies):
                    if isinstance(piece, DamagedRange):
                        yield self._allowed(piece)
                    elif verifies:
                        yield from map(self._allowed, without_wrong(piece, span.path))
                    else:
                        yield piece

    def stored_at_ms(self, span: Span, offset: int) -> int | None:
        """Return when the record at a physical offset of a span was stored, as `time_of_record`."""
        with closing(self._files([span]).open(span.path)) as file:
            return time_of_record(file, span.base, offset - span.base, span.end - span.base)

    def _allowed(self, piece: RecordsOrDamage) -> RecordsOrDamage:
        """Return records, or damage if that is not an error.

        Raises:
            CorruptRecord: There is damage, and the mode is FAILFAST.
        """
        if isinstance(piece, DamagedRange) and self._options.mode is Mode.FAILFAST:
            raise CorruptRecord(str(piece))
        return piece

    def _files(self, spans: Sequence[Span]) -> Files:
        """Return what reads the files of a task."""
        return open_files(self._folder(spans), dict(self._options.file_system))

    def _folder(self, spans: Sequence[Span]) -> str:
        """Return the directory of a task."""
        return max((one for one in self._folders if spans[0].path.startswith(f"{one}/")), key=len)

    @property
    def _folders(self) -> tuple[str, ...]:
        """The directories, without a trailing slash."""
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
        has_times = (options.starting_at_ms, options.ending_at_ms) != (None, None)
        log = log_files(files, StoreLayout(folder), with_gaps=True) if has_times else []
        if log:
            start, end = part_of_times(files, log, options.starting_at_ms, options.ending_at_ms)
            is_last = end >= log[-1].end
            kept = (
                [one for one in spans if one.end > start and (one.start < end or is_last)]
                for spans in groups
            )
            groups = [spans for spans in kept if spans]
        if groups and groups[-1][0].is_lost:  # before tasks have done work that is for nothing
            self._allowed(groups[-1][0].damage)
        return groups
