"""The job `archive`: a store's messages as Parquet, each once, whatever interrupts the runs.

Workers write the files, so that no row enters the JVM. A run continues where the manifests end, in
rounds: each ends with a manifest, so a run that dies loses one round of work, and no more. What it
left behind the next one removes. See docs/formats/archive.md.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import pyarrow as pa

from sprocket.base.errors import DataLost, SettingsError, StoreError
from sprocket.base.progress import Step, unwatched
from sprocket.base.units import GIB
from sprocket.spark.archive import (
    VERSION,
    ArchivedFile,
    ArchiveFolder,
    FileName,
    Manifest,
    TopicFiles,
)
from sprocket.spark.files import WritableFiles, local_path, open_writable
from sprocket.spark.jobs.job import (
    JobOption,
    JobReport,
    PartitionBytes,
    SkipDamaged,
    Verify,
    by_size,
    damage_rows,
    reading,
)
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles, require_outside
from sprocket.spark.jobs.tasks import collected, spread
from sprocket.spark.rocketmq.folder import LeftOut, Stored, start_of

ROUND_BYTES = 8 * GIB
"""Of the log, between two manifests: some 20 s of work on two cores."""


class ArchiveReport(JobReport, frozen=True, kw_only=True):
    """What a run added to an archive.

    Attributes:
        start: Physical offset in the log where it began.
        end: Physical offset after it; the next run continues there.
        messages: Rows that were written.
        stored_bytes: Bytes of the log that were read.
        files: Parquet files.
        bytes: Their bytes.
        removed_files: Files of runs that had not come to their end.
        damaged: Places of the log that were left out, as they are damaged or lost.
        damaged_bytes: Their bytes.
        damage: A row for each of the first 1,000 of them: `file`, `position` in it, `start` (its
            physical offset), `bytes`, `why`.
    """

    start: int
    end: int
    messages: int
    stored_bytes: int
    files: int
    bytes: int
    removed_files: int
    damaged: int
    damaged_bytes: int
    damage: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedMessages:
    """Which messages an archive has, and what its runs may do without."""

    topic: Annotated[list[str], JobOption("Only this topic; may be repeated.", also="-t")] = ()  # type: ignore[assignment]
    internal: Annotated[
        bool, JobOption("Internal topics and half messages, too: everything that is there.")
    ] = False
    skip_damaged: SkipDamaged = False
    verify: Verify = True
    skip_missing: Annotated[
        bool, JobOption("Go on where the log begins if it was cleaned away before it was archived.")
    ] = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRun:
    """How a run goes."""

    partition_bytes: PartitionBytes = 0
    round_bytes: Annotated[int, JobOption("Bytes of the log between two manifests.", "BYTES")] = (
        ROUND_BYTES
    )
    take_over: Annotated[
        bool,
        JobOption(
            "Go on although another run has the archive locked, which is known to be dead; on the"
            " local disk no dead run has."
        ),
    ] = False


ALL_MESSAGES = ArchivedMessages()
USUAL_RUN = ArchiveRun()


@dataclasses.dataclass(frozen=True, slots=True)
class _Target:
    """Where an archive lies; driver and workers open it by themselves."""

    folder: str
    settings: dict[str, str]

    def open(self) -> WritableFiles:
        """Return what writes there."""
        return open_writable(self.folder, self.settings)


def archive(
    spark: Any,
    *,
    store: Annotated[str, JobOption("The store's folder.", "FOLDER", is_argument=True)],
    to: Annotated[
        str,
        JobOption("The archive's folder, which every worker sees.", "ARCHIVE", is_argument=True),
    ],
    files: JobFiles = LOCAL_FILES,
    messages: ArchivedMessages = ALL_MESSAGES,
    run: ArchiveRun = USUAL_RUN,
    progress: Step = unwatched,
) -> ArchiveReport:
    """Write what is new in a store to an archive of Parquet files.

    Raises:
        DataLost: The log begins behind the end of the archive, or ends before it, or is another
            one.
        SettingsError: The archive was begun with other topics.
        StoreError: There is no such store or archive, this would lie inside of that, or another
            run writes to it (StoreLocked).
        QueryFailed: A task failed; what was published before stays.
    """
    files.require_use(store, to)
    require_outside(to, store)
    target = _Target(local_path(to) or to.rstrip("/"), files.settings(to))
    folder = ArchiveFolder(target.open(), target.folder)
    given = files.options(store)
    given |= by_size(run.partition_bytes)
    given |= reading(skip_damaged=messages.skip_damaged, verify=messages.verify)
    stored = Stored.plan(store, topics=messages.topic, internal=messages.internal, more=given)
    with folder.locked(take_over=run.take_over) as lock:
        known = folder.manifests()
        removed = folder.remove_left_behind(known)
        _require_alike(known, messages, to)
        if known:
            _require_same(stored, known, store, to)
            stored = _after(stored, known[-1].end, store, messages.skip_missing)
        added: list[ArchivedFile] = []
        left_out = LeftOut()
        if stored.lost_end is not None:
            left_out.add(stored.lost_end)
        done = 0
        for part_of_log in _rounds(stored, run.round_bytes):
            tell = partial(_tell, progress, done, len(stored.parts))
            written = _written(spark, part_of_log, target, tell)
            lock.require()
            start, end = part_of_log.bounds()
            folder.publish(
                Manifest(
                    version=VERSION,
                    start=start,
                    end=end,
                    topics=sorted(messages.topic),
                    internal=messages.internal,
                    files=written.files,
                )
            )
            added += written.files
            left_out.join(written.left_out)
            done += len(part_of_log.parts)
    at = known[-1].end if known else 0
    start, end = stored.bounds() if stored.parts else (at, at)
    return ArchiveReport(
        start=start,
        end=end,
        messages=sum(file.messages for file in added),
        stored_bytes=end - start,
        files=len(added),
        bytes=sum(file.bytes for file in added),
        removed_files=removed,
        damaged=left_out.count,
        damaged_bytes=left_out.bytes,
        damage=damage_rows(left_out.named),
    )


def _require_alike(known: Sequence[Manifest], messages: ArchivedMessages, to: str) -> None:
    wanted = sorted(messages.topic), messages.internal
    if known and (known[-1].topics, known[-1].internal) != wanted:
        last = known[-1]
        of = f"the topics {', '.join(last.topics)}" if last.topics else "all topics"
        more = ", internal ones too" if last.internal else ""
        raise SettingsError(f"{to} is an archive of {of}{more}; what is added must be of the same")


def _require_same(stored: Stored, known: Sequence[Manifest], store: str, to: str) -> None:
    """Check that the log still has the last message of the archive, if it goes back so far."""
    files = [file for manifest in known for file in manifest.files]
    last = max(files, key=lambda file: file.last_offset, default=None)
    if last is not None and not stored.has(last.last_offset, last.last_stored_at_ms):
        raise DataLost(
            f"the archive has a message at {last.last_offset} of the log, stored up to"
            f" {last.last_stored_at_ms} (ms since 1970), and the log of {store} has none of then"
            f" there: it is another store, or one that lost messages and has got others since."
            f" Archive it to another folder than {to}"
        )


def _after(stored: Stored, end: int, store: str, skip_missing: bool) -> Stored:
    """Return what is not archived yet."""
    if not stored.parts:
        raise DataLost(f"the archive goes up to {end}, and the log of {store} is empty")
    first, last = stored.bounds()
    if last < end:
        raise DataLost(
            f"the archive goes up to {end}, but the log of {store} ends at {last}: it is another"
            " store, or one that lost messages"
        )
    if first > end and not skip_missing:
        raise DataLost(
            f"the archive goes up to {end}, and the log of {store} begins at {first}: what lay"
            " between was cleaned away; --skip-missing goes on without it"
        )
    return stored.after(end)


def _rounds(stored: Stored, round_bytes: int) -> Iterator[Stored]:
    """Cut into parts that a manifest is for."""
    first = 0
    for number in range(len(stored.parts)):
        part_of_log = stored.only(first, number + 1)
        start, end = part_of_log.bounds()
        if end - start >= round_bytes or number + 1 == len(stored.parts):
            yield part_of_log
            first = number + 1


def _tell(progress: Step, before: int, total: int, what: str, done: int, _total: int = 0) -> None:
    progress(what, before + done, total)


class _Written(msgspec.Struct, frozen=True):
    """What was written of a part of the log: its files, and what it has no messages of."""

    files: list[ArchivedFile]
    left_out: LeftOut


def _written(spark: Any, stored: Stored, to: _Target, tell: Step) -> _Written:
    """Write the files of some parts; what failed attempts wrote is not among them."""
    work = partial(_write, stored, to, uuid4().hex[:8])
    rows = collected(spark, spread(spark, stored.parts, work, "written string"), tell, "archiving")
    parts = [msgspec.json.decode(row["written"], type=_Written) for row in rows]
    left_out = LeftOut()
    for part in parts:
        left_out.join(part.left_out)
    return _Written([file for part in parts for file in part.files], left_out)


def _write(stored: Stored, to: _Target, job: str, part: Any) -> Iterator[Any]:
    """Write the files of one part; runs in a worker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition, attempt = context.partitionId(), context.taskAttemptId()
    name = FileName.of(start_of(part), job, partition, attempt)
    files = TopicFiles(to.open(), to.folder, name)
    left_out = LeftOut()
    try:
        for batch in stored.read(part, left_out):
            files.add(batch)
        written = _Written(files.close(), left_out)
    except BaseException:
        with suppress(StoreError):
            files.abandon()
        raise
    text = msgspec.json.encode(written).decode()
    yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=["written"])
