"""A check of log and queues in parts, which may be checked at the same time, in any process.

Theory of operation. The log is cut at places where records seem to begin. Each part is scanned
by itself (`check_part`), with the scan that a check of the whole makes; what it reports is small:
where it began and ended, what is wrong, and for each queue the runs of records whose units agree.
`PartsCheck` then joins the reports in the order of the log: each part must begin where the one
before it ended, and the runs of a queue are held against what lies between them.

A scan depends a little on what came before: where damage is, or store times go back, it decides by
the last records and the queue offsets that were taken whether other bytes are of the log's own
life. A part that met with such things, or did not begin where the one before it ended, is checked
again with what is known then. So in the end the same is found as by a check of the whole; a sound
log is read once.

The key index is compared on the way, if it is asked for: each part looks for where its entries
begin, and compares them with its records. Where these agree, and the entries of the parts follow
each other, nothing is wrong. From the first part on where they do not, or where the log is damaged,
one scan goes on to the end (`CheckedRest`).

Invariants

1. A part that is checked depends on the store and its `CheckedPart` alone.
2. When no part is to be checked again, each report is what a scan of the whole log saw there.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sprocket.base.disk import Disk
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import ScanStop
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.store.consistency import (
    CheckedLog,
    Comparison,
    EntryPlace,
    Finding,
    IndexRun,
    IndexRunCheck,
    LogCheck,
    Moment,
    Rule,
    ScannedBefore,
    UnitCheck,
    UnitRun,
    Units,
    compare,
    unread,
)
from sprocket.rocketmq.store.log import Damage
from sprocket.rocketmq.store.queue import QueueKey
from sprocket.rocketmq.store.repair import check
from sprocket.rocketmq.store.repair.store_files import StoreFiles

FINDINGS_MAX = 100_000
"""Told of one part at most: some MB. How many more there are is counted."""

R_co = TypeVar("R_co", covariant=True)


class Checkable(Protocol[R_co]):
    """What is checked by itself."""

    def check(self, store: StoreFiles) -> R_co:
        """Return what a check of it saw."""


def check_part(
    disk: Disk, folder: str, part: Checkable[R_co], geometry: Geometry | None = None
) -> R_co:
    """Check a part of a store.

    Args:
        disk: Where the store lies.
        folder: Its folder.
        part: Which part.
        geometry: Sizes of its files; None takes those it was made with.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file of the log cannot be looked into.
    """
    with closing(StoreFiles(disk, folder, geometry)) as store:
        return part.check(store)


class QueueRuns(Struct, array_like=True):
    """What one part has of one queue, and the queue offset behind it; −1 if that is as before."""

    topic: str
    queue_id: int
    runs: list[UnitRun]
    next_offset: int


class PartReport(Struct, kw_only=True):
    """What a check of one part saw; offsets without a word are physical.

    Attributes:
        start: Where it began.
        end: Where it ended: the first byte behind its records and damage.
        first: Where its first record begins, −1 without any.
        last: Where its last record begins, −1 without any.
        records: Intact records.
        bytes: Their bytes.
        damage: What holds no intact record, in order.
        breaks: Where damage begins, or a record lies that stands for damage.
        misplaced: Records that are intact except for the place that they name.
        first_at_ms: Store time of the first record.
        recent: The last two records, or those before.
        has_gone_back: Store times do not only rise.
        queues: What it has of each queue.
        findings: What is wrong with log and units.
        left_out: Findings that were too many to be told.
        unread: A queue could not be read: no unit was looked at from there on.
        index: The entries of its records, if they are as they should be.
    """

    start: int
    end: int
    first: int = -1
    last: int = -1
    records: int = 0
    bytes: int = 0
    damage: list[Damage]
    breaks: list[int]
    misplaced: list[int]
    first_at_ms: int = 0
    recent: tuple[Moment, ...]
    has_gone_back: bool
    queues: list[QueueRuns]
    findings: list[Finding]
    left_out: int = 0
    unread: Finding | None = None
    index: IndexRun | None = None

    @property
    def wrong_checksums(self) -> int:
        """How many times the scan met with a record that does not fit its checksum."""
        return sum(one.why.startswith(ScanStop.BAD_CRC.value) for one in self.damage)


class CheckedPart(Struct, frozen=True):
    """A part of the log to check: physical offsets, and what came before if that matters."""

    start: int
    until: int
    before: ScannedBefore | None = None
    with_index: bool = False

    def check(self, store: StoreFiles) -> PartReport:
        """Check its records, and their units; see `Checkable.check`."""
        scan = LogCheck(
            store.segments,
            start=self.start,
            until=self.until,
            is_open=store.is_open,
            before=self.before,
        )
        units = _PartUnits(store, scan.log)
        index = IndexRunCheck(store.index, scan.log.first, self.start)
        seen = _Seen()
        failed: dict[int, Finding] = {}
        comparisons: list[Comparison[RecordBatch]] = [scan, units]
        if self.with_index:
            comparisons.append(index)
        found = compare(seen.counted(scan.rounds()), comparisons, failed)
        findings = [one for one in found if one not in failed.values()]
        known = {} if self.before is None else self.before.next_offsets
        changed = {
            key: offset for key, offset in scan.next_offsets.items() if offset != known.get(key)
        }
        return PartReport(
            start=self.start,
            end=scan.log.end,
            first=seen.first,
            last=seen.last,
            records=seen.records,
            bytes=seen.bytes,
            damage=scan.log.damage,
            breaks=scan.log.breaks,
            misplaced=[one.place for one in scan.misplaced],
            first_at_ms=seen.first_at_ms,
            recent=scan.recent,
            has_gone_back=scan.has_gone_back,
            queues=[
                QueueRuns(*key, units.by_queue.get(key, []), changed.get(key, -1))
                for key in units.by_queue.keys() | changed.keys()
            ],
            findings=findings[:FINDINGS_MAX],
            left_out=max(len(findings) - FINDINGS_MAX, 0),
            unread=failed.get(1),
            index=index.run() if self.with_index and 2 not in failed else None,
        )


@dataclass(slots=True)
class _Seen:
    """Counts the records of a scan."""

    first: int = -1
    last: int = -1
    first_at_ms: int = 0
    records: int = 0
    bytes: int = 0

    def counted(self, rounds: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Give the same rounds."""
        for found in rounds:
            if self.first < 0:
                self.first = int(found.physical_offset[0])
                self.first_at_ms = int(found.stored_at_ms[0])
            self.last = int(found.physical_offset[-1])
            self.records += len(found)
            self.bytes += int(found.size.sum())
            yield found


class _PartUnits:
    """Compares the records of a part with their units, and keeps the runs of these.

    Attributes:
        by_queue: The runs.
    """

    def __init__(self, store: StoreFiles, log: CheckedLog) -> None:
        self.by_queue: dict[QueueKey, list[UnitRun]] = {}
        self._store = store
        self._units: dict[QueueKey, Units | None] = {}
        self._check = UnitCheck(log.entry_at, self._units_of, store.assigner())

    def _units_of(self, key: QueueKey) -> Units | None:
        if key not in self._units:
            is_batch = key[0] in self._store.batch_topics
            self._units[key] = None if is_batch else self._store.queues.units(key)
        return self._units[key]

    def start(self) -> Iterable[Finding]:
        """Queues are looked at when they come."""
        return ()

    def take(self, found: RecordBatch, /) -> Iterator[Finding]:
        """Compare the units of some records."""
        for key, run, findings in self._check.runs(found):
            yield from findings
            _add(self.by_queue.setdefault(key, []), run)

    def finish(self) -> Iterable[Finding]:
        """What lies behind the last records, all parts together tell."""
        return ()


def _add(runs: list[UnitRun], run: UnitRun) -> None:
    """Add a run to those of its queue; it may go on with the last one."""
    before = runs[-1] if runs else None
    if before is None or before.next != run.first:
        runs.append(run)
        return
    before.next, before.reached = run.next, run.reached
    before.missing += run.missing


class CheckedIndexFile(Struct, frozen=True):
    """A file of the index that is to be checked in itself; see `IndexFolder.check`."""

    path: str

    def check(self, store: StoreFiles) -> list[Finding]:
        """Return what does not agree in it, or that it cannot be read; see `Checkable.check`."""
        try:
            found = store.index.check(self.path, is_open=store.is_open)
            return list(islice(found, FINDINGS_MAX))
        except FileMissing:
            raise
        except DiskFailed as error:
            return [unread(error.path, error)]


class IndexRest(Struct, frozen=True):
    """What one scan is to compare of the index: from where, and what is known before that."""

    start: int
    before: ScannedBefore
    agreed: IndexRun | None


class CheckedRest(Struct, frozen=True):
    """What can only be held against the log in its order: batch queues, and the index.

    Attributes:
        has_batches: Whether there are batch queues.
        index: What to check of the index; files in themselves are not.
    """

    has_batches: bool
    index: IndexRest | None = None

    def check(self, store: StoreFiles) -> list[Finding]:
        """Check it in one scan; see `Checkable.check`.

        Cost: what is asked for of the log is read once, with all checksums, and so is the index.
        """
        index = self.index
        agreed = IndexRun(EntryPlace(0, 1), EntryPlace(0, 1), -1, [])
        scan = LogCheck(store.segments, is_open=store.is_open)
        if index is not None and index.agreed is not None and not self.has_batches:
            agreed, start, before = index.agreed, index.start, index.before
            scan = LogCheck(store.segments, is_open=store.is_open, start=start, before=before)
        parts: list[Comparison[RecordBatch]] = []
        if self.has_batches:
            parts.append(store.batch_check(scan.log))
        if index is not None:
            parts.append(store.index_check(scan.log, agreed))
        return list(compare(scan.rounds(), parts))


Report: TypeAlias = PartReport | list[Finding]
AnyPart: TypeAlias = Checkable[Report]


@dataclass(slots=True)
class Round:
    """Parts that may be checked at the same time.

    Attributes:
        what: What that is, as people read it.
        parts: The parts.
        reports: What `check_part` returned for each, set by the caller that has them checked.
    """

    what: str
    parts: Sequence[AnyPart]
    reports: Sequence[Report] = ()


class PartsCheck:
    """Joins what checks of all parts of a store reported, until it is what `check` says.

    `cut` the log, have the parts of each of the `rounds` checked, then read `findings`.

    Args:
        disk: Where the store lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        with_index: Compare the key index, too.

    Attributes:
        store: What there is of the store.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        geometry: Geometry | None = None,
        *,
        with_index: bool = False,
    ) -> None:
        """Look at the files of the log; raises as `StoreFiles`."""
        self.store = StoreFiles(disk, folder, geometry)
        self._with_index = with_index
        self._offsets = self.store.offsets()
        self._parts: list[CheckedPart] = []
        self._asked: dict[int, CheckedPart] = {}
        self._told: dict[int, PartReport] = {}
        self._others: list[Finding] = []
        """What is wrong with the index and batch queues."""

    @property
    def start(self) -> int:
        """Where the log begins."""
        return self.store.segments[0].start if self.store.segments else 0

    def cut(self, places: Iterable[int]) -> None:
        """Take up where parts begin: where files do, and at places where records seem to."""
        files = [segment.start for segment in self.store.segments]
        inside = {place for place in places if self._is_inside(place)}
        starts = sorted({*files, *inside})
        bounds = pairwise([*starts, ANYWHERE])
        self._parts = [
            CheckedPart(start, until, with_index=self._with_index) for start, until in bounds
        ]

    def _is_inside(self, place: int) -> bool:
        """Say whether a place lies in a file that is there."""
        segments = self.store.segments
        at = bisect_right(segments, place, key=lambda segment: segment.start) - 1
        return at >= 0 and place < segments[at].end

    def rounds(self) -> Iterator[Round]:
        """Give what is to be checked, again and again; the next round needs the reports of one."""
        what = "checking"
        while wanted := self._wanted():
            asked = Round(what, [*wanted.values()])
            yield asked
            self._asked |= wanted
            for number, report in zip(wanted, asked.reports, strict=True):
                assert isinstance(report, PartReport)
                self._told[number] = report
            what = "checking again"
        rest = None
        if self._with_index:
            files = [CheckedIndexFile(path) for path in self.store.index.paths(self._others)]
            yield from self._ask("checking the index", files)
            rest = self.index_rest()
        has_batches = bool(self.store.batch_topics)
        if rest is not None or has_batches:
            yield from self._ask("checking in one scan", [CheckedRest(has_batches, rest)])

    def _ask(self, what: str, parts: Sequence[AnyPart]) -> Iterator[Round]:
        """Have the findings of some parts told, if there are any parts."""
        if parts:
            asked = Round(what, parts)
            yield asked
            for report in asked.reports:
                assert isinstance(report, list)
                told = {one.path for one in self._others if one.rule is Rule.FILE_READ}
                self._others += [
                    one for one in report if one.rule is not Rule.FILE_READ or one.path not in told
                ]

    def _wanted(self) -> dict[int, CheckedPart]:
        """Return the parts that are to be checked, or checked again, by their numbers."""
        wanted: dict[int, CheckedPart] = {}
        before = ScannedBefore()
        at = self.start
        for number, part in enumerate(self._parts):
            if at >= part.until:
                continue  # the part before reaches over it
            told = self._told.get(number)
            if told is None:
                wanted[number] = replace(part, start=at)
                at = part.until
                continue
            exact = replace(part, start=at, before=before)
            if not _is_final(self._asked[number], told, exact):
                wanted[number] = exact
            if told.end < part.until:
                break  # the log ends here
            at, before = told.end, _after(before, told)
        return wanted

    def reports(self) -> list[PartReport]:
        """Return what is known of the log, in its order; final when no part is wanted."""
        reports = []
        at = self.start
        for number, part in enumerate(self._parts):
            if at >= part.until:
                continue
            reports.append(self._told[number])
            at = reports[-1].end
            if at < part.until:
                break
        return reports

    def index_rest(self) -> IndexRest | None:
        """Return from where on one scan is to compare the index, None if there is no need.

        It is known when no part of the log is wanted any more.
        """
        files = self.store.index.paths([])
        if not files and self.store.keeps_no_index():
            return None
        before, agreed = ScannedBefore(), None
        for report in self.reports():
            run = report.index
            joins = run is not None and (agreed is None or agreed.next == run.first)
            if not joins or report.damage or report.misplaced:
                return IndexRest(report.start, before, agreed)
            assert run is not None
            last = agreed if agreed is not None and run.last < 0 else run
            agreed = IndexRun(run.first, run.next, last.last, last.last_hashes)
            before = _after(before, report)
        if agreed is not None and agreed.next.file < len(files):
            return IndexRest(self.reports()[-1].end, before, agreed)
        return None

    def findings(self) -> Iterator[Finding]:
        """Give all that is wrong, when there is no further round."""
        reports = self.reports()
        yield from self.store.wrong
        for report in reports:
            yield from report.findings
        end = reports[-1].end if reports else None
        log = CheckedLog(self.store.segments, is_open=self.store.is_open, end=end)
        log.breaks = [place for report in reports for place in report.breaks]
        unread = {one.unread.path: one.unread for one in reports if one.unread is not None}
        yield from unread.values()
        with closing(self.store):
            if not unread:
                yield from compare(_runs(reports, log), [self.store.queue_check(log)])
            next_offsets = {
                (queue.topic, queue.queue_id): queue.next_offset
                for report in reports
                for queue in report.queues
                if queue.next_offset >= 0
            }
            yield from check.rest(self.store, log, self._offsets, next_offsets)
        yield from self._others


def _is_final(asked: CheckedPart, told: PartReport, exact: CheckedPart) -> bool:
    """Say whether a report is what it would be with all known that came before the part."""
    assert exact.before is not None
    if asked.start != exact.start:
        return False
    if (asked.before or ScannedBefore()) == exact.before:
        return True
    recent = exact.before.recent
    return not (
        told.damage
        or told.misplaced
        or told.has_gone_back
        or (told.records and recent and told.first_at_ms < recent[-1].at_ms)
        or told.end < exact.until < ANYWHERE
    )


def _after(before: ScannedBefore, report: PartReport) -> ScannedBefore:
    """Return what is known behind a part."""
    offsets = {
        (one.topic, one.queue_id): one.next_offset for one in report.queues if one.next_offset >= 0
    }
    recent = (*before.recent, *report.recent)[-2:]
    return ScannedBefore(recent, before.next_offsets | offsets)


def _runs(reports: Sequence[PartReport], log: CheckedLog) -> Iterator[tuple[QueueKey, UnitRun]]:
    """Give the runs of all queues in the order of the log, as a scan of it would.

    It comes to know the damage before each.
    """
    damage = deque(damage for report in reports for damage in report.damage)
    for report in reports:
        runs = [
            (run.place, (queue.topic, queue.queue_id), run)
            for queue in report.queues
            for run in queue.runs
        ]
        for place, key, run in sorted(runs, key=lambda one: one[:2]):
            while damage and damage[0].start < place:
                log.damage.append(damage.popleft())
            yield key, run
    log.damage += damage
