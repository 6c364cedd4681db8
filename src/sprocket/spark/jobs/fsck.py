"""The job `fsck`: whether a store is whole, with the findings of `sprocket store check`.

Each task walks over a part of the log, with all checksums, and compares its records with the units
of their queues, inside of the worker; what it reports is one row, of a few hundred bytes where
nothing is wrong. The driver joins these rows: parts follow each other, and the runs of units that
the parts have leave no unit over (`store.repair.parts_check`). So no record enters the JVM, and
units and records are matched by what both know, the place in the log, without a shuffle.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from sprocket.base.disk import Disk
from sprocket.base.errors import SettingsError
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.store.repair import Finding, check, parts_check
from sprocket.spark.files import local_path, open_disk
from sprocket.spark.jobs.job import JobOption, JobReport, PartitionBytes
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles
from sprocket.spark.jobs.tasks import collected, spread
from sprocket.spark.rocketmq.folder import likely_starts, task_bytes

FINDINGS_MAX = 100_000
"""Told at most; how many more there are is counted."""


class FsckReport(JobReport, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        start: Physical offset where the log begins.
        end: Physical offset where it ends.
        messages: Intact records.
        bytes: Their bytes.
        wrong_checksums: Places where a record does not fit its checksum.
        breaks: Places where no intact record begins; those of wrong checksums are among them.
        is_open: A broker has the store open, or did not close it: its last moments were not judged.
        not_told: How many findings were too many to be listed.
        broken: A row for each rule that is broken, and how often.
        findings: A row for each broken rule: `rule`, `file`, `position`, `expected`, `found`, and
            `physical_offset` of the record that is concerned, None if none is.
        ranges: A row for each part of the log: `start`, `end`, `first` and `last` (where its first
            and last records begin), `messages`, `bytes`, `wrong_checksums`, `breaks`.
    """

    start: int
    end: int
    messages: int
    bytes: int
    wrong_checksums: int
    breaks: int
    is_open: bool
    not_told: int
    broken: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    ranges: list[dict[str, Any]]

    def complaint(self) -> str:
        """Say how many rules are broken."""
        count = sum(row["findings"] for row in self.broken)
        return f"{count:,} broken rule{'s' if count > 1 else ''}" if count else ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Folder:
    """A store's folder, as every task opens it."""

    path: str
    settings: Mapping[str, str]

    @classmethod
    def of(cls, store: str, files: JobFiles) -> "_Folder":
        files.require_use(store)
        path = local_path(store)
        return cls((store if path is None else path).rstrip("/") or "/", files.settings(store))

    def disk(self) -> Disk:
        return open_disk(self.path, self.settings)


def fsck(
    spark: Any,
    *,
    store: Annotated[
        str,
        JobOption("The store's folder, which every worker sees.", "FOLDER", is_argument=True),
    ],
    files: JobFiles = LOCAL_FILES,
    index: Annotated[
        bool, JobOption("Check the key index, too: a task more for each of its files.")
    ] = False,
    partition_bytes: PartitionBytes = 0,
    progress: Step = unwatched,
) -> FsckReport:
    """Check a store: each record and checksum of the log, and each unit of its queues.

    Raises:
        SettingsError: The folder cannot be opened with these settings, or only on the local disk.
        StoreError: There is no such store, or it cannot be looked into.
        QueryFailed: A task failed.
    """
    folder = _Folder.of(store, files)
    disk = folder.disk()
    parts = parts_check.PartsCheck(disk, folder.path, with_index=index)
    if not parts.queues_are_files and local_path(folder.path) is None:
        raise SettingsError(
            f"{store} has its queues in a RocksDB, which can be read on the local disk only"
        )
    parts.cut(_cuts(disk, parts, partition_bytes))
    asked = 0
    while wanted := parts.wanted():
        what = "checking again" if asked else "checking"
        _check(spark, folder, parts, wanted, partial(progress, what))
        asked += 1
    findings = list(parts.findings())
    rest = None
    if index:
        checked = parts.index_files(findings)
        findings += _in_themselves(spark, folder, checked, partial(progress, "checking the index"))
        rest = parts.index_rest()
    if rest is not None or parts.has_batch_queues:
        work = partial(_walk, folder, rest)
        tell = partial(progress, "checking in one walk")
        findings += _found(spark, [parts.has_batch_queues], work, tell)
    return _report(disk, folder, parts, findings)


def _cuts(disk: Disk, parts: parts_check.PartsCheck, partition_bytes: int) -> list[int]:
    """Return places inside of files to cut the log at, where records seem to begin.

    A cut where none does costs that a part is checked again.
    """
    ends = [segment.start + segment.file.data_end() for segment in parts.segments]
    starts = [segment.start for segment in parts.segments]
    target = partition_bytes or task_bytes(sum(ends) - sum(starts))
    cuts: list[int] = []
    for segment, end in zip(parts.segments, ends, strict=True):
        is_full = segment is not parts.segments[-1]
        cuts += likely_starts(disk, segment.path, segment.start, end, target, is_full=is_full)
        segment.release()
    return cuts


def _check(
    spark: Any,
    folder: _Folder,
    parts: parts_check.PartsCheck,
    wanted: Mapping[int, parts_check.CheckedPart],
    tell: Any,
) -> None:
    """Have some parts checked, each in a task, and take up what they report."""
    numbers = list(wanted)
    work = partial(_check_part, folder)
    frame = spread(spark, list(wanted.items()), work, "number int, report binary")
    rows = {
        row["number"]: row["report"] for row in collected(spark, frame, _step(tell), "checking")
    }
    for number in numbers:
        report = msgspec.msgpack.decode(rows[number], type=parts_check.PartReport)
        parts.take(number, wanted[number], report)


def _step(tell: Any) -> Step:
    """Return a progress of tasks, which has a name for them already."""
    return lambda _what, done, total=0: tell(done, total)


def _check_part(folder: _Folder, item: tuple[int, parts_check.CheckedPart]) -> Iterator[Any]:
    """Check one part; runs in a worker."""
    number, part = item
    report = parts_check.check_part(folder.disk(), folder.path, part)
    columns = [pa.array([number], pa.int32()), pa.array([msgspec.msgpack.encode(report)])]
    yield pa.RecordBatch.from_arrays(columns, names=["number", "report"])


def _in_themselves(
    spark: Any, folder: _Folder, files: Sequence[parts_check.CheckedIndexFile], tell: Any
) -> list[Finding]:
    """Check the files of the index, each in a task."""
    return _found(spark, files, partial(_check_file, folder), tell)


def _found(spark: Any, items: Sequence[Any], work: Any, tell: Any) -> list[Finding]:
    """Return what tasks find, in the order of their items."""
    frame = spread(spark, list(enumerate(items)), work, "number int, findings binary")
    rows = collected(spark, frame, _step(tell), "checking")
    rows.sort(key=lambda row: int(row["number"]))
    findings: list[Finding] = []
    for row in rows:
        findings += msgspec.msgpack.decode(row["findings"], type=list[Finding])
    return findings


def _check_file(folder: _Folder, item: tuple[int, parts_check.CheckedIndexFile]) -> Iterator[Any]:
    """Check one file of the index; runs in a worker."""
    number, file = item
    yield _told(number, file.check(folder.disk()))


def _walk(
    folder: _Folder, rest: parts_check.IndexRest | None, item: tuple[int, bool]
) -> Iterator[Any]:
    """Check what is checked in the order of the log; runs in a worker."""
    number, has_batches = item
    found = parts_check.check_in_one_walk(
        folder.disk(), folder.path, has_batches=has_batches, index=rest
    )
    yield _told(number, found)


def _told(number: int, found: list[Finding]) -> Any:
    columns = [pa.array([number], pa.int32()), pa.array([msgspec.msgpack.encode(found)])]
    return pa.RecordBatch.from_arrays(columns, names=["number", "findings"])


def _report(
    disk: Disk, folder: _Folder, parts: parts_check.PartsCheck, findings: Sequence[Finding]
) -> FsckReport:
    reports = parts.reports()
    rules = Counter(finding.rule.name for finding in findings)
    left_out = sum(report.left_out for report in reports)
    return FsckReport(
        start=parts.start,
        end=reports[-1].end if reports else parts.start,
        messages=sum(report.records for report in reports),
        bytes=sum(report.bytes for report in reports),
        wrong_checksums=sum(report.wrong_checksums for report in reports),
        breaks=sum(len(report.damage) for report in reports),
        is_open=check.is_open(disk, folder.path),
        not_told=left_out + max(len(findings) - FINDINGS_MAX, 0),
        broken=[{"rule": rule, "findings": count} for rule, count in sorted(rules.items())],
        findings=[_row(finding, folder.path) for finding in findings[:FINDINGS_MAX]],
        ranges=[_range(report) for report in reports],
    )


def _row(finding: Finding, folder: str) -> dict[str, Any]:
    return {
        "rule": finding.rule.name,
        "file": finding.path.removeprefix(f"{folder}/"),
        "position": finding.position,
        "expected": finding.expected,
        "found": finding.found,
        "physical_offset": finding.record if finding.record >= 0 else None,
    }


def _range(report: parts_check.PartReport) -> dict[str, Any]:
    return {
        "start": report.start,
        "end": report.end,
        "first": report.first if report.records else None,
        "last": report.last if report.records else None,
        "messages": report.records,
        "bytes": report.bytes,
        "wrong_checksums": report.wrong_checksums,
        "breaks": len(report.damage),
    }
