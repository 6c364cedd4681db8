"""A store's folder as jobs read it: planned once, its parts read inside of the workers.

Planning and reading are the source's own (`spark.read.format("rocketmq")`), so a job sees the rows
that a query sees; only the way through the JVM is spared.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sprocket.rocketmq.codec.columns import Records
from sprocket.spark.rocketmq.folder.plan import LogFile, Span
from sprocket.spark.rocketmq.folder.reader import DirectoryReader
from sprocket.spark.rocketmq.options import read_directory
from sprocket.spark.rocketmq.rows.batches import schema_of
from sprocket.spark.rocketmq.rows.damage import DamagedRange, LeftOut


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A store's log, cut into parts.

    Args:
        reader: Reads a part.
        parts: In the order of the log; each is for one task.
        lost_end: What the log has lost after its last part, if that is not an error.
    """

    reader: DirectoryReader
    parts: tuple[Any, ...]
    lost_end: DamagedRange | None = None

    def __reduce__(self) -> Any:
        """Leave the parts out: a worker is given the one that it reads."""
        return Stored, (self.reader, ())

    @classmethod
    def plan(
        cls,
        folder: str,
        *,
        columns: Sequence[str] = (),
        topics: Sequence[str] = (),
        internal: bool = False,
        is_to_break: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> "Stored":
        """Cut a log into parts, and fix its end; Spark is not asked for anything.

        Args:
            folder: The store's root.
            columns: Names of the columns wanted; none for all of `view=full`.
            topics: Only these; none for all.
            internal: Whether internal topics and half messages count.
            is_to_break: The log ends where no record begins in its newest file, for callers that
                examine what follows by themselves.
            more: Options of the source by their names.

        Raises:
            SettingsError: A topic or column is unknown.
            StoreError: The folder is not a store, or its log has gaps and the mode is FAILFAST.
        """
        given = {"path": folder, **(more or {})}
        if columns:
            given["columns"] = ",".join(columns)
        if topics:
            given["subscribe"] = ",".join(topics)
        if internal:
            given["includeInternalTopics"] = "true"
        options = read_directory(given)
        reader = DirectoryReader(schema_of(options, {}), options, is_to_break=is_to_break)
        parts = [part.value for part in reader.partitions()]
        lost = parts.pop()[0].damage if parts and parts[-1][0].is_lost else None
        return cls(reader, tuple(parts), lost)

    def bounds(self) -> tuple[int, int]:
        """Return the physical offsets where the first part begins and after the last one."""
        return self.parts[0][0].start, self.parts[-1][-1].end

    def only(self, first: int, stop: int) -> "Stored":
        """Return the parts from number `first` up to `stop`."""
        return dataclasses.replace(self, parts=self.parts[first:stop])

    def after(self, offset: int) -> "Stored":
        """Return what lies at a physical offset, where a record begins, or after it."""
        parts = []
        for spans in self.parts:
            left = [
                dataclasses.replace(span, start=max(span.start, offset))
                for span in spans
                if span.end > offset
            ]
            if left:
                parts.append(left)
        return dataclasses.replace(self, parts=tuple(parts))

    def reaching(self, file: LogFile, end: int) -> "Stored":
        """Return the same up to a later physical offset, which is in the newest file."""
        last = self.parts[-1][-1] if self.parts else None
        if last is not None and last.path == file.path:
            longer = dataclasses.replace(last, end=end, may_pad=False)
            parts = (*self.parts[:-1], [*self.parts[-1][:-1], longer])
            return dataclasses.replace(self, parts=parts)
        more = [Span(file.path, file.start, file.start, end, may_pad=False)]
        return dataclasses.replace(self, parts=(*self.parts, more))

    def within(self, start: int, end: int) -> "Stored":
        """Return the parts that have something of a range of physical offsets."""
        parts = [one for one in self.parts if one[0].start < end and start < one[-1].end]
        return dataclasses.replace(self, parts=tuple(parts))

    def file_at(self, place: int) -> str:
        """Return the file of a physical offset that is in one of the parts."""
        spans = (span for part in self.parts for span in part)
        path: str = next(span.path for span in spans if span.start <= place < span.end)
        return path

    def has(self, offset: int, at_ms: int) -> bool:
        """Tell whether a record that is not younger begins at a place; also if that is not known.

        Of one that was cleaned away or is damaged nothing is known. Where none begins, the part is
        followed, to tell damage from a record that the place lies within.

        Args:
            offset: Physical offset.
            at_ms: Store time, milliseconds since 1970.

        Raises:
            CorruptRecord: There is damage before, and the mode is FAILFAST.
        """
        for spans in self.within(offset, offset + 1).parts:
            span = next(one for one in spans if one.start <= offset < one.end)
            if span.why:
                return True
            found = self.reader.stored_at_ms(span, offset)
            if found is not None:
                return found <= at_ms
            return any(
                isinstance(piece, DamagedRange) and piece.start == offset
                for piece in self.records(spans)
            )
        return True

    def records(self, part: Any) -> "Iterator[Records | DamagedRange]":
        """Give all records of one part, whatever their topic, as they are; runs in a worker.

        Where no checksums are compared, large bodies may be left out.

        Raises:
            CorruptRecord: There is damage, and the mode is FAILFAST.
        """
        return self.reader.records(part)

    def read(self, part: Any, left_out: LeftOut) -> Iterator[Any]:
        """Give the Arrow batches of one part; runs in a worker.

        Args:
            part: One of the parts.
            left_out: Damage is added to it, where the mode lets it be left out.
        """
        return self.reader.batches(part, left_out)


def start_of(part: Any) -> int:
    """Return the physical offset where a part begins."""
    start: int = part[0].start
    return start
