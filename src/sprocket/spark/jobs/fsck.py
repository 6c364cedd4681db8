"""The job `fsck`: whether a store is whole, with the findings of `sprocket store check`.

Each task scans a part of the log, with all checksums, and compares its records with the units
of their queues, inside of the worker; what it reports is one row, of a few hundred bytes where
nothing is wrong. The driver joins these rows: parts follow each other, and the runs of units that
the parts have leave no unit over (`store.repair.parts_check`). So no record enters the JVM, and
units and records are matched by what both know, the place in the log, without a shuffle.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from sprocket.base.disk import Disk, Segment
from sprocket.base.errors import SettingsError
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.store.repair import Finding, parts_check, row
from sprocket.spark.files import local_path
from sprocket.spark.jobs.job import JobOption, JobReport, PartitionBytes
from sprocket.spark.jobs.job_files import LOCAL_FILES, JobFiles, StoreFolder
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
    files.require_use(store)
    folder = files.folder(store)
    disk = folder.disk()
    parts = parts_check.PartsCheck(disk, folder.path, with_index=index)
    if parts.store.geometry.queue.engine != "files" and local_path(folder.path) is None:
        raise SettingsError(
            f"{store} has its queues in a RocksDB, which can be read on the local disk only"
        )
    parts.cut(_cuts(disk, parts.store.segments, partition_bytes))
    for asked in parts.rounds():
        asked.reports = _reports(spark, folder, asked.parts, partial(progress, asked.what))
    return _report(folder, parts, list(parts.findings()))


def _cuts(disk: Disk, segments: Sequence[Segment], partition_bytes: int) -> list[int]:
    """Return places inside of files to cut the log at, where records seem to begin.

    A cut where none does costs that a part is checked again.
    """
    ends = [segment.start + segment.file.data_end() for segment in segments]
    starts = [segment.start for segment in segments]
    target = partition_bytes or task_bytes(sum(ends) - sum(starts))
    cuts: list[int] = []
    for segment, end in zip(segments, ends, strict=True):
        is_full = segment is not segments[-1]
        cuts += likely_starts(disk, segment.path, segment.start, end, target, is_full=is_full)
        segment.release()
    return cuts


def _reports(
    spark: Any, folder: StoreFolder, parts: Sequence[parts_check.AnyPart], tell: Any
) -> list[parts_check.Report]:
    """Have some parts checked, each in a task; return what they report, in the order of parts."""
    frame = spread(
        spark, list(enumerate(parts)), partial(_checked, folder), "number int, report binary"
    )
    # What tasks do has a name already.
    rows = collected(spark, frame, lambda _what, done, total=0: tell(done, total), "checking")
    rows.sort(key=lambda row: int(row["number"]))
    return [msgspec.msgpack.decode(row["report"], type=parts_check.Report) for row in rows]


def _checked(folder: StoreFolder, item: tuple[int, parts_check.AnyPart]) -> Iterator[Any]:
    """Check one part; runs in a worker."""
    number, part = item
    report = parts_check.check_part(folder.disk(), folder.path, part)
    columns = [pa.array([number], pa.int32()), pa.array([msgspec.msgpack.encode(report)])]
    yield pa.RecordBatch.from_arrays(columns, names=["number", "report"])


def _report(
    folder: StoreFolder, parts: parts_check.PartsCheck, findings: Sequence[Finding]
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
        is_open=parts.store.is_open,
        not_told=left_out + max(len(findings) - FINDINGS_MAX, 0),
        broken=[{"rule": rule, "findings": count} for rule, count in sorted(rules.items())],
        findings=[
            row(one) | {"file": one.path.removeprefix(f"{folder.path}/")}
            for one in findings[:FINDINGS_MAX]
        ],
        ranges=[_range(report) for report in reports],
    )


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
