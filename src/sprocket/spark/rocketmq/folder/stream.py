"""The stream of a store directory: the log as it grows, whoever writes it.

Spark runs `initialOffset`, `latestOffset` and `partitions` on one long-lived object, and `read` on
copies that were pickled when the query was planned.

An offset of the stream is one physical offset of the log, version 1; what else it may have is in
docs/formats/stream-offsets.md:

    {"v": 1, "phys": <bytes from the beginning of the log>}

Traps that are closed here

1. Spark asks for the initial offset twice at the first start and mixes the answers; it is kept.
2. After a failure before the first batch Spark asks again and the answer may lie after the end
   that it has noted; `partitions` refuses that.
3. An offset that did not move is given back as it came, since Spark compares its text.
4. `Trigger.AvailableNow` never passes the end that was seen at its start, and Trigger.Once takes
   everything whatever the limits say.
5. A place where the stream is to go on is looked for, not trusted: retention, a restored disk or a
   broker that lost power may have taken it, and a store that was created again has others
   (`tail.GrowingLog`). So an offset has a record that was read before it, if one is known.
6. Offsets at which queues are to start hold for the log as it was when the query started: a topic
   that is made again later has such offsets once more, in messages that nobody has read.
7. A log that was closed may lose its end while a stream runs: whenever its end goes back, that is
   looked at as when the stream starts.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from sprocket.base import log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import CorruptRecord, DataLost, FileMissing, SettingsError
from sprocket.spark.files import open_files
from sprocket.spark.mode import Mode
from sprocket.spark.rocketmq.admission import Admission
from sprocket.spark.rocketmq.folder.known_offsets import require_offsets
from sprocket.spark.rocketmq.folder.known_topics import require_topics
from sprocket.spark.rocketmq.folder.plan import Span, between
from sprocket.spark.rocketmq.folder.scan import scan
from sprocket.spark.rocketmq.folder.tail import GrowingLog, LastRecord, LogExtent
from sprocket.spark.rocketmq.options import EARLIEST, LATEST, Options
from sprocket.spark.rocketmq.rows.batches import Batches

_log = log.get_logger(__name__)
T = TypeVar("T")

VERSION = 1
_LISTINGS_MAX = 5
"""How often the files are listed again as one of them was deleted meanwhile."""


@dataclasses.dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far a stream is.

    Args:
        at: Physical offset.
        last: A record that was read before it, if one is known.
        until: Physical offset up to which `startingOffsets` hold; None for all of the log.
    """

    at: int
    last: LastRecord | None = None
    until: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Task:
    """What a worker reads, and whether it lies after what `startingOffsets` hold for."""

    spans: Sequence[Span]
    is_after_start: bool


class DirectoryStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads a growing log into the schema, a StructType, that Spark wants filled."""

    def __init__(self, schema: Any, options: Options, clock: Clock | None = None) -> None:
        self._schema = schema
        self._options = options
        self._files = open_files(options.path, dict(options.file_system))
        self._tail = GrowingLog(self._files, options.path)
        self._admission = Admission(options, clock or SystemClock())
        self._initial: dict[str, Any] | None = None
        self._target: int | None = None
        self._latest: int | None = None
        self._end_seen: int | None = None
        Batches(schema, options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts, the same each time."""
        if self._initial is None:
            options = self._options
            named = options.topics or tuple(options.assigned or ())
            require_topics(self._files, options.path, named)
            require_offsets(self._files, options.path.rstrip("/"), options)
            starting = partial(starting_place, self._tail, self._options)
            until = None
            if not isinstance(options.first_offsets, int):
                until = self._retried(self._tail.look).end
            self._initial = encode(StreamPlace(self._retried(starting), until=until))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that the options set."""
        return self._admission.read_limit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end up to which this query reads.

        Raises:
            CorruptRecord: See `latestOffset`.
        """
        self._target = self._retried(self._look).end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends.

        Raises:
            DataLost: The log has lost the place where the batch starts, and that is an error.
            CorruptRecord: It has lost its end since it was closed, and the mode is FAILFAST.
        """
        begin = decode(start)
        end = self._retried(lambda: self._next_end(begin, limit))
        if end.at == begin.at:
            return start
        self._admission.note_batch()
        return encode(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end that was seen last, for the query's progress."""
        return None if self._latest is None else encode(StreamPlace(self._latest))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        """Return the tasks that read what lies between two offsets.

        Raises:
            DataLost: The log has lost one of the two places, and that is an error.
        """
        return self._retried(lambda: self._partitions(decode(start), decode(end)))

    def read(self, partition: Any) -> Iterator[Any]:
        """Give the batches of one partition; runs in a worker."""
        options = self._options
        task: _Task = partition.value or _Task([], False)
        chosen = options
        if task.is_after_start:
            chosen = dataclasses.replace(options, starting_offsets=EARLIEST)
        batches = Batches(self._schema, chosen)
        return scan(self._files, task.spans, batches, fail_on_data_loss=options.fail_on_data_loss)

    def _look(self) -> LogExtent:
        """Return what is there, after looking whether a log that was closed has all that it had.

        That is so when the stream starts, and whenever the log ends before where it ended.
        """
        if self._end_seen is None:
            self._require_whole()
        found = self._tail.look()
        if self._end_seen is not None and found.end < self._end_seen:
            self._require_whole()
        self._end_seen = found.end
        return found

    def _require_whole(self) -> None:
        """Look whether a log that was closed has all that it had then.

        Raises:
            CorruptRecord: It has not, and the mode is FAILFAST.
        """
        lost = self._tail.lost_end()
        if lost is not None and self._options.mode is Mode.FAILFAST:
            raise CorruptRecord(str(lost))
        if lost is not None:
            _log.warning("damage is left out", place=str(lost), bytes=lost.size)

    def _next_end(self, begin: StreamPlace, limit: ReadLimit) -> StreamPlace:
        found = self._look()
        first = self._place(found, begin)
        if first < begin.at:  # what was read is not there: the next batch continues at this place
            return StreamPlace(first, None, begin.until)
        end = self._end_of_batch(found, begin, first, limit)
        # Of a place that was not looked at just now, nobody knows which record lies before it.
        last = self._tail.record_before(end) if end == found.end else None
        last = last or self._tail.record_before(first) or begin.last
        return StreamPlace(end, last, begin.until)

    def _end_of_batch(
        self, found: LogExtent, begin: StreamPlace, first: int, limit: ReadLimit
    ) -> int:
        """Return where a batch ends that begins at `first`, which is `begin` if that is there."""
        end = found.end if self._target is None else min(found.end, self._target)
        self._latest = end
        if first >= end:
            return first
        admitted = self._admission.admitted(limit, is_waiting=self._target is None)
        least = admitted.count_min
        if least and self._tail.count(found, first, end, least) < least:
            return begin.at
        if begin.until is not None and first < begin.until:
            end = min(end, begin.until)
        if not (admitted.bytes_max or admitted.count_max):
            return end
        bounds = {"bytes_max": admitted.bytes_max, "count_max": admitted.count_max}
        return self._tail.reach(found, first, end, **bounds).end

    def _partitions(self, start: StreamPlace, end: StreamPlace) -> list[Any]:
        if start.at > end.at:
            self._lose(
                f"the log was read up to {start.at} and now ends at {end.at}: its broker lost"
                " messages, or the query was started with `latest` and failed before its first"
                " batch"
            )
            return []
        if start.at == end.at:
            return []
        found = self._tail.look()
        first, last = self._place(found, start), self._place(found, end)
        options = self._options
        groups = between(
            self._files,
            found.files,
            first,
            last,
            options.partition_bytes_max,
            by_chain=options.split_mode == "chain",
            partitions_min=options.partitions_min,
        )
        is_after_start = start.until is not None and start.at >= start.until
        return [InputPartition(_Task(spans, is_after_start)) for spans in groups]

    def _place(self, found: LogExtent, wanted: StreamPlace) -> int:
        """Return a place of the log, or where reading continues if the log has lost it.

        Raises:
            DataLost: The log has lost it, and that is an error.
        """
        at = wanted.at
        place = self._tail.place(found, at, wanted.last)
        if not place.is_sound:
            if at < found.start:
                why = f"the oldest kept is {found.start}"
            elif at > found.end:
                why = f"the log ends at {found.end}"
            else:
                why = (
                    "no record that was read ends there: the log was truncated and written again,"
                    " or the store was deleted and created again"
                )
            self._lose(f"{self._options.path}: physical offset {at} is gone, {why}")
        return place.at

    def _lose(self, text: str) -> None:
        """Report lost messages.

        Raises:
            DataLost: They are an error.
        """
        if self._options.fail_on_data_loss:
            raise DataLost(f"{text}. failOnDataLoss=false goes on with what is there")
        _log.warning("messages are gone", text=text)

    def _retried(self, plan: Callable[[], T]) -> T:
        """Plan again if a file is deleted meanwhile, since it is no longer listed then."""
        for _ in range(_LISTINGS_MAX - 1):
            try:
                return plan()
            except FileMissing:
                continue
        return plan()


def starting_place(tail: GrowingLog, options: Options) -> int:
    """Return the place in a log where the options say that a new query starts.

    Where they give offsets or times of single queues it is the oldest; rows before them are left
    out when they are read, as are those before a time.

    Raises:
        SettingsError: A queue is to start at its end, which says nothing later.
    """
    if options.starting_place is not None:
        return options.starting_place
    found = tail.look()
    if options.starting_at_ms is not None:
        return tail.place_by_time(found, options.starting_at_ms)
    wanted = options.first_offsets
    if isinstance(wanted, int):
        return found.end if wanted == LATEST else found.start
    if any(LATEST in numbers.values() for one in wanted.values() for numbers in one.values()):
        raise SettingsError(
            "startingOffsets has -1 for a queue, which a stream over a directory does not know"
            " later; give its offset"
        )
    return found.start


def encode(place: StreamPlace) -> dict[str, Any]:
    """Return a place as Spark keeps it."""
    kept: dict[str, Any] = {"v": VERSION, "phys": place.at}
    if place.last is not None:
        kept["last"] = list(dataclasses.astuple(place.last))
    if place.until is not None:
        kept["until"] = place.until
    return kept


def decode(kept: dict[str, Any]) -> StreamPlace:
    """Return what `encode` was given; earlier releases kept nothing but the place itself.

    Raises:
        DataLost: It was written by another version, or by another source.
    """
    if kept.get("v") != VERSION or not isinstance(kept.get("phys"), int):
        raise DataLost(
            f"the checkpoint has the offset {kept}, not one of a store directory of version "
            f"{VERSION}: it belongs to another release or another source"
        )
    last = LastRecord(*kept["last"]) if "last" in kept else None
    return StreamPlace(kept["phys"], last, kept.get("until"))
